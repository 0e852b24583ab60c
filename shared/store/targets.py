"""Push targets: where a recipient can be rung. A token belongs to one recipient per scope, the last to register it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.change import TargetEnd
from shared.ids import ScopeId
from shared.store.changes import tell_targets
from shared.store.database import HotConnection
from shared.subscription import SubscriptionKeys

MOST_TARGETS = 20
"""How many targets one recipient may have."""

Kind = Literal["fcm", "webpush"]
Platform = Literal["android", "ios", "web"]


@dataclass(frozen=True, slots=True)
class StoredTarget:
    """One registered target. ``last_used_at`` is exact to a day: the next note is taken when that is over."""

    target_id: int
    recipient_id: str
    kind: Kind
    token: str = field(repr=False)
    platform: Platform | None
    app: str | None
    registered_at: datetime
    last_used_at: datetime | None

    @property
    def public_id(self) -> str:
        """The target's name outside: the same whenever this token is registered in whatever scope."""
        return public_id(self.kind, self.token)


@dataclass(frozen=True, slots=True)
class Registered:
    """A target that is registered now, and the ids of those that had to go because there were too many.

    ``moved``: until now it was another recipient's.
    """

    target: StoredTarget
    dropped: tuple[int, ...]
    moved: bool = False


def hash_token(token: str) -> bytes:
    """What tokens (and the endpoints of subscriptions) are told apart by."""
    return hashlib.sha256(token.encode()).digest()


def public_id(kind: Kind, token: str) -> str:
    """``tgt_`` and 32 hexadecimal digits, made from the token: it says nothing about other targets."""
    return f"tgt_{hashlib.sha256(f'{kind}:{token}'.encode()).hexdigest()[:32]}"


# One registration of a recipient at a time: two that count the others at once would both find room.
LOCK_RECIPIENT = text("SELECT pg_advisory_xact_lock(hashtextextended(:recipient_id, :scope_id))")

# And one registration of a token: of two recipients that register a new one at once, the second takes it from the
# first, and must see it. Whoever has this lock waits for no other: it is taken after the recipient's.
LOCK_TOKEN = text("SELECT pg_advisory_xact_lock(:scope_id, hashtext(encode(:token_hash, 'hex')))")

TELL_IF_MOVING = text(f"""
WITH moving AS (
  SELECT scope_id, recipient_id, kind, token, platform, app
  FROM push_targets
  WHERE scope_id = :scope_id AND kind = :kind AND token_hash = :token_hash AND recipient_id <> :recipient_id
  FOR UPDATE
),
told AS ({tell_targets("moving", TargetEnd.MOVED)}
)
SELECT count(*)
FROM moving
""")

# clock_timestamp(): now() may be long before the lock was had, and a dead target is forgotten by this instant.
REGISTER = text("""
INSERT INTO push_targets AS t (scope_id, recipient_id, kind, token, token_hash, platform, app, p256dh, auth,
                               registered_at)
VALUES (:scope_id, :recipient_id, :kind, :token, :token_hash, :platform, :app, :p256dh, :auth, clock_timestamp())
ON CONFLICT (scope_id, kind, token_hash) DO UPDATE
SET recipient_id = excluded.recipient_id,
    platform = excluded.platform,
    app = excluded.app,
    p256dh = excluded.p256dh,
    auth = excluded.auth,
    registered_at = excluded.registered_at,
    last_used_at = CASE WHEN t.recipient_id = excluded.recipient_id THEN t.last_used_at END
RETURNING target_id, recipient_id, kind, token, platform, app, registered_at, last_used_at
""")

