"""GET /sandbox/messages: what the sinks received, for whoever holds the operator's token."""

import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from litestar import Request, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from services.cli.sandbox.mailcatcher import MOST_MAILS, CaughtMail
from services.cli.sandbox.mails import CaughtOut, show_mail
from services.cli.sandbox.pushes import PushOut, TakenPush, show_push
from shared.channel import Channel
from shared.errors import FieldError
from shared.web.problems import unauthorized, validation_failed

CHANNELS: tuple[str, ...] = (Channel.EMAIL, Channel.PUSH)
"""Those that have a sink: the inbox needs none."""
DEFAULT_LIMIT = 50
_LIMIT = re.compile(r"[0-9]{1,5}", re.ASCII)
_SCHEME = "bearer "


class MessagesOut(Struct):
    """Messages, newest first."""

    data: list[CaughtOut | PushOut]


def message_routes(
    newest_mails: Callable[[int], Sequence[CaughtMail]],
    newest_pushes: Callable[[int], Sequence[TakenPush]],
    operator_token: str,
) -> list[HTTPRouteHandler]:
    """The routes of the sandbox, open to ``operator_token`` only; each sink gives at most so many, newest first."""

    @get("/sandbox/messages", operation_id="list_sandbox_messages")
    async def list_messages(request: Request[None, Any, State]) -> MessagesOut:
        """What the sinks received instead of people, newest first: all of it, or ``?channel=email&limit=50``."""
        _require_operator(request.headers.get("authorization"), operator_token)
        query = _read_query(request.scope["query_string"])
        shown: list[CaughtOut | PushOut] = []
        if Channel.EMAIL in query.channels:
            shown += [show_mail(mail) for mail in newest_mails(query.limit)]
        if Channel.PUSH in query.channels:
            shown += [show_push(push) for push in newest_pushes(query.limit)]
        shown.sort(key=lambda message: message.received_at, reverse=True)
        return MessagesOut(shown[: query.limit])

    return [list_messages]


def _require_operator(authorization: str | None, operator_token: str) -> None:
    if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
        raise unauthorized("operator_token_missing", "Send the operator's token as Authorization: Bearer ….")
    given = authorization[len(_SCHEME) :].strip()
    if not hmac.compare_digest(given.encode(), operator_token.encode()):
        raise unauthorized("operator_token_invalid", "This is not the operator's token.")


@dataclass(frozen=True, slots=True)
class _Query:
    channels: tuple[str, ...]
    limit: int


def _read_query(query_string: bytes) -> _Query:
    channels, limit, errors = CHANNELS, DEFAULT_LIMIT, list[FieldError]()
    for name, value in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
        if name == "channel":
            if value in CHANNELS:
                channels = (value,)
            else:
                errors.append(FieldError("/channel", "invalid", f"must be {' or '.join(CHANNELS)}"))
        elif name == "limit":
            if _LIMIT.fullmatch(value) and 1 <= int(value) <= MOST_MAILS:
                limit = int(value)
            else:
                errors.append(FieldError("/limit", "invalid", f"must be a whole number from 1 to {MOST_MAILS}"))
        else:
            errors.append(FieldError(f"/{name[:50]}", "unknown_field", "is no parameter: there are channel and limit"))
    if errors:
        raise validation_failed(errors)
    return _Query(channels, limit)
