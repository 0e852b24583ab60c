"""An HTTP application as every service of ours builds it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from litestar import Litestar
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, Reference, SecurityScheme
from litestar.types import ControllerRouterHandler

from shared.web.answers import answer_error
from shared.web.body import LARGEST_BODY
from shared.web.edge import Edge
from shared.web.problem_page import problem_page
from shared.web.slashes import GivenSlashes

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

API_VERSION = "1"
_BEARER = "bearer"


def make_app(
    route_handlers: Sequence[ControllerRouterHandler], title: str, api_path: str, bearer: str | None = None
) -> "ASGI3Application":
    """An ASGI application of ``route_handlers``; ``bearer`` says what is to be sent as ``Authorization: Bearer``.

    Every error is a problem, every request has an id, no body is larger than 256 KiB unless its route says
    otherwise. ``/problems`` explains the codes; the description is at ``api_path``/openapi.json.
    """
    app = Litestar(
        [*route_handlers, problem_page],
        exception_handlers={Exception: answer_error},
        middleware=[GivenSlashes],
        logging_config=None,
        openapi_config=OpenAPIConfig(
            title=title,
            version=API_VERSION,
            # Litestar answers everything below this path that it does not know with a page of HTML.
            path=f"{api_path}/openapi.json",
            render_plugins=[JsonRenderPlugin(path="/")],
            use_handler_docstrings=True,
            components=Components(security_schemes=_schemes(bearer)),
            security=None if bearer is None else [{_BEARER: []}],
        ),
        request_max_body_size=LARGEST_BODY,
        debug=False,
    )
    # Two libraries, two spellings of the same ASGI types.
    return cast("ASGI3Application", Edge(app))


def _schemes(bearer: str | None) -> dict[str, SecurityScheme | Reference]:
    return {} if bearer is None else {_BEARER: SecurityScheme(type="http", scheme="bearer", description=bearer)}
