"""Unsubscribe links: what a mail carries in its header, and the page behind it.

A link names one person, one category and the tenant's half, and is signed. It does not end: old mails are kept for
years. Looking at the page changes nothing, since mail filters open every link; only its button does, and the one
click of a mail program (RFC 8058), which posts as well.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec
from litestar import MediaType, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct

from services.email.unsubscribe_page import show_page
from shared.channel import Channel
from shared.content import EmailContent
from shared.delivery.provider import Parcel
from shared.delivery.worker import KnownTenants
from shared.ids import ScopeId
from shared.logs import get_logger
from shared.store.database import Database
from shared.store.preferences import set_preference
from shared.tenant import Category, Tenant
from shared.web.body import AnyRequest, read_body

log = get_logger()

PATH = "/unsubscribe"
PURPOSE = "unsubscribe"
WITHIN = timedelta(seconds=5)
LONGEST_TOKEN = 2_000
LARGEST_FORM = 4_096
WANTED_AGAIN = b"wanted=again"
_MAC_BYTES = 15
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}


class Subscription(Struct, array_like=True, frozen=True):
    """What a link switches off: a category, for one recipient of a half."""

    scope_id: int
    recipient_id: str
    category: str


class Links:
    """Makes and reads unsubscribe links under ``keys``, of which the first makes and all read."""

    def __init__(self, keys: Sequence[bytes], base_url: str | None) -> None:
        """``base_url``: where the page is reached; without one no mail carries a link."""
        self._keys = keys
        self._base_url = base_url

    def link_for(self, parcel: Parcel) -> str | None:
        """The link that ``parcel`` carries: none where there is nothing to switch off."""
        content = parcel.content
        if self._base_url is None or not isinstance(content, EmailContent):
            return None
        if content.category is None or content.critical:
            return None
        token = self.write(Subscription(parcel.scope_id, parcel.recipient_id, content.category))
        return f"{self._base_url.rstrip('/')}{PATH}/{token}"

    def write(self, subscription: Subscription) -> str:
        """``subscription`` as a token."""
        body = msgspec.json.encode(subscription)
        return urlsafe_b64encode(_sign(self._keys[0], body) + body).rstrip(b"=").decode()

    def read(self, token: str) -> Subscription | None:
        """What ``token`` names; None unless it is one of ours."""
        if len(token) > LONGEST_TOKEN or not token.isascii():
            return None
        try:
            raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            return None
        mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not any(hmac.compare_digest(_sign(key, body), mac) for key in self._keys):
            return None
        return msgspec.json.decode(body, type=Subscription)


@dataclass(frozen=True, slots=True)
class _Named:
    """A subscription with the words for it."""

    subscription: Subscription
    tenant: Tenant
    category: Category | None

    @property
    def title(self) -> str:
        """What people call the category."""
        titles = {} if self.category is None else self.category.title
        return titles.get(self.tenant.locales[0]) or next(iter(titles.values()), self.subscription.category)

    @property
    def is_critical(self) -> bool:
        return self.category is not None and self.category.critical


def unsubscribe_routes(database: Database, tenants: KnownTenants, links: Links) -> Sequence[HTTPRouteHandler]:
    """The page and what its button does."""

    def find(token: str) -> _Named | None:
        subscription = links.read(token)
        half = None if subscription is None else tenants.of_scope(ScopeId(subscription.scope_id))
        if subscription is None or half is None:
            return None
        return _Named(subscription, half.tenant, half.tenant.categories.get(subscription.category))

    @get(PATH + "/{token:str}", include_in_schema=False, sync_to_thread=False)
    def ask(token: FromPath[str]) -> Response[str]:
        """Ask whether it is meant; nothing changes."""
        named = find(token)
        if named is None:
            return _unknown()
        if named.is_critical:
            return _stays(named)
        text = f"Stop mails of {named.tenant.name} about “{named.title}”? Other mails are not touched."
        return _page("Unsubscribe", text, button=("Unsubscribe", "wanted=no"))

    @post(PATH + "/{token:str}", include_in_schema=False, status_code=200, request_max_body_size=LARGEST_FORM)
    async def decide(request: AnyRequest, token: FromPath[str]) -> Response[str]:
        """Switch the category off, or on again. Doing it twice is like doing it once."""
        named = find(token)
        if named is None:
            return _unknown()
        if named.is_critical:
            return _stays(named)
        wanted = await read_body(request) == WANTED_AGAIN
        one = named.subscription
        async with database.hot(WITHIN) as pg:
            scope_id = ScopeId(one.scope_id)
            await set_preference(pg, scope_id, one.recipient_id, one.category, Channel.EMAIL, wanted=wanted)
        log.info("preference.changed", scope_id=one.scope_id, category=one.category, wanted=wanted)
        if wanted:
            return _page("Subscribed", f"Mails of {named.tenant.name} about “{named.title}” come again.")
        text = f"No more mails of {named.tenant.name} about “{named.title}”. Was it a mistake?"
        return _page("Unsubscribed", text, button=("Send them again", WANTED_AGAIN.decode()))

    return ask, decide


def _sign(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:_MAC_BYTES]


def _unknown() -> Response[str]:
    text = "This link is not complete, or is not one of ours. Take it from the mail once more, as a whole."
    return _page("Unknown link", text, status=404)


def _stays(named: _Named) -> Response[str]:
    text = f"Mails of {named.tenant.name} about “{named.title}” cannot be switched off."
    return _page("Not possible", text, status=409)


def _page(title: str, text: str, *, button: tuple[str, str] | None = None, status: int = 200) -> Response[str]:
    return Response(show_page(title, text, button), status_code=status, media_type=MediaType.HTML, headers=_HEADERS)
