"""Which recipient is asking: subscriber tokens, verified under the secret of the scope they name."""

import time
from dataclasses import dataclass
from datetime import timedelta

from shared.ids import ScopeId
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.tenants import find_scope
from shared.web.problems import unauthorized
from shared.web.tokens import Subscriber, scope_of_token, verify_subscriber_token

REMEMBERED_FOR = timedelta(seconds=4)
"""How long a secret stands before it is read again: a changed one is effective within seconds."""
MOST_REMEMBERED = 10_000
_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class _Remembered:
    secret: bytes | None
    read_at: float


class Subscribers:
    """The secrets of the scopes that this process has met, and the tokens signed with them."""

    def __init__(self, database: Database, sealer: Sealer, within: timedelta) -> None:
        """``within``: how long a request waits for a secret."""
        self._database = database
        self._sealer = sealer
        self._within = within
        self._known: dict[ScopeId, _Remembered] = {}

    async def require(self, authorization: str | None) -> Subscriber:
        """Whom the header ``Authorization`` speaks for. Raises Problem 401, StoreUnavailable or SealError."""
        if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
            raise unauthorized("token_missing", "Send the recipient's token as Authorization: Bearer ….")
        token = authorization[len(_SCHEME) :].strip()
        scope_id = scope_of_token(token)
        secret = await self._secret_of(scope_id)
        if secret is None:
            # The same words as for a wrong signature: nobody learns which scopes there are.
            raise unauthorized("token_invalid", "The token is not valid.")
        return verify_subscriber_token(token, secret, scope_id)

    async def _secret_of(self, scope_id: ScopeId) -> bytes | None:
        known = self._known.get(scope_id)
        if known is not None and time.monotonic() - known.read_at < REMEMBERED_FOR.total_seconds():
            return known.secret
        read_at = time.monotonic()
        async with self._database.begin(self._within) as connection:
            scope = await find_scope(connection, scope_id)
        secret = None if scope is None else self._sealer.open(scope.subscriber_secret, f"scope:{scope_id}")
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[scope_id] = _Remembered(secret, read_at)
        return secret
