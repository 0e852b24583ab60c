"""Who is calling: API keys checked before the database is asked, and remembered for a few seconds."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from litestar.connection import ASGIConnection, Request
from litestar.datastructures import State
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler

from shared.errors import StoreUnavailable
from shared.ids import ScopeId
from shared.keys import OPERATIONS, PREFIXES, hash_key, is_key
from shared.lifecycle import Part, stopped_within
from shared.logs import get_logger
from shared.store.database import Database
from shared.store.keys import ApiKey, find_key, note_uses
from shared.web.description import describe_answers
from shared.web.problems import problem, unauthorized

log = get_logger()

REMEMBERED_FOR = timedelta(seconds=4)
"""How long an answer of the database stands: with the look-up itself a revocation is effective in five seconds."""
MOST_REMEMBERED = 10_000
NOTE_EVERY_SECONDS = 10.0
_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """The key behind a request, and the scope it speaks for."""

    key_id: int
    scope_id: ScopeId


KeyRequest: TypeAlias = Request[None, Caller, State]
"""A request that passed the guard; ``auth`` is its caller."""


class KeyRing:
    """The keys of one process: looked up once, remembered for seconds, their uses noted off the request path."""

    def __init__(self, database: Database, within: timedelta, remembered_for: timedelta = REMEMBERED_FOR) -> None:
        """``within``: how long a request waits for the look-up."""
        self._database = database
        self._within = within
        self._remembered_for = remembered_for
        self._known: dict[bytes, tuple[ApiKey, float]] = {}
        self._asking: dict[bytes, asyncio.Task[ApiKey | None]] = {}
        self._uses: dict[int, datetime] = {}

    async def require(self, authorization: str | None, operation: str) -> Caller:
        """The caller behind the header ``Authorization``, who may do ``operation``. Raises Problem 401 or 403."""
        key = await self._find(_read_header(authorization))
        now = datetime.now(UTC)
        if key.revoked_at is not None:
            raise unauthorized("key_revoked", "The API key was revoked.")
        if key.expires_at is not None and key.expires_at <= now:
            raise unauthorized("key_expired", "The API key has expired.")
        if (needed := OPERATIONS[operation]) not in key.permissions:
            raise problem("permission_missing", f"The API key has no permission {needed}.")
        self._uses[key.key_id] = now
        return Caller(key.key_id, key.scope_id)

    def part(self) -> Part:
        """The part that writes down when keys were last used."""
        return Part("key-uses", self._note_uses)

    async def _find(self, text: str) -> ApiKey:
        digest = hash_key(text)
        known = self._known.get(digest)
        if known is not None and time.monotonic() - known[1] < self._remembered_for.total_seconds():
            return known[0]
        found = await self._ask_once(digest)
        if found is None:
            raise unauthorized("key_unknown", "Nobody knows this API key.")
        return found

    async def _ask_once(self, digest: bytes) -> ApiKey | None:
        """Many requests with one key wait for one look-up, which outlives any of them."""
        asking = self._asking.get(digest)
        if asking is None:
            asking = self._asking[digest] = asyncio.create_task(self._ask(digest))
            # Every request that waits may be gone when it fails.
            asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(asking)

    async def _ask(self, digest: bytes) -> ApiKey | None:
        asked_at = time.monotonic()
        try:
            async with self._database.hot(self._within) as pg:
                found = await find_key(pg, digest)
        finally:
            del self._asking[digest]
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        if found is not None:
            self._known[digest] = found, asked_at
        return found

    async def _note_uses(self, stop: asyncio.Event) -> None:
        while not await stopped_within(stop, NOTE_EVERY_SECONDS):
            await self._write_uses()
        await self._write_uses()

    async def _write_uses(self) -> None:
        uses, self._uses = self._uses, {}
        if not uses:
            return
        try:
            async with self._database.hot() as pg:
                await note_uses(pg, uses)
        except StoreUnavailable as exc:
            log.warning("key_uses.not_written", keys=len(uses), error=str(exc))
            self._uses = {**uses, **self._uses}


def guarded(keys: KeyRing, routes: Sequence[HTTPRouteHandler]) -> list[HTTPRouteHandler]:
    """``routes``, each closed to whoever has no key for its ``operation_id``, and saying so in its description.

    All of them must be in OPERATIONS.
    """
    if unknown := [route.operation_id for route in routes if route.operation_id not in OPERATIONS]:
        raise LookupError(f"no permission is named for {unknown}")

    async def check(connection: ASGIConnection[Any, Any, Any, Any], route: BaseRouteHandler) -> None:
        operation = str(getattr(route, "operation_id", None))
        connection.scope["auth"] = await keys.require(connection.headers.get("authorization"), operation)

    for route in routes:
        route.guards = (*(route.guards or ()), check)
        describe_answers(route)
    return list(routes)


def _read_header(authorization: str | None) -> str:
    if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
        raise unauthorized("key_missing", "Send an API key as Authorization: Bearer wb_live_… or wb_test_….")
    text = authorization[len(_SCHEME) :].strip()
    if not is_key(text):
        begins = " or ".join(PREFIXES.values())
        what = "is cut off or mistyped" if text.startswith(tuple(PREFIXES.values())) else f"must begin with {begins}"
        raise unauthorized("key_malformed", f"The API key {what}.")
    return text
