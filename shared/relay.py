"""The relay that mail is handed to, as its URL describes it."""

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit


class Security(StrEnum):
    """How a connection to a relay is encrypted: the scheme of its URL."""

    NONE = "smtp"
    """Never encrypted: for a relay on this machine or on a network that is trusted."""
    STARTTLS = "smtp+starttls"
    """Plain at first, then TLS or nothing: a relay that does not offer it gets no mail."""
    IMPLICIT = "smtps"
    """TLS from the first byte."""


DEFAULT_PORTS = {Security.NONE: 25, Security.STARTTLS: 587, Security.IMPLICIT: 465}


@dataclass(frozen=True, slots=True)
class Relay:
    """Where mail goes out: host, port, encryption, and the login where one is needed."""

    host: str
    port: int
    security: Security = Security.NONE
    username: str | None = None
    password: str = field(default="", repr=False)

    @property
    def circuit(self) -> str:
        """Its name in breakers and pauses, where people read it; another login or password is another circuit."""
        secret = f"{self.security}\n{self.username}\n{self.password}"
        user = f" as {self.username}" if self.username else ""
        return f"{self.host}:{self.port}{user} ({sha256(secret.encode()).hexdigest()[:8]})"


def parse_relay(url: str) -> Relay:
    """The relay at ``scheme://user:password@host:port``; a ``%40`` in user or password is an ``@``.

    Raises ValueError with a sentence that does not repeat the URL, also for a password that would travel
    unencrypted to another machine.
    """
    try:
        parts = urlsplit(url)
        security, port = Security(parts.scheme), parts.port
    except ValueError as exc:
        raise ValueError(f"a URL that begins with {', '.join(f'{word}://' for word in Security)}") from exc
    if not parts.hostname:
        raise ValueError("a URL that names the relay's host")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("a URL that ends with the relay's host and port")
    username = None if parts.username is None else unquote(parts.username)
    if username and security is Security.NONE and not _is_this_machine(parts.hostname):
        raise ValueError("smtps:// or smtp+starttls:// where it has a password: smtp:// would send it unencrypted")
    return Relay(
        host=parts.hostname,
        port=port or DEFAULT_PORTS[security],
        security=security,
        username=username or None,
        password=unquote(parts.password or ""),
    )


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
