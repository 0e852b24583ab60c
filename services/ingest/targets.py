"""/recipients/{id}/push-targets: where a recipient can be rung, as the product's back end tells us."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any, TypeVar, cast

from litestar import delete, get, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Meta, Struct

from shared.errors import FieldError
from shared.logs import get_logger
from shared.recipient import id_problem
from shared.store.database import Database
from shared.store.targets import Platform, StoredTarget, list_targets, register, remove_target
from shared.web.auth import KeyRequest
from shared.web.body import read_json
from shared.web.description import takes_json
from shared.web.instant import write_instant
from shared.web.problems import problem, validation_failed
from shared.web.shape import read_shape

log = get_logger()

PATH = "/recipients/{recipient_id:str}/push-targets"
LONGEST_TOKEN = 4096
LONGEST_APP = 200
PLATFORMS = ("android", "ios", "web")

S = TypeVar("S", bound=Struct)
Token = Annotated[str, Meta(min_length=1, max_length=LONGEST_TOKEN)]


class TargetIn(Struct, forbid_unknown_fields=True):
    """A target to register: the token that Firebase gave the app. ``app`` is any word of the product's own for it."""

    token: Token
    kind: str | None = None
    platform: str | None = None
    app: Annotated[str, Meta(max_length=LONGEST_APP)] | None = None


class TargetGone(Struct, forbid_unknown_fields=True):
    """A target to remove, by its token."""

    token: Token
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


def target_routes(database: Database, within: timedelta) -> Sequence[HTTPRouteHandler]:
    """The routes of push targets; ``within``: how long a request waits for Postgres."""

    @put(PATH, operation_id="put_push_target", status_code=200, operation_class=takes_json(TargetIn))
    async def put_push_target(request: KeyRequest, recipient_id: FromPath[str]) -> TargetOut:
        """Register a target, or say that it is still in use. A token that was another recipient's moves to this one.

        A recipient has 20 targets at most: beyond, the ones unused for longest are forgotten.
        """
        target = _read(await read_json(request), TargetIn, recipient_id)
        async with database.begin(within) as connection:
            registered = await register(
                connection,
                request.auth.scope_id,
                recipient_id,
                "fcm",
                target.token,
                cast("Platform | None", target.platform),
                target.app,
            )
        if registered.dropped:
            log.info("push.targets_dropped", count=len(registered.dropped), target_ids=list(registered.dropped))
        return _show(registered.target)

    @get(PATH, operation_id="list_push_targets")
    async def list_push_targets(request: KeyRequest, recipient_id: FromPath[str]) -> TargetsOut:
        """A recipient's targets; of an unknown recipient, none."""
        _check_recipient(recipient_id)
        async with database.begin(within) as connection:
            targets = await list_targets(connection, request.auth.scope_id, recipient_id)
        return TargetsOut([_show(target) for target in targets])

    @delete(PATH, operation_id="delete_push_target", operation_class=takes_json(TargetGone))
    async def delete_push_target(request: KeyRequest, recipient_id: FromPath[str]) -> None:
        """Forget the target with this token, say when its owner signs out."""
        target = _read(await read_json(request), TargetGone, recipient_id)
        async with database.begin(within) as connection:
            removed = await remove_target(connection, request.auth.scope_id, recipient_id, "fcm", target.token)
        if not removed:
            raise problem("not_found", "This recipient has no such target.")

    @delete(PATH + "/{target_id:str}", operation_id="delete_push_target_by_id")
    async def delete_push_target_by_id(
        request: KeyRequest, recipient_id: FromPath[str], target_id: FromPath[str]
    ) -> None:
        """Forget the target with this id."""
        _check_recipient(recipient_id)
        scope_id = request.auth.scope_id
        async with database.begin(within) as connection:
            for target in await list_targets(connection, scope_id, recipient_id):
                if target.public_id == target_id:
                    await remove_target(connection, scope_id, recipient_id, target.kind, target.token)
                    return
        raise problem("not_found", "This recipient has no such target.")

    return put_push_target, list_push_targets, delete_push_target, delete_push_target_by_id


def _read(tree: Any, shape: type[S], recipient_id: str) -> S:
    """``tree`` as a ``shape``; Problem 422 with everything that is wrong, the recipient's id in the path included."""
    read, errors = read_shape(tree, shape)
    errors += _check_fields(tree if isinstance(tree, dict) else {})
    errors += _recipient_errors(recipient_id)
    if read is None or errors:
        raise validation_failed(errors)
    return read


def _check_fields(fields: dict[str, Any]) -> Iterator[FieldError]:
    token, kind, platform = (fields.get(name) for name in ("token", "kind", "platform"))
    if isinstance(token, str) and not (token.isascii() and all("!" <= character <= "~" for character in token)):
        yield FieldError("/token", "invalid", "has a character in it that no token has")
    if isinstance(kind, str) and kind != "fcm":
        later = " (webpush is not built yet)" if kind == "webpush" else ""
        yield FieldError("/kind", "invalid", f"must be fcm{later}")
    if isinstance(platform, str) and platform not in PLATFORMS:
        yield FieldError("/platform", "invalid", f"must be one of {', '.join(PLATFORMS)}")


def _check_recipient(recipient_id: str) -> None:
    if errors := list(_recipient_errors(recipient_id)):
        raise validation_failed(errors)


def _recipient_errors(recipient_id: str) -> Iterator[FieldError]:
    if (fault := id_problem(recipient_id)) is not None:
        yield FieldError("", "invalid", f"the recipient's id in the path {fault}")


def _show(target: StoredTarget) -> TargetOut:
    return TargetOut(
        target.public_id,
        target.kind,
        target.platform,
        target.app,
        write_instant(target.registered_at),
        None if target.last_used_at is None else write_instant(target.last_used_at),
    )
