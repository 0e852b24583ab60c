"""Web Push endpoints: addresses that browsers, or whoever says to be one, tell us to post to.

Their form is checked when they are registered and again at every send: https, port 443, one of the push services'
hosts by its name, a path that subscriptions have there. What that name resolves to is checked when we connect
(services/push/guard.py).
"""

import re
from dataclasses import dataclass

LONGEST_ENDPOINT = 2048
LAST_PORT = 65535
PUSH_PATHS = {
    "fcm.googleapis.com": ("/fcm/send/", "/wp/", "/preprod/wp/"),
    "jmt17.google.com": ("/fcm/send/",),
    "*.push.services.mozilla.com": ("/wpush/", "/push/"),
    "*.push.apple.com": ("/",),
    "*.notify.windows.com": ("/w/",),
}
"""The hosts of the browsers' own push services, and how the paths of subscriptions begin there: other paths are other
interfaces of theirs. ``*.`` is any name below, and never the name itself."""
PUSH_HOSTS = tuple(PUSH_PATHS)
ANY_PATH = ("/",)

# Nothing that one parser may read otherwise than another: no user, no escape, no other letter than ASCII's.
_ENDPOINT = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<path>/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)",
    re.ASCII,
)
# "." and "..", also in disguise: whoever follows them ends up somewhere else.
_DOTS = re.compile(r"(?:/|%2f|%5c)(?:\.|%2e){1,2}(?:$|[/;]|%2f|%5c)", re.IGNORECASE)
_NAME = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]", re.ASCII)
_PAIR = re.compile(r"(?P<host>[a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\]):(?P<port>[0-9]{1,5})", re.ASCII)
_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Pair:
    """A host, as it is written, and a port."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class EndpointRules:
    """Where may be posted to: ``hosts`` by name; exactly the ``trusted`` pairs whatever is there, by http too."""

    hosts: tuple[str, ...] = PUSH_HOSTS
    trusted: frozenset[Pair] = frozenset()

    def trusts(self, host: str, port: int) -> bool:
        """Whether the operator lifted every check for this very pair."""
        return Pair(host, port) in self.trusted

    def problem(self, endpoint: str) -> str | None:
        """Why nothing is posted to ``endpoint``, as the rest of a sentence; None when its form is in order."""
        if len(endpoint) > LONGEST_ENDPOINT:
            return f"is longer than {LONGEST_ENDPOINT} characters"
        found = _ENDPOINT.fullmatch(endpoint)
        if found is None:
            return "is no address of a push service: it must be https://, a host's name in lower case and a path"
        scheme, host = found["scheme"], found["host"]
        port = int(found["port"] or _PORTS[scheme])
        if self.trusts(host, port):
            return None
        if scheme != "https":
            return "must begin with https://"
        if port != _PORTS["https"]:
            return "must be on port 443"
        if not _NAME.fullmatch(host):
            return "must have a host's full name in it, not an address"
        known = next((one for one in self.hosts if _is_of(host, one)), None)
        if known is None:
            return "is at no push service that is known here; WAYBILL_PUSH_HOSTS adds one"
        return _path_problem(host, found["path"], PUSH_PATHS.get(known, ANY_PATH))


def circuit_of(endpoint: str) -> str:
    """The host of ``endpoint`` (whose form is in order), with its port where that is not 443."""
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None:
        return ""
    return f"{found['host']}:{found['port']}" if found["port"] not in (None, "443") else found["host"]


def origin_of(endpoint: str) -> str:
    """Scheme, host and port of ``endpoint`` (whose form is in order), as browsers write an origin."""
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None:
        raise ValueError("is no endpoint")
    port = "" if found["port"] is None or int(found["port"]) == _PORTS[found["scheme"]] else f":{int(found['port'])}"
    return f"{found['scheme']}://{found['host']}{port}"


def parse_hosts(text: str) -> tuple[str, ...]:
    """The hosts of ``push.example, *.push.example``. Raises ValueError with the rest of "must be …"."""
    hosts = tuple(one for part in text.split(",") if (one := part.strip().lower()))
    if any(not _NAME.fullmatch(host.removeprefix("*.")) for host in hosts):
        raise ValueError("hosts' names, comma-separated, *. in front for any name below: push.example, *.push.example")
    return hosts


def parse_pairs(text: str) -> frozenset[Pair]:
    """The pairs of ``127.0.0.1:8443,[::1]:8443``. Raises ValueError with the rest of "must be …"."""
    found = [_PAIR.fullmatch(part.strip().lower()) for part in text.split(",") if part.strip()]
    if not all(one is not None and 0 < int(one["port"]) <= LAST_PORT for one in found):
        raise ValueError("pairs of host:port, comma-separated, such as 127.0.0.1:8443")
    return frozenset(Pair(one["host"], int(one["port"])) for one in found if one is not None)


def _is_of(host: str, known: str) -> bool:
    return host.endswith(known[1:]) if known.startswith("*.") else host == known


def _path_problem(host: str, path: str, beginnings: tuple[str, ...]) -> str | None:
    if _DOTS.search(path.partition("?")[0]) is not None:
        return "must have a path without . and .. in it"
    if any(path.startswith(beginning) and path != beginning for beginning in beginnings):
        return None
    return f"is no subscription's: at {host} the path begins with {' or '.join(beginnings)}, and a token follows"
