"""What a channel's provider must be able to do."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from shared.channel import Channel
from shared.content import Content
from shared.ids import EventId, JobId, ScopeId, job_uuid
from shared.job import JobReason, JobStatus
from shared.tenant import ScopedTenant
from shared.verdict import Verdict


@dataclass(slots=True)
class Progress:
    """How far an attempt has come, readable when it is cut off.

    ``handed_over``: the provider may have everything it needs to deliver. It sets this before the last byte
    leaves, so that a cut-off attempt is never taken for one that certainly did not go out.
    """

    handed_over: bool = False


@dataclass(frozen=True, slots=True)
class Parcel:
    """One job as a provider sees it: what to send, on whose behalf, and which attempt this is.

    ``attempt`` counts from 1. ``possible_duplicate``: an earlier copy may already have gone out.
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
    progress: Progress = field(default_factory=Progress)

    @property
    def stable_id(self) -> UUID:
        """The same at every attempt of this job: for Message-ID and collapse keys."""
        return job_uuid(self.event_id, self.channel)


@dataclass(frozen=True, slots=True)
class TargetResult:
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
    """

    verdict: Verdict | Ended
    results: tuple[TargetResult, ...]
    delivered_any: bool


class Provider(Protocol):
    """One way out of a channel. It never raises: whatever happens becomes a verdict."""

    name: str
    """The word stored in ``attempts.provider``."""

    async def send(self, parcel: Parcel) -> Verdict | Folded:
        """What became of one attempt.

        The caller bounds it by the attempt timeout and may cancel it: then ``parcel.progress`` says how far it came.
        """

    async def close(self) -> None:
        """Give back every connection."""