# SKIP LOCKED: a target on its way to another recipient is none of this one's soon, and waiting for it could be mutual.
DROP_BEYOND = text(f"""
WITH dropped AS (
  DELETE FROM push_targets
  WHERE target_id IN (
    SELECT target_id
    FROM push_targets
    WHERE scope_id = :scope_id AND recipient_id = :recipient_id
    ORDER BY target_id = :kept DESC, greatest(registered_at, last_used_at) DESC, target_id DESC
    OFFSET {MOST_TARGETS}
    FOR UPDATE SKIP LOCKED)
  RETURNING target_id, scope_id, recipient_id, kind, token, platform, app
),
told AS ({tell_targets("dropped", TargetEnd.TOO_MANY)}
)
SELECT target_id
FROM dropped
""")


async def register(
    connection: AsyncConnection,
    scope_id: ScopeId,
    recipient_id: str,
    kind: Kind,
    token: str,
    platform: Platform | None = None,
    app: str | None = None,
    keys: SubscriptionKeys | None = None,
) -> Registered:
    """The target, now this recipient's whoever had it before; the longest unused ones beyond 20 are dropped.

    The ``token`` of a Web Push subscription is its endpoint, and it has ``keys``.
    """
    whose = {"scope_id": scope_id, "recipient_id": recipient_id}
    what = {"kind": kind, "token": token, "token_hash": hash_token(token), "platform": platform, "app": app}
    what |= {"p256dh": None if keys is None else keys.p256dh, "auth": None if keys is None else keys.auth}
    which = whose | {"kind": kind, "token_hash": what["token_hash"]}
    await connection.execute(LOCK_RECIPIENT, whose)
    await connection.execute(LOCK_TOKEN, {"scope_id": scope_id, "token_hash": what["token_hash"]})
    moved = (await connection.execute(TELL_IF_MOVING, which)).scalar_one() > 0
    target = _target((await connection.execute(REGISTER, whose | what)).one())
    dropped = (await connection.execute(DROP_BEYOND, whose | {"kept": target.target_id})).scalars()
    return Registered(target, tuple(dropped), moved)


LIST = text("""
SELECT target_id, recipient_id, kind, token, platform, app, registered_at, last_used_at
FROM push_targets
WHERE scope_id = :scope_id AND recipient_id = :recipient_id
ORDER BY registered_at DESC, target_id DESC
""")


async def list_targets(connection: AsyncConnection, scope_id: ScopeId, recipient_id: str) -> list[StoredTarget]:
    """The recipient's targets, the last registered first; 20 at most."""
    rows = await connection.execute(LIST, {"scope_id": scope_id, "recipient_id": recipient_id})
    return [_target(row) for row in rows]


REMOVE = text(f"""
WITH removed AS (
  DELETE FROM push_targets
  WHERE scope_id = :scope_id AND recipient_id = :recipient_id AND kind = :kind AND token_hash = :token_hash
  RETURNING scope_id, recipient_id, kind, token, platform, app
),
told AS ({tell_targets("removed", TargetEnd.ASKED)}
)
SELECT count(*)
FROM removed
""")


async def remove_target(
    connection: AsyncConnection, scope_id: ScopeId, recipient_id: str, kind: Kind, token: str
) -> bool:
    """Whether the recipient had this target until now."""
    row = {"scope_id": scope_id, "recipient_id": recipient_id, "kind": kind, "token_hash": hash_token(token)}
    return bool((await connection.execute(REMOVE, row)).scalar_one())


NOTE_USED = """
WITH locked AS MATERIALIZED (
  SELECT target_id
  FROM push_targets
  WHERE target_id = ANY ($1::bigint[])
  ORDER BY target_id
  FOR UPDATE
)
UPDATE push_targets t
SET last_used_at = now()
FROM locked
WHERE t.target_id = locked.target_id
"""


async def note_used(pg: HotConnection, target_ids: Sequence[int]) -> None:
    """Write down that these targets were delivered to just now."""
    await pg.execute(NOTE_USED, target_ids)


def _target(row: Row[Any]) -> StoredTarget:
    return StoredTarget(
        row.target_id,
        row.recipient_id,
        row.kind,
        row.token,
        row.platform,
        row.app,
        row.registered_at,
        row.last_used_at,
    )
