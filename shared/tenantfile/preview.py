"""The example of an event type, rendered in every locale: what the router would do, tried out before."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from shared.errors import RenderError
from shared.ids import EventId, ScopeId, TenantId
from shared.recipient import Recipient
from shared.rendering.decide import EventFacts, Planned, Refused, plan
from shared.rendering.kinds import Kind
from shared.rendering.links import absolute_link, app_link
from shared.rendering.writer import Writer
from shared.tenant import EventType, Mode, ScopedTenant, Tenant
from shared.tenantfile.content import ContentReader, LinkPieces, Piece
from shared.tenantfile.nodes import Report

EXAMPLE_EVENT = EventId(UUID("01980000-0000-7000-8000-000000000000"))


def example_recipient(event_type: EventType, locale: str) -> Recipient:
    """The type's addressee, or somebody who has everything a recipient can have."""
    return replace(event_type.to or Recipient("bob", name="Bob", email="bob@example.com"), locale=locale)


def preview(event_type: EventType, content: ContentReader, tenant: Tenant, report: Report) -> None:
    """Report every text and link that cannot be rendered from the example."""
    before = report.count
    for locale in tenant.locales:
        writer = Writer(tenant, EXAMPLE_EVENT, example_recipient(event_type, locale), event_type.example)
        for piece in content.pieces:
            _try_piece(piece, writer, report)
        for link in content.links:
            _try_link(link, writer, report)
        if report.count == before:
            _try_plan(event_type, tenant, locale, content, report)


def _try_piece(piece: Piece, writer: Writer, report: Report) -> None:
    source = piece.text.sources.get(writer.locale) or piece.text.sources[""]
    try:
        written = writer.write({writer.locale: source.text}, piece.kind, piece.name)
    except RenderError as exc:
        report.add(source.place, f"fails with the example: {exc}")
        return
    if piece.problem is not None and (problem := piece.problem(written)):
        report.add(source.place, f"with the example it {problem}")


def _try_link(link: LinkPieces, writer: Writer, report: Report) -> None:
    tenant = writer.tenant
    url = link.url.sources[writer.locale]
    try:
        absolute_link(writer.write(link.url.texts(), Kind.URL, "link.url"), tenant.website, "it")
    except RenderError as exc:
        report.add(url.place, str(exc))
    if link.app is None:
        return
    app = link.app.sources[writer.locale]
    try:
        app_link(writer.write(link.app.texts(), Kind.URL, "link.app"), tenant.app_link_schemes, "it")
    except RenderError as exc:
        report.add(app.place, str(exc))


def refusals(event_type: EventType, tenant: Tenant) -> list[str]:
    """Why ``event_type`` cannot be rendered from its example under ``tenant``, in any locale; empty when it can."""
    return [
        f"{entry.channel} in {locale}: {entry.detail}"
        for locale in tenant.locales
        for entry in _plan(event_type, tenant, locale)
        if isinstance(entry, Refused)
    ]


def _try_plan(event_type: EventType, tenant: Tenant, locale: str, content: ContentReader, report: Report) -> None:
    for entry in _plan(event_type, tenant, locale):
        if isinstance(entry, Refused):
            report.add(content.places[entry.channel], f"fails with the example: {entry.detail}")


def _plan(event_type: EventType, tenant: Tenant, locale: str) -> list[Planned | Refused]:
    whole = replace(tenant, event_types={event_type.id: event_type})
    now = datetime.now(UTC)
    event = EventFacts(
        event_id=EXAMPLE_EVENT,
        event_type=event_type.id,
        recipient=example_recipient(event_type, locale),
        payload=event_type.example,
        received_at=now,
        expires_at=now + timedelta(days=1),
    )
    return plan(ScopedTenant(ScopeId(0), TenantId(0), Mode.TEST, 0, whole), event)
