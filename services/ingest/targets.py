"""/recipients/{id}/push-targets: where a recipient can be rung, as the product's back end tells us."""

from collections.abc import Sequence
from datetime import timedelta

from litestar import delete, get, put
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from shared.endpoint import EndpointRules
from shared.errors import FieldError
from shared.recipient import id_problem
from shared.store.database import Database
from shared.store.targets import list_targets
from shared.web.auth import KeyRequest
from shared.web.body import read_json
from shared.web.description import takes_json
from shared.web.problems import problem, validation_failed
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

PATH = "/recipients/{recipient_id:str}/push-targets"
NOT_THERE = "This recipient has no such target."


def target_routes(database: Database, rules: EndpointRules, within: timedelta) -> Sequence[HTTPRouteHandler]:
    """The routes of push targets; ``rules``: where browsers may be. ``within``: how long a request waits."""

    @put(PATH, operation_id="put_push_target", status_code=200, operation_class=takes_json(TargetIn))
    async def put_push_target(request: KeyRequest, recipient_id: FromPath[str]) -> TargetOut:
        """Register a target, or say that it is still in use: a phone by its token, a browser by its subscription.

        One that was another recipient's moves to this one. A recipient has 20 targets at most: beyond, the ones
        unused for longest are forgotten.
        """
        target = read_target(await read_json(request), rules, _recipient_errors(recipient_id))
        async with database.begin(within) as connection:
            return show_target(await put_target(connection, request.auth.scope_id, recipient_id, target))

    @get(PATH, operation_id="list_push_targets")
    async def list_push_targets(request: KeyRequest, recipient_id: FromPath[str]) -> TargetsOut:
        """A recipient's targets; of an unknown recipient, none."""
        _check_recipient(recipient_id)
        async with database.begin(within) as connection:
            targets = await list_targets(connection, request.auth.scope_id, recipient_id)
        return TargetsOut([show_target(target) for target in targets])

    @delete(PATH, operation_id="delete_push_target", operation_class=takes_json(TargetGone))
    async def delete_push_target(request: KeyRequest, recipient_id: FromPath[str]) -> None:
        """Forget the target with this token or endpoint, say when its owner signs out."""
        kind, token = read_gone(await read_json(request), _recipient_errors(recipient_id))
        async with database.begin(within) as connection:
            removed = await forget_target(connection, request.auth.scope_id, recipient_id, kind, token)
        if not removed:
            raise problem("not_found", NOT_THERE)

    @delete(PATH + "/{target_id:str}", operation_id="delete_push_target_by_id")
    async def delete_push_target_by_id(
        request: KeyRequest, recipient_id: FromPath[str], target_id: FromPath[str]
    ) -> None:
        """Forget the target with this id."""
        _check_recipient(recipient_id)
        async with database.begin(within) as connection:
            removed = await forget_target_by_id(connection, request.auth.scope_id, recipient_id, target_id)
        if not removed:
            raise problem("not_found", NOT_THERE)

    return put_push_target, list_push_targets, delete_push_target, delete_push_target_by_id


def _check_recipient(recipient_id: str) -> None:
    if errors := _recipient_errors(recipient_id):
        raise validation_failed(errors)


def _recipient_errors(recipient_id: str) -> list[FieldError]:
    fault = id_problem(recipient_id)
    return [] if fault is None else [FieldError("", "invalid", f"the recipient's id in the path {fault}")]
