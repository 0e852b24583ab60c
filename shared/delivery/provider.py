"""What a channel's provider must be able to do."""

from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from shared.channel import Channel
from shared.content import Content
from shared.ids import EventId, JobId, ScopeId, job_uuid
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


class Provider(Protocol):
    """One way out of a channel. It never raises: whatever happens becomes a verdict."""

    name: str
    """The word stored in ``attempts.provider``."""

    async def send(self, parcel: Parcel) -> Verdict:
        """What became of one attempt.

        The caller bounds it by the attempt timeout and may cancel it: then ``parcel.progress`` says how far it came.
        """

    async def close(self) -> None:
        """Give back every connection."""
