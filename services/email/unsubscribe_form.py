"""/unsubscribe: the page behind the links in mails.

Looking at it changes nothing, since mail filters open every link; only its button does, and the one click of a mail
program (RFC 8058), which posts as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from litestar import HttpMethod, MediaType, Response, post, route
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from services.email.unsubscribe import PATH, Links, Subscription
from services.email.unsubscribe_page import Button, View, show_page
from services.email.unsubscribe_words import Words, languages_accepted, words_in
from shared.channel import Channel
from shared.delivery.worker import KnownTenants
from shared.errors import StoreUnavailable
from shared.ids import ScopeId
from shared.logs import get_logger
from shared.rendering.locales import choose_locale
from shared.store.database import Database
from shared.store.preferences import set_preference, unwanted_among
from shared.tenant import Tenant
from shared.web.body import AnyRequest, read_body

log = get_logger()

WITHIN = timedelta(seconds=5)
LARGEST_FORM = 4_096
WANTED_AGAIN = "wanted=again"
NOT_WANTED = "wanted=no"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Language",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}


@dataclass(frozen=True, slots=True)
class _Page:
    """The page of one link that we made, in the language of its mail, or else one that the reader understands."""

    subscription: Subscription
    tenant: Tenant
    language: str
    words: Words

    @property
    def is_critical(self) -> bool:
        category = self.tenant.categories.get(self.subscription.category)
        return category is not None and category.critical

    def ask(self) -> Response[str]:
        words = self.words
        return self._show(words.ask_title, words.ask, Button(words.stop, NOT_WANTED))

    def stopped(self) -> Response[str]:
        words = self.words
        return self._show(words.stopped_title, words.stopped, Button(words.resume, WANTED_AGAIN, quiet=True))

    def resumed(self) -> Response[str]:
        words = self.words
        return self._show(words.resumed_title, words.resumed, Button(words.stop, NOT_WANTED, quiet=True))

    def stays(self) -> Response[str]:
        return self._show(self.words.stays_title, self.words.stays, status=409)

    def failed(self) -> Response[str]:
        return self._show(self.words.failed_title, self.words.failed, status=503)

    def _show(self, title: str, text: str, button: Button | None = None, status: int = 200) -> Response[str]:
        sender = _sender_name(self.tenant)
        told = text.format(sender=sender, category=self._title())
        return _respond(View(self.language, title, told, sender, button), status)

    def _title(self) -> str:
        """What people call the category."""
        category = self.tenant.categories.get(self.subscription.category)
        titles = {} if category is None else category.title
        if not titles:
            return self.subscription.category
        first = self.tenant.locales[0]
        available = sorted(titles, key=lambda locale: locale != first)
        return titles[choose_locale(self.subscription.locale or self.language, available)]


def unsubscribe_routes(database: Database, tenants: KnownTenants, links: Links) -> Sequence[HTTPRouteHandler]:
    """The page and what its button does."""

    def find(request: AnyRequest, token: str) -> _Page | Response[str]:
        """The page of a link, or the answer where there is nothing to switch off."""
        accepted = languages_accepted(request.headers.get("accept-language", ""))
        subscription = links.read(token)
        half = None if subscription is None else tenants.of_scope(ScopeId(subscription.scope_id))
        if subscription is None or half is None:
            language, words = words_in(accepted)
            return _respond(View(language, words.unknown_title, words.unknown), 404)
        own = half.tenant.locales[0]
        page = _Page(subscription, half.tenant, *words_in([subscription.locale, *accepted, own]))
        return page.stays() if page.is_critical else page

    @route([PATH, PATH + "/{token:str}"], http_method=[HttpMethod.GET, HttpMethod.HEAD], include_in_schema=False)
    async def look(request: AnyRequest, token: FromPath[str] = "") -> Response[str]:
        """Ask whether it is meant, or say that it is done; nothing changes."""
        page = find(request, token)
        if isinstance(page, Response):
            return page
        one = page.subscription
        asked = ScopeId(one.scope_id), one.recipient_id, one.category
        try:
            async with database.hot(WITHIN) as pg:
                is_stopped = (asked, Channel.EMAIL) in await unwanted_among(pg, [asked])
        except StoreUnavailable:
            is_stopped = False
        return page.stopped() if is_stopped else page.ask()

    @post(PATH + "/{token:str}", include_in_schema=False, status_code=200, request_max_body_size=LARGEST_FORM)
    async def decide(request: AnyRequest, token: FromPath[str]) -> Response[str]:
        """Switch the category off, or on again. Doing it twice is like doing it once."""
        page = find(request, token)
        if isinstance(page, Response):
            return page
        wanted = await read_body(request) == WANTED_AGAIN.encode()
        one = page.subscription
        try:
            async with database.hot(WITHIN) as pg:
                scope_id = ScopeId(one.scope_id)
                await set_preference(pg, scope_id, one.recipient_id, one.category, Channel.EMAIL, wanted=wanted)
        except StoreUnavailable:
            return page.failed()
        log.info("preference.changed", scope_id=one.scope_id, category=one.category, wanted=wanted)
        return page.resumed() if wanted else page.stopped()

    return look, decide


def _sender_name(tenant: Tenant) -> str:
    sender = tenant.senders.email
    return sender.name if sender is not None and sender.name else tenant.name


def _respond(view: View, status: int) -> Response[str]:
    headers = _HEADERS | ({"Retry-After": "60"} if status == 503 else {})
    return Response(show_page(view), status_code=status, media_type=MediaType.HTML, headers=headers)
