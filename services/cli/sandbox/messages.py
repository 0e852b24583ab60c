"""GET /sandbox/messages: what the sinks received, for whoever holds the operator's token."""

import hmac
import re
from typing import Any
from urllib.parse import parse_qsl

from litestar import Request, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from services.cli.sandbox.mailcatcher import MOST_MAILS, MailCatcher
from services.cli.sandbox.mails import CaughtOut, show_mail
from shared.channel import Channel
from shared.errors import FieldError
from shared.web.problems import unauthorized, validation_failed

DEFAULT_LIMIT = 50
_LIMIT = re.compile(r"[0-9]{1,5}", re.ASCII)
_SCHEME = "bearer "


class MessagesOut(Struct):
    """Messages, newest first."""

    data: list[CaughtOut]


def message_routes(catcher: MailCatcher, operator_token: str) -> list[HTTPRouteHandler]:
    """The routes of the sandbox, open to ``operator_token`` only."""

    @get("/sandbox/messages", operation_id="list_sandbox_messages")
    async def list_messages(request: Request[None, Any, State]) -> MessagesOut:
        """What the sinks received instead of people, newest first: ``?channel=email&limit=50``."""
        _require_operator(request.headers.get("authorization"), operator_token)
        limit = _read_query(request.scope["query_string"])
        return MessagesOut([show_mail(mail) for mail in catcher.newest(limit)])

    return [list_messages]


def _require_operator(authorization: str | None, operator_token: str) -> None:
    if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
        raise unauthorized("operator_token_missing", "Send the operator's token as Authorization: Bearer ….")
    given = authorization[len(_SCHEME) :].strip()
    if not hmac.compare_digest(given.encode(), operator_token.encode()):
        raise unauthorized("operator_token_invalid", "This is not the operator's token.")


def _read_query(query_string: bytes) -> int:
    """The limit; there is one channel to list so far."""
    limit, errors = DEFAULT_LIMIT, list[FieldError]()
    for name, value in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
        if name == "channel":
            if value != Channel.EMAIL:
                errors.append(FieldError("/channel", "invalid", "must be email; push is not built yet"))
        elif name == "limit":
            if _LIMIT.fullmatch(value) and 1 <= int(value) <= MOST_MAILS:
                limit = int(value)
            else:
                errors.append(FieldError("/limit", "invalid", f"must be a whole number from 1 to {MOST_MAILS}"))
        else:
            errors.append(FieldError(f"/{name[:50]}", "unknown_field", "is no parameter: there are channel and limit"))
    if errors:
        raise validation_failed(errors)
    return limit
