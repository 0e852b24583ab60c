"""What a channel's provider must be able to do."""

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from shared.channel import Channel
from shared.content import Content
from shared.ids import EventId, JobId, ScopeId, job_uuid
from shared.tenant import ScopedTenant
from shared.verdict import Verdict


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

    @property
    def stable_id(self) -> UUID:
        """The same at every attempt of this job: for Message-ID and collapse keys."""
        return job_uuid(self.event_id, self.channel)


class Provider(Protocol):
    """One way out of a channel. It never raises: whatever happens becomes a verdict."""

    name: str
    """The word stored in ``attempts.provider``."""

    async def send(self, parcel: Parcel) -> Verdict:
        """What became of one attempt. The caller bounds it by the attempt timeout and may cancel it."""

    async def close(self) -> None:
        """Give back every connection."""
