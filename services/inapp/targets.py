"""/inbox/push-targets: an end user's own phones and browsers, registered by the app or the page they use."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from litestar import Request, delete, get, put
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct

from services.inapp.subscribers import Subscribers
from shared.endpoint import EndpointRules
from shared.ids import ScopeId
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.sender_secrets import VAPID, bound_to, find_secret_of_scope
from shared.store.targets import list_targets
from shared.vapid import parse_vapid_key
from shared.web.body import read_json
from shared.web.description import BODY_CODES, answers, takes_json
from shared.web.problems import problem
from shared.web.targets import (
    TargetGone,
    TargetIn,
    TargetOut,
    TargetsOut,
    forget_target,
    forget_target_by_id,
    put_target,
    read_gone,
    read_target,
    show_target,
)

PATH = "/inbox/push-targets"
TOKEN_CODES = ("token_missing", "token_invalid", "token_expired")
NOT_THERE = "You have no such target."

AnyRequest = Request[None, Any, State]


class PushKeyOut(Struct):
    """The tenant's public key: what a page hands to ``pushManager.subscribe`` as ``applicationServerKey``."""

    public_key: str


def target_routes(
    database: Database, sealer: Sealer, subscribers: Subscribers, rules: EndpointRules, within: timedelta
) -> Sequence[HTTPRouteHandler]:
    """The routes of an end user's targets; ``rules``: where browsers may be. ``within``: how long a request waits."""

    @get("/inbox/push-key", operation_id="read_push_key", responses=answers(*TOKEN_CODES, "not_found"))
    async def read_push_key(request: AnyRequest) -> PushKeyOut:
        """The key to subscribe with. 404 when the tenant reaches no browsers."""
        subscriber = await subscribers.require(request.headers.get("authorization"))
        public_key = await _public_key(database, sealer, subscriber.scope_id, within)
        if public_key is None:
            raise problem("not_found", "This tenant reaches no browsers: it has no VAPID key.")
        return PushKeyOut(public_key)

    @put(
        PATH,
        operation_id="put_own_push_target",
        status_code=200,
        operation_class=takes_json(TargetIn),
        responses=answers(*TOKEN_CODES, *BODY_CODES, "validation_failed"),
    )
    async def put_own_push_target(request: AnyRequest) -> TargetOut:
        """Register this browser (its subscription) or this phone (its token), or say that it is still in use."""
        subscriber = await subscribers.require(request.headers.get("authorization"))
        target = read_target(await read_json(request), rules)
        async with database.begin(within) as connection:
            return show_target(await put_target(connection, subscriber.scope_id, subscriber.recipient_id, target))

    @get(PATH, operation_id="list_own_push_targets", responses=answers(*TOKEN_CODES))
    async def list_own_push_targets(request: AnyRequest) -> TargetsOut:
        """The token's recipient's targets."""
        subscriber = await subscribers.require(request.headers.get("authorization"))
        async with database.begin(within) as connection:
            targets = await list_targets(connection, subscriber.scope_id, subscriber.recipient_id)
        return TargetsOut([show_target(target) for target in targets])

    @delete(
        PATH,
        operation_id="delete_own_push_target",
        operation_class=takes_json(TargetGone),
        responses=answers(*TOKEN_CODES, *BODY_CODES, "validation_failed", "not_found"),
    )
    async def delete_own_push_target(request: AnyRequest) -> None:
        """Forget this browser or phone, say when its owner signs out."""
        subscriber = await subscribers.require(request.headers.get("authorization"))
        kind, token = read_gone(await read_json(request))
        async with database.begin(within) as connection:
            removed = await forget_target(connection, subscriber.scope_id, subscriber.recipient_id, kind, token)
        if not removed:
            raise problem("not_found", NOT_THERE)

    @delete(
        PATH + "/{target_id:str}",
        operation_id="delete_own_push_target_by_id",
        responses=answers(*TOKEN_CODES, "not_found"),
    )
    async def delete_own_push_target_by_id(request: AnyRequest, target_id: FromPath[str]) -> None:
        """Forget the target with this id, say another browser that is no longer used."""
        subscriber = await subscribers.require(request.headers.get("authorization"))
        async with database.begin(within) as connection:
            removed = await forget_target_by_id(connection, subscriber.scope_id, subscriber.recipient_id, target_id)
        if not removed:
            raise problem("not_found", NOT_THERE)

    return (
        read_push_key,
        put_own_push_target,
        list_own_push_targets,
        delete_own_push_target,
        delete_own_push_target_by_id,
    )


async def _public_key(database: Database, sealer: Sealer, scope_id: ScopeId, within: timedelta) -> str | None:
    async with database.hot(within) as pg:
        found = await find_secret_of_scope(pg, scope_id, VAPID)
    if found is None:
        return None
    tenant_id, sealed = found
    return parse_vapid_key(sealer.open(sealed, bound_to(tenant_id, VAPID))).public
