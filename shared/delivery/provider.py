"""What a channel's provider must be able to do."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

import msgspec

from shared.channel import Channel
from shared.content import Content
from shared.delivery.witnesses import Recipient
from shared.ids import EventId, JobId, ScopeId, TenantId, job_uuid
from shared.job import JobReason, JobStatus
from shared.tenant import ScopedTenant
from shared.verdict import Verdict

CUT_OFF = "cut_off"
"""The code of an attempt that was ended before its time, because the worker has to stop."""


class Progress(msgspec.Struct, gc=False):
    """How far an attempt has come, readable when it is cut off.

    ``handed_over``: the provider may have everything it needs to deliver. It sets this before the last byte
    leaves, so that a cut-off attempt is never taken for one that certainly did not go out. ``circuit``: what the
    attempt goes through, once that is known and where it is one for the whole job.
    """

    handed_over: bool = False
    circuit: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """Not tried: what it would go through is paused or broken. It is due again after ``wait``, and nothing counts."""

    wait: timedelta


class Gate(Protocol):
    """Says what may go through a circuit (a relay, an FCM project, a push host), and learns what became of it."""

    def held(self, circuit: str, tenant_id: TenantId, recipient: Recipient | None = None) -> Held | None:
        """None when a job of the tenant, for ``recipient``, may go through ``circuit`` now."""

    async def told(
        self, circuit: str, tenant_id: TenantId, verdict: Verdict, unanswered: int, recipient: Recipient | None = None
    ) -> Verdict:
        """``verdict`` as it stands beside what others meet on ``circuit``."""

    def is_paused(self, tenant_id: TenantId, channel: Channel) -> bool:
        """Whether an operator has paused the tenant on ``channel``."""


class OpenGate:
    """Lets everything through: for a provider on its own."""

    def held(self, _circuit: str, _tenant_id: TenantId, _recipient: Recipient | None = None) -> Held | None:
        """Nothing is held."""
        return None

    async def told(
        self,
        _circuit: str,
        _tenant_id: TenantId,
        verdict: Verdict,
        _unanswered: int,
        _recipient: Recipient | None = None,
    ) -> Verdict:
        """``verdict``."""
        return verdict

    def is_paused(self, _tenant_id: TenantId, _channel: Channel) -> bool:
        """Nothing is paused."""
        return False


OPEN_GATE = OpenGate()


class Parcel(msgspec.Struct, frozen=True):
    """One job as a provider sees it: what to send, on whose behalf, and which attempt this is.

    ``attempt`` counts from 1. ``possible_duplicate``: an earlier copy may already have gone out. ``unanswered``
    silences in a row came before this attempt. Nothing is sent but through the ``gate``.
    """

    job_id: JobId
    event_id: EventId
    scope_id: ScopeId
    channel: Channel
    recipient_id: str
    content: Content
    tenant: ScopedTenant
    attempt: int
    possible_duplicate: bool
    progress: Progress = msgspec.field(default_factory=Progress)
    unanswered: int = 0
    gate: Gate = OPEN_GATE

    def held_on(self, circuit: str) -> Held | None:
        """None when the whole job may go through ``circuit`` now."""
        self.progress.circuit = circuit
        return self.gate.held(circuit, self.tenant.tenant_id)

    @property
    def recipient(self) -> Recipient:
        """Whom it is for, among the recipients of all tenants."""
        return self.scope_id, self.recipient_id

    @property
    def stable_id(self) -> UUID:
        """The same at every attempt of this job: for Message-ID and collapse keys."""
        return job_uuid(self.event_id, self.channel)


class TargetResult(msgspec.Struct, frozen=True, gc=False):
    """What one target of a recipient answered."""

    target_id: int
    provider: str
    verdict: Verdict
    started_at: datetime
    took: timedelta


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is over although no provider said so: there was nothing to ring, or nothing left to."""

    status: JobStatus
    reason: JobReason


@dataclass(frozen=True, slots=True)
class Folded:
    """The answers of several targets and what they come to.

    ``delivered_any``: some target has it, now or from an earlier round; a job that then ends otherwise is
    SENT ``partial``. A Rejected with ``target_dead`` among ``results`` forgets that target with the verdict.
    A provider that folds tells the gate what each target met, and is held there target by target.
    """

    verdict: Verdict | Ended | Held
    results: tuple[TargetResult, ...]
    delivered_any: bool


class Provider(Protocol):
    """One way out of a channel. It never raises: whatever happens becomes a verdict."""

    name: str
    """The word stored in ``attempts.provider``."""

    async def send(self, parcel: Parcel) -> Verdict | Folded | Held:
        """What became of one attempt.

        The caller bounds it by the attempt timeout and may cancel it: then ``parcel.progress`` says how far it came.
        """

    def circuits(self, tenant: ScopedTenant) -> frozenset[str]:
        """Those of which each of the tenant's jobs takes one, as far as that is known; else empty."""

    async def learn(self, tenant: ScopedTenant) -> None:
        """Look again which circuits the tenant's jobs take: they were seen to be blocked."""

    async def close(self) -> None:
        """Give back every connection."""
