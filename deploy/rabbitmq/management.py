"""The few calls of RabbitMQ's management API that the tests need: the command line takes seconds, this a moment."""

import http.client
import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from shared.errors import CannotStart

_ANSWER_SECONDS = 30
_PORT_OFFSET = 10_000
"""RabbitMQ's own convention: 5672 speaks AMQP, 15672 is its management."""


@dataclass(frozen=True, slots=True)
class Management:
    """The management API of one broker, under one user who may do everything."""

    host: str
    port: int
    user: str
    password: str

    @classmethod
    def beside(cls, amqp_url: str) -> "Management":
        """The management API that belongs to a broker of somebody else, at its usual port."""
        parts = urlsplit(amqp_url)
        port = (parts.port or 5672) + _PORT_OFFSET
        user, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
        return cls(parts.hostname or "127.0.0.1", port, user, password)

    def create_vhost(self, name: str) -> None:
        """Make a vhost that the user may do everything in."""
        self.call("PUT", f"/vhosts/{quote(name, safe='')}")
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        self.call("PUT", f"/permissions/{quote(name, safe='')}/{quote(self.user, safe='')}", everything)

    def delete_vhost(self, name: str) -> None:
        """Remove a vhost with all its queues; its connections are closed."""
        self.call("DELETE", f"/vhosts/{quote(name, safe='')}")

    def answers(self) -> bool:
        """Whether the broker is up, as far as its management knows."""
        try:
            return bool(self.call("GET", "/vhosts"))
        except (OSError, http.client.HTTPException, CannotStart):
            return False

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request under ``/api``; the decoded answer, None when it has no body."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_ANSWER_SECONDS)
        login = b64encode(f"{self.user}:{self.password}".encode()).decode()
        try:
            connection.request(
                method,
                f"/api{path}",
                body=None if body is None else json.dumps(body),
                headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise CannotStart(f"RabbitMQ's management answered {answer.status} to {method} {path}: {content[:200]!r}")
        return json.loads(content) if content else None
