"""/push-demo: a page that subscribes the browser it is open in, for `waybill up` and to copy from."""

from collections.abc import Sequence
from importlib.resources import files

from litestar import MediaType, Response, get
from litestar.handlers import HTTPRouteHandler

PAGE_PATH = "/push-demo"
_HEADERS = {
    # The token stands behind # in the page's address, where nobody else sees it: nothing foreign is let near it.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # The worker lies below the page, and works for it all the same.
    "Service-Worker-Allowed": PAGE_PATH,
}


def demo_pages() -> Sequence[HTTPRouteHandler]:
    """The page, its style and script, and the service worker that shows what is pushed."""
    return [
        _page(PAGE_PATH, "index.html", MediaType.HTML),
        _page(f"{PAGE_PATH}/page.css", "page.css", MediaType.CSS),
        _page(f"{PAGE_PATH}/page.js", "page.js", "text/javascript"),
        _page(f"{PAGE_PATH}/sw.js", "sw.js", "text/javascript"),
    ]


def _page(path: str, name: str, media_type: str) -> HTTPRouteHandler:
    content = (files("services.inapp") / "page" / name).read_bytes()

    @get(path, include_in_schema=False, sync_to_thread=False)
    def show() -> Response[bytes]:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return show
