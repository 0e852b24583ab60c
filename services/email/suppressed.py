"""Whether an address is suppressed by now: asked right before each mail, in one statement for all that ask at once."""

import asyncio
from datetime import timedelta

from shared.address import normal_address
from shared.channel import Channel
from shared.ids import ScopeId
from shared.store.database import Database
from shared.store.suppressions import suppressed_of_scopes

Asked = tuple[ScopeId, str]


class SuppressionList:
    """The list as it is now. Whoever asks while a read is under way is answered by the next one, never by an older."""

    def __init__(self, database: Database, within: timedelta) -> None:
        """``within``: how long one read may take."""
        self._database = database
        self._within = within
        self._waiting: dict[Asked, asyncio.Future[bool]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def has(self, scope_id: ScopeId, address: str) -> bool:
        """Whether the scope suppresses ``address``. Raises StoreUnavailable."""
        asked = scope_id, normal_address(address)
        answer = self._waiting.get(asked)
        if answer is None:
            answer = self._waiting[asked] = asyncio.get_running_loop().create_future()
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        return await asyncio.shield(answer)

    async def _read(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            try:
                async with self._database.hot(self._within) as pg:
                    found = await suppressed_of_scopes(pg, Channel.EMAIL, waiting.keys())
            except Exception as exc:  # noqa: BLE001 - it belongs to those who wait
                for answer in waiting.values():
                    answer.set_exception(exc)
                    answer.exception()  # whoever asked may have gone
            else:
                for asked, answer in waiting.items():
                    answer.set_result(asked in found)
