"""POST /events and GET /events/{id}: how an event comes in, and how it explains itself."""

from collections.abc import Sequence

from litestar import Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from services.ingest.accept import Acceptor
from services.ingest.intake import Intake, Unfit
from services.ingest.reading import Reader
from services.ingest.schemas import EventIn, EventOut
from services.ingest.views import show_event
from shared.errors import FieldError
from shared.ids import ScopeId
from shared.tenant import ScopedTenant
from shared.tenantfile.current import Tenants
from shared.web.auth import KeyRequest
from shared.web.body import read_json
from shared.web.description import takes_json
from shared.web.edge import request_id_of
from shared.web.problems import RETRY_AFTER_SECONDS, problem, validation_failed


def event_routes(tenants: Tenants, acceptor: Acceptor, reader: Reader) -> Sequence[HTTPRouteHandler]:
    """The routes of events."""
    intake = Intake()

    @post(
        "/events",
        operation_id="post_event",
        status_code=202,
        operation_class=takes_json(EventIn, "idempotency_key_reused"),
    )
    async def post_event(request: KeyRequest) -> Response[EventOut]:
        """Accept an event: once it is answered with 202 it is never silently lost.

        The same idempotency key with the same body gets the same event, as it is by then.
        """
        scope_id = request.auth.scope_id
        tree = await read_json(request)
        event = intake.read(
            tree, _idempotency_key(request), _tenant_of(tenants, scope_id), request_id_of(request.scope)
        )
        if isinstance(event, Unfit):
            accepted = await acceptor.accept_unfit(scope_id, event)
        else:
            accepted = await acceptor.accept(event)
        shown = show_event(accepted.event, accepted.jobs)
        headers = {"Location": f"{request.scope['path']}/{shown.id}"}
        if accepted.replayed:
            headers["Idempotent-Replayed"] = "true"
        return Response(shown, headers=headers)

    @get("/events/{event_id:str}", operation_id="get_event")
    async def get_event(request: KeyRequest, event_id: FromPath[str]) -> EventOut:
        """One event with everything that happened to it: its jobs, skipped ones too, and every attempt."""
        return await reader.event(request.auth.scope_id, event_id)

    return post_event, get_event


def _tenant_of(tenants: Tenants, scope_id: ScopeId) -> ScopedTenant:
    tenant = tenants.of_scope(scope_id)
    if tenant is None:
        detail = "The tenant's file is not loaded yet."
        raise problem("unavailable", detail, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})
    return tenant


def _idempotency_key(request: KeyRequest) -> str | None:
    texts = set(request.headers.getall("idempotency-key", []))
    if len(texts) > 1:
        detail = "are several, and not the same, as header Idempotency-Key"
        raise validation_failed([FieldError("/idempotency_key", "idempotency_key_conflict", detail)])
    if not texts:
        return None
    (text,) = texts
    try:
        # Headers are read as Latin-1; a key beyond ASCII was most likely sent in UTF-8, as in a body.
        return text.encode("latin-1").decode()
    except UnicodeDecodeError:
        return text
