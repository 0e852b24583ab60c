"""Web Push (RFC 8030): one message to one subscription in, one verdict out, whatever happens."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import http_ece  # type: ignore[import-untyped]  # it ships no types
import msgspec
from aiohttp.abc import AbstractResolver
from cryptography.hazmat.primitives.asymmetric import ec
from yarl import URL

from services.push.connections import Connections, NoReply
from services.push.guard import GuardedResolver
from services.push.message import JOB_KEY, LONGEST_TTL, Letter
from services.push.reply import Reply
from services.push.signers import Signer
from services.push.webpush_replies import judge_webpush
from shared.endpoint import EndpointRules, origin_of
from shared.subscription import SubscriptionKeys
from shared.verdict import NoVerdict, Rejected, Verdict

LARGEST_BODY = 4096
"""What every push service takes (RFC 8030, section 7.2)."""
OVERHEAD = 103
"""Of RFC 8188's header, key, delimiter and tag."""
MOST_TO_BROWSER = LARGEST_BODY - OVERHEAD
"""What is left for the message, in bytes."""
SHORTEST_SECRET = 16
"""The last part of an endpoint is a secret when it is this long, and not an ordinary word."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One browser's: where to post to, and the keys that only it can read with."""

    endpoint: str
    keys: SubscriptionKeys


class WebPushSender:
    """Posts for any number of tenants over at most ``connections`` connections; a message has ``within``."""

    def __init__(
        self,
        rules: EndpointRules,
        *,
        connections: int,
        within: timedelta,
        resolver: Callable[[], AbstractResolver] | None = None,
    ) -> None:
        """``resolver`` makes what looks names up; whatever it says is checked before anything connects."""
        self.seconds = within.total_seconds()
        self._rules = rules
        self._connections = Connections(
            connections,
            self.seconds,
            lambda: GuardedResolver(rules, None if resolver is None else resolver()),
            per_host=max(connections // 2, 1),
        )

    def posts_to(self, endpoint: str) -> bool:
        """Whether it is an address that anything is posted to."""
        return self._rules.problem(endpoint) is None

    async def send(
        self,
        signer: Signer,
        subscription: Subscription,
        letter: Letter,
        lives: timedelta,
        leaving: Callable[[], None],
    ) -> Verdict:
        """What became of one message, worth delivering for as long as it ``lives``.

        ``leaving`` is called before its body leaves.
        """
        endpoint = subscription.endpoint
        if (problem := self._rules.problem(endpoint)) is not None:
            return Rejected(code="endpoint_refused", error=f"the endpoint {problem}")
        try:
            body = encrypt(write_payload(letter), subscription.keys)
        except ValueError as exc:
            return Rejected(code="keys_unusable", error=str(exc))
        headers = write_headers(letter, lives)
        headers["Authorization"] = signer.key.authorization(origin_of(endpoint), signer.contact)
        try:
            # As it was given: nobody but its push service knows what an escape in it means.
            reply = await self._connections.post(URL(endpoint, encoded=True), body, headers, leaving)
        except NoReply as exc:
            return NoVerdict(handed_over=exc.connected, code=exc.code, error=exc.error)
        return judge_webpush(_without(endpoint, reply))

    async def close(self) -> None:
        """Close every connection; what is sent later opens them anew."""
        await self._connections.close()


def _without(endpoint: str, reply: Reply) -> Reply:
    """``reply`` as it may be kept: what it repeats of ``endpoint``, which only its browser and we may know, is out."""
    secret = endpoint.rpartition("/")[2]
    if len(secret) < SHORTEST_SECRET:
        return reply
    return replace(reply, body=reply.body.replace(secret.encode(), "…".encode()))


def encrypt(message: bytes, keys: SubscriptionKeys) -> bytes:
    """``message`` as only the browser with ``keys`` can read it (RFC 8291), under a key pair of its own.

    Raises ValueError when the keys are none.
    """
    body: bytes = http_ece.encrypt(
        message,
        private_key=ec.generate_private_key(ec.SECP256R1()),
        dh=keys.point,
        auth_secret=keys.secret,
        rs=LARGEST_BODY,
        version="aes128gcm",
    )
    return body


def write_headers(letter: Letter, lives: timedelta) -> dict[str, str]:
    """All headers but the signature. A repeat of the same job takes the place of the first by its ``Topic``."""
    ttl = min(letter.content.ttl or LONGEST_TTL, lives, LONGEST_TTL)
    headers = {
        # Microsoft refuses a message with a TTL of 0, unless a header of its own says so too.
        "TTL": str(max(int(ttl.total_seconds()), 1)),
        "Topic": letter.stable_id.hex,
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
    }
    if letter.content.urgency is not None:
        headers["Urgency"] = letter.content.urgency
    return headers


def write_payload(letter: Letter) -> bytes:
    """What the page's service worker gets, as JSON: ``sw.js`` of the inbox shows it."""
    content = letter.content
    payload: dict[str, Any] = {
        "title": content.title,
        "body": content.body,
        "lang": content.locale,
        "tag": letter.stable_id.hex,
        "link": None if content.link is None else content.link.url,
        "icon": content.web.icon,
        "badge": letter.badge,
        "data": {JOB_KEY: f"job_{letter.stable_id.hex}"} | content.data,
    }
    return msgspec.json.encode({name: value for name, value in payload.items() if value is not None})
