"""A recipient of a test's own: what is posted for them, and what really reached them."""

from typing import Any

import httpx

from shared.store.database import Database
from tests.fakes.installation import Installation
from tests.fakes.smtp import Mail


class Somebody:
    """A recipient of a test's own, with one phone."""

    def __init__(self, name: str, installation: Installation, database: Database) -> None:
        self.name = name
        self.phone = f"phone-of-{name}"
        self._installation = installation
        self._database = database

    async def post(self, **changes: Any) -> httpx.Response:
        """The answer to one booking confirmed for them."""
        recipient = {"id": self.name, "name": self.name, "email": f"{self.name}@example.com", "locale": "en"}
        return await self._installation.post(**{"recipient": recipient} | changes)

    async def accepted(self, **changes: Any) -> str:
        """The id of a booking confirmed for them, which was accepted."""
        answer = await self.post(**changes)
        assert answer.status_code == 202, answer.text
        event_id: str = answer.json()["id"]
        return event_id

    def mails(self) -> list[Mail]:
        """The mails that the relay took for them."""
        return [mail for mail in self._installation.sink.mails if mail.envelope_to == (f"{self.name}@example.com",)]

    async def got(self) -> dict[str, int]:
        """How many mails the relay took for them, how often their phone rang, and how many entries they have."""
        async with self._database.hot() as pg:
            entry_count = await pg.fetchval("SELECT count(*) FROM inbox WHERE recipient_id = $1", self.name)
        return {
            "email": len(self.mails()),
            "push": len(self._installation.fcm.rung(self.phone)),
            "inapp": entry_count,
        }
