"""GET /metrics: the ledger, without counting a single row."""

from litestar import get
from litestar.handlers import HTTPRouteHandler

from services.ingest.reading import Reader
from services.ingest.schemas import MetricsOut
from shared.web.auth import KeyRequest


def metrics_route(reader: Reader) -> HTTPRouteHandler:
    """The route of the counts."""

    @get("/metrics", operation_id="get_metrics")
    async def get_metrics(request: KeyRequest) -> MetricsOut:
        """How many events and jobs there are, by status."""
        return await reader.metrics(request.auth.scope_id)

    return get_metrics
