"""GET /readyz beside the API of `waybill up`: 503 until everything stands, then what Postgres says."""

from collections.abc import Mapping

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from shared.web.admin import Check, failing


class Curtain:
    """Whether the demo is open: ``up.json`` is written and everything answers."""

    def __init__(self) -> None:
        """Closed."""
        self.is_open = False

    async def check(self) -> str | None:
        """What /readyz says about it."""
        return None if self.is_open else "waybill up is still starting"


def readyz_route(checks: Mapping[str, Check]) -> HTTPRouteHandler:
    """The route /readyz: 200 when none of ``checks`` fails, else 503 naming those that do."""

    @get("/readyz", include_in_schema=False)
    async def readyz() -> Response[dict[str, object]]:
        causes = await failing(checks)
        if causes:
            return Response({"status": "failing", "failing": causes}, status_code=503)
        return Response({"status": "ok"}, status_code=200)

    return readyz
