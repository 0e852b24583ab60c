"""What keeps a message from somebody: an address that is dead or complained, and what its owner does not want."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.address import normal_address
from shared.channel import Channel
from shared.ids import EventId, ScopeId
from shared.rendering.decide import EventFacts, Wishes
from shared.store.database import HotConnection
from shared.store.preferences import unwanted_among
from shared.store.suppressions import suppressed_of_scopes
from shared.tenant import ScopedTenant


@dataclass(frozen=True, slots=True)
class Addressed:
    """One event with what is to be asked of it."""

    scope_id: ScopeId
    tenant: ScopedTenant
    facts: EventFacts

    @property
    def category(self) -> str | None:
        """The category that can be switched off: none of a critical one, nor of an unknown type."""
        event_type = self.tenant.tenant.event_types.get(self.facts.event_type)
        if event_type is None or event_type.category is None:
            return None
        category = self.tenant.tenant.categories.get(event_type.category)
        return None if category is not None and category.critical else event_type.category


async def wishes_of(pg: HotConnection, addressed: Sequence[Addressed]) -> Mapping[EventId, Wishes]:
    """What holds for each of ``addressed``: two reads, however many there are."""
    mails = {
        (one.scope_id, normal_address(one.facts.recipient.email)) for one in addressed if one.facts.recipient.email
    }
    asked = {(one.scope_id, one.facts.recipient.id, one.category) for one in addressed if one.category is not None}
    suppressed = await suppressed_of_scopes(pg, Channel.EMAIL, mails) if mails else set()
    unwanted = await unwanted_among(pg, asked) if asked else set()
    return {
        one.facts.event_id: Wishes(
            frozenset(
                channel
                for wanting, channel in unwanted
                if wanting == (one.scope_id, one.facts.recipient.id, one.category)
            ),
            (one.scope_id, normal_address(one.facts.recipient.email or "")) in suppressed,
        )
        for one in addressed
    }
