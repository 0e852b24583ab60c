"""Push targets as they come over HTTP: a phone's token, or a browser's subscription as the browser itself writes it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast

from msgspec import Meta, Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from shared import metrics
from shared.change import TargetEnd
from shared.endpoint import EndpointRules
from shared.errors import FieldError
from shared.ids import ScopeId
from shared.logs import get_logger
from shared.store.targets import Kind, Platform, StoredTarget, list_targets, register, remove_target
from shared.subscription import SubscriptionKeys, key_problems, plain_keys
from shared.web.instant import write_instant
from shared.web.problems import validation_failed
from shared.web.shape import read_shape

log = get_logger()

LONGEST_TOKEN = 4096
LONGEST_KEY = 200
LONGEST_APP = 200
KINDS = ("fcm", "webpush")
PLATFORMS = ("android", "ios", "web")

S = TypeVar("S", bound=Struct)
Token = Annotated[str, Meta(min_length=1, max_length=LONGEST_TOKEN)]
Key = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)]


class KeysIn(Struct, forbid_unknown_fields=True):
    """The keys of a subscription, in base64url."""

    p256dh: Key
    auth: Key


class TargetIn(Struct, forbid_unknown_fields=True):
    """A target to register: ``token`` (what Firebase gave the app), or ``endpoint`` and ``keys``.

    The latter, with ``expirationTime``, are what JSON.stringify makes of a browser's PushSubscription. ``app`` is any
    word of the product's own for it.
    """

    token: Token | None = None
    endpoint: Token | None = None
    keys: KeysIn | None = None
    expirationTime: float | None = None  # noqa: N815 - the browsers' word
    kind: str | None = None
    platform: str | None = None
    app: Annotated[str, Meta(max_length=LONGEST_APP)] | None = None


class TargetGone(Struct, forbid_unknown_fields=True):
    """A target to remove, by its token or its endpoint."""

    token: Token | None = None
    endpoint: Token | None = None
    kind: str | None = None


class TargetOut(Struct):
    """A registered target. Its token is not told; ``id`` is the same whenever that token is registered."""

    id: str
    kind: str
    platform: str | None
    app: str | None
    registered_at: str
    last_used_at: str | None


class TargetsOut(Struct):
    """All targets of one recipient, the last registered first. There are 20 at most, so there is no next page."""

    data: list[TargetOut]
    next_cursor: None = None


@dataclass(frozen=True, slots=True)
class NewTarget:
    """A sound target; ``token`` is the endpoint where there are ``keys``."""

    kind: Kind
    token: str
    platform: Platform | None
    app: str | None
    keys: SubscriptionKeys | None


def read_target(tree: Any, rules: EndpointRules, more: Sequence[FieldError] = ()) -> NewTarget:
    """The target to register in a body. Raises Problem 422 with everything that is wrong, ``more`` included."""
    read, errors = read_shape(tree, TargetIn)
    fields = tree if isinstance(tree, dict) else {}
    kind = _kind_of(fields)
    errors += _check_words(fields)
    if isinstance(tree, dict):
        errors += _check_browser(fields, rules) if kind == "webpush" else _check_phone(fields)
    if read is None or errors or more:
        raise validation_failed([*errors, *more])
    keys = None if read.keys is None else plain_keys(read.keys.p256dh, read.keys.auth)
    platform = cast("Platform | None", read.platform or ("web" if kind == "webpush" else None))
    return NewTarget(kind, read.token or read.endpoint or "", platform, read.app, keys)


def read_gone(tree: Any, more: Sequence[FieldError] = ()) -> tuple[Kind, str]:
    """Kind and token (or endpoint) of the target to remove. Raises Problem 422, ``more`` included."""
    read, errors = read_shape(tree, TargetGone)
    fields = tree if isinstance(tree, dict) else {}
    kind = _kind_of(fields)
    errors += _check_words(fields)
    if isinstance(tree, dict):
        errors += _required(fields, "endpoint") if kind == "webpush" else _check_phone(fields)
    if read is None or errors or more:
        raise validation_failed([*errors, *more])
    return kind, read.token or read.endpoint or ""


async def put_target(
    connection: AsyncConnection, scope_id: ScopeId, recipient_id: str, target: NewTarget
) -> StoredTarget:
    """``target``, now the recipient's; those that had to go for it are counted and logged."""
    registered = await register(
        connection, scope_id, recipient_id, target.kind, target.token, target.platform, target.app, target.keys
    )
    if registered.dropped:
        metrics.targets_removed.labels(TargetEnd.TOO_MANY).inc(len(registered.dropped))
        log.info("push.targets_dropped", count=len(registered.dropped), target_ids=list(registered.dropped))
    if registered.moved:
        metrics.targets_removed.labels(TargetEnd.MOVED).inc()
        log.info("push.target_moved", target_id=registered.target.target_id)
    return registered.target


