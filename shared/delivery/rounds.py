"""Whose turn it is: the lanes known to have due jobs, and how many of each the next claim may take."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from shared.channel import Channel
from shared.delivery.dealing import NOBODY, Dealer, any_number
from shared.delivery.lookout import Lookout
from shared.delivery.wake import Doorbell
from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import Claim, Head, LaneKey, Share
from shared.store.database import Database

FRESH_LANES = (Lane.TRANSACTIONAL, Lane.BULK)
"""The lanes new jobs are in: a wake speaks of new jobs only."""
SUSPECTED_LIMIT = 8
"""How many lanes are searched for a suspect at once."""


class Rounds:
    """The lanes with due jobs as this process knows them: from wakes at once, from the table every second."""

    def __init__(self, channel: Channel, slots: int) -> None:
        self._lookout = Lookout(channel)
        self._dealer = Dealer(slots)
        self._suspected: dict[LaneKey, Head] = {}
        self._has_more = False
        self._sees_due = False

    def __bool__(self) -> bool:
        """Whether another claim at once may bring something.

        Not so when every lane that waits is held back: by a pause, by what its scope holds already, or by the
        slots that are kept. Then a slot that comes free changes it, or news, or time.
        """
        return self._has_more

    @property
    def has_waiting(self) -> bool:
        """Whether a lane is known that waits: for a slot, or for a pause to end."""
        return bool(self._dealer or self._suspected)

    @property
    def next_look_seconds(self) -> float | None:
        """How long to wait at most for the next look while there are due jobs, in whoever's hands; None without any.

        A lease may end, and a wake may have been for a retried job, in a lane that it does not speak of.
        """
        return self._lookout.next_look_seconds if self._sees_due else None

    async def look(self, bell: Doorbell, database: Database) -> None:
        """Take in what the bell says, and ask the table where due jobs are when it is time to."""
        for scope_id in bell.take():
            for lane in FRESH_LANES:
                self._add((scope_id, lane))
            self._sees_due = True
        if bell.take_anywhere():
            self._lookout.hurry()
        found = await self._lookout.find(database)
        if found is not None:
            for head in found:
                self._add(head.key)
            self._suspected = {head.key: head for head in found if head.suspect}
            self._sees_due = bool(found)

    def _add(self, key: LaneKey) -> None:
        self._dealer.add(key)
        self._has_more = True

    def shares(
        self,
        free: int,
        busy: Mapping[ScopeId, int] = NOBODY,
        most_of: Callable[[ScopeId], int] = any_number,
    ) -> list[Share]:
        """What the next claim may take of each lane, ``free`` jobs together at most; [] when all are held back.

        ``busy`` says how many jobs of a scope are in flight here, ``most_of`` how many more may be claimed now.
        """
        quotas = self._dealer.deal(free, busy, most_of)
        self._has_more = bool(quotas)
        return [Share(Head(*key, self._lookout.low_of(key)), quota) for key, quota in quotas.items()]

    def note_taken(self, shares: Sequence[Share], taken: Iterable[LaneKey]) -> None:
        """Forget the lanes that gave less than their share: they are empty until the next wake or look."""
        counts = Counter(taken)
        for share in shares:
            if counts[share.head.key] < share.quota:
                self._dealer.remove(share.head.key)
        self._has_more = bool(self._dealer)

    def suspected(self, most_of: Callable[[ScopeId], int] = any_number) -> list[Head]:
        """Lanes whose oldest job may have killed two workers: to be claimed alone, by who holds no other such job."""
        allowed = [head for head in self._suspected.values() if most_of(head.scope_id) > 0]
        return allowed[:SUSPECTED_LIMIT]

    def note_suspect(self, heads: Sequence[Head], taken: Claim | None) -> None:
        """Forget ``heads`` when none of them had a suspect that was free."""
        if taken is None:
            for head in heads:
                self._suspected.pop(head.key, None)
