"""GET /metrics: the ledger, without counting a single row."""

from datetime import date

from litestar import get
from litestar.handlers import HTTPRouteHandler

from services.ingest.reading import Reader
from services.ingest.schemas import MetricsOut
from shared.web.auth import KeyRequest
from shared.web.description import takes_parameters
from shared.web.query import day_filter, read_parameters

FILTERS = (day_filter("since", "Only what was created on this day or later; days begin in UTC."),)


def metrics_route(reader: Reader) -> HTTPRouteHandler:
    """The route of the counts."""

    @get("/metrics", operation_id="get_metrics", operation_class=takes_parameters(FILTERS))
    async def get_metrics(request: KeyRequest) -> MetricsOut:
        """How many events and jobs there are by status, and what sending them took, since ever or since a day."""
        since = read_parameters(request.scope["query_string"], FILTERS).get("since", date.min)
        return await reader.metrics(request.auth.scope_id, since)

    return get_metrics