async def forget_target(
    connection: AsyncConnection, scope_id: ScopeId, recipient_id: str, kind: Kind, token: str
) -> bool:
    """Whether the recipient had this target until now."""
    removed = await remove_target(connection, scope_id, recipient_id, kind, token)
    if removed:
        metrics.targets_removed.labels(TargetEnd.ASKED).inc()
        log.info("push.target_removed", kind=kind)
    return removed


async def forget_target_by_id(
    connection: AsyncConnection, scope_id: ScopeId, recipient_id: str, public_id: str
) -> bool:
    """Whether the recipient had the target of this public id until now."""
    for target in await list_targets(connection, scope_id, recipient_id):
        if target.public_id == public_id:
            return await forget_target(connection, scope_id, recipient_id, target.kind, target.token)
    return False


def show_target(target: StoredTarget) -> TargetOut:
    """``target`` without its token."""
    return TargetOut(
        target.public_id,
        target.kind,
        target.platform,
        target.app,
        write_instant(target.registered_at),
        None if target.last_used_at is None else write_instant(target.last_used_at),
    )


def _kind_of(fields: dict[str, Any]) -> Kind:
    """What is meant: a body that has an endpoint is a browser's, also without the word."""
    kind = fields.get("kind")
    if kind == "webpush" or (kind is None and "endpoint" in fields and "token" not in fields):
        return "webpush"
    return "fcm"


def _check_words(fields: dict[str, Any]) -> Iterator[FieldError]:
    kind, platform = fields.get("kind"), fields.get("platform")
    if isinstance(kind, str) and kind not in KINDS:
        yield FieldError("/kind", "invalid", f"must be one of {', '.join(KINDS)}")
    if isinstance(platform, str) and platform not in PLATFORMS:
        yield FieldError("/platform", "invalid", f"must be one of {', '.join(PLATFORMS)}")


def _check_phone(fields: dict[str, Any]) -> Iterator[FieldError]:
    yield from _required(fields, "token")
    token = fields.get("token")
    if isinstance(token, str) and not (token.isascii() and all("!" <= character <= "~" for character in token)):
        yield FieldError("/token", "invalid", "has a character in it that no token has")
    yield from _foreign(fields, "fcm", ("endpoint", "keys"))


def _check_browser(fields: dict[str, Any], rules: EndpointRules) -> Iterator[FieldError]:
    yield from _required(fields, "endpoint")
    yield from _required(fields, "keys")
    yield from _foreign(fields, "webpush", ("token",))
    endpoint, keys = fields.get("endpoint"), fields.get("keys")
    if isinstance(endpoint, str) and endpoint and (problem := rules.problem(endpoint)) is not None:
        yield FieldError("/endpoint", "invalid", problem)
    if isinstance(keys, dict):
        p256dh, auth = keys.get("p256dh"), keys.get("auth")
        if isinstance(p256dh, str) and isinstance(auth, str):
            for name, fault in key_problems(p256dh, auth):
                yield FieldError(f"/keys/{name}", "invalid", fault)


def _required(fields: dict[str, Any], name: str) -> Iterator[FieldError]:
    if fields.get(name) is None:
        yield FieldError(f"/{name}", "missing", "is required")


def _foreign(fields: dict[str, Any], kind: Kind, names: Sequence[str]) -> Iterator[FieldError]:
    for name in names:
        if fields.get(name) is not None:
            yield FieldError(f"/{name}", "invalid", f"belongs to no target of kind {kind}")
