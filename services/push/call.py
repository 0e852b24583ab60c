"""One target being rung, so that whatever becomes of the others its own result is known."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from services.push.message import Letter
from services.push.roads import Road
from shared.delivery.provider import CUT_OFF, Progress, TargetResult
from shared.logs import get_logger
from shared.store.ringing import TargetState
from shared.verdict import NoVerdict, Verdict

log = get_logger()

CUT_OFF_SECONDS = 0.5
"""What calls get to notice that they were cut off."""


@dataclass(slots=True)
class Call:
    """One message to one target. Its instants are the database's, by whose clock targets are registered.

    ``seen_at`` is that clock's word when ours (monotonic) said ``seen``; ``job`` is the job's whole progress.
    """

    target: TargetState
    road: Road
    job: Progress
    seen_at: datetime
    seen: float
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    handed_over: bool = False

    @property
    def circuit(self) -> str | None:
        """What breaks or is paused as a whole on its way."""
        return self.road.circuit(self.target)

    async def run(self, letter: Letter) -> Verdict:
        """What was answered on behalf of this target."""
        try:
            return await self.road.ring(self.target, letter, self._leaving)
        finally:
            self.ended = time.monotonic()

    def result(self, verdict: Verdict) -> TargetResult:
        """``verdict`` with when it came."""
        return TargetResult(
            self.target.target_id,
            self.target.kind,
            verdict,
            self.seen_at + timedelta(seconds=self.began - self.seen),
            timedelta(seconds=(self.ended or time.monotonic()) - self.began),
        )

    def _leaving(self) -> None:
        self.handed_over = True
        self.job.handed_over = True


async def make(calls: Sequence[Call], letter: Letter, deadline: float) -> tuple[TargetResult, ...]:
    """One result for each of ``calls``, at ``deadline`` (monotonic) or when we are cancelled at the latest."""
    tasks = [asyncio.create_task(call.run(letter)) for call in calls]
    code = "attempt_timeout"
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=deadline - time.monotonic())
    except asyncio.CancelledError:
        # The engine cancels to stop in time, and still wants what is known by now.
        code = CUT_OFF
    late = [task for task in tasks if not task.done()]
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=CUT_OFF_SECONDS)
    return tuple(call.result(_verdict(task, call, code)) for task, call in zip(tasks, calls, strict=True))


def _verdict(task: "asyncio.Task[Verdict]", call: Call, code: str) -> Verdict:
    if not task.done() or task.cancelled():
        return NoVerdict(handed_over=call.handed_over, code=code)
    if (failure := task.exception()) is not None:
        log.error("push.call_broke", target_id=call.target.target_id, exc_info=failure)
        return NoVerdict(handed_over=call.handed_over, code="provider_failed", error=type(failure).__name__)
    return task.result()
