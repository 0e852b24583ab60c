"""The schema as this release's code sees it; ``waybill db check`` compares it with the database."""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.schema import ForeignKey, Index

metadata = MetaData()

INSTANT = DateTime(timezone=True)


def _required(name: str, kind: Any, *args: Any, **options: Any) -> Column[Any]:
    return Column(name, kind, *args, nullable=False, **options)


tenants = Table(
    "tenants",
    metadata,
    Column("tenant_id", Integer, primary_key=True),
    _required("key", Text, unique=True),
    _required("name", Text),
    _required("file_version", Integer),
    _required("created_at", INSTANT),
)

scopes = Table(
    "scopes",
    metadata,
    Column("scope_id", Integer, primary_key=True),
    _required("tenant_id", Integer, ForeignKey("tenants.tenant_id")),
    _required("mode", Text),
    _required("subscriber_secret", LargeBinary),
    UniqueConstraint("tenant_id", "mode"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Integer, primary_key=True),
    _required("scope_id", Integer, ForeignKey("scopes.scope_id")),
    _required("key_hash", LargeBinary, unique=True),
    _required("hint", Text),
    _required("permissions", ARRAY(Text)),
    _required("created_at", INSTANT),
    Column("expires_at", INSTANT),
    Column("revoked_at", INSTANT),
    Column("last_used_at", INSTANT),
)

tenant_files = Table(
    "tenant_files",
    metadata,
    Column("tenant_id", Integer, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("version", Integer, primary_key=True),
    _required("source", Text),
    _required("model", JSON),
    _required("applied_at", INSTANT),
)

events = Table(
    "events",
    metadata,
    Column("event_id", Uuid, primary_key=True),
    _required("scope_id", Integer),
    _required("idempotency_key", Text),
    _required("body_hash", LargeBinary),
    _required("event_type", Text),
    Column("ref", Text),
    _required("recipient", JSON),
    _required("payload", JSON),
    _required("status", Text),
    _required("reason", Text),
    _required("file_version", Integer),
    _required("received_at", INSTANT),
    Column("send_at", INSTANT),
    _required("expires_at", INSTANT),
    Column("routed_at", INSTANT),
    _required("announced_at", INSTANT),
    _required("announce_count", SmallInteger),
    _required("route_tries", SmallInteger),
    _required("request_id", Text),
    Column("detail", Text),
    UniqueConstraint("scope_id", "idempotency_key", name="events_idempotency"),
    Index("events_queued", "announced_at", postgresql_where=text("status = 'QUEUED'")),
    Index("events_scheduled", "send_at", postgresql_where=text("status = 'SCHEDULED'")),
    Index("events_received", "scope_id", "received_at", "event_id"),
    Index("events_of_type", "scope_id", "event_type", "received_at", "event_id"),
    Index("events_of_recipient", "scope_id", text("(recipient ->> 'id')"), "received_at", "event_id"),
    Index("events_of_ref", "scope_id", "ref", "received_at", "event_id", postgresql_where=text("ref IS NOT NULL")),
    Index(
        "events_unrouted", "scope_id", "status", "received_at", "event_id", postgresql_where=text("status <> 'ROUTED'")
    ),
)

outgoing = Table(
    "outgoing",
    metadata,
    Column("job_id", BigInteger, primary_key=True, server_default=text("nextval('job_ids')")),
    _required("event_id", Uuid),
    _required("scope_id", Integer),
    Column("channel", Text, primary_key=True),
    _required("status", Text),
    _required("reason", Text),
    _required("lane", SmallInteger),
    _required("attempts", SmallInteger),
    _required("max_attempts", SmallInteger),
    _required("unanswered", SmallInteger),
    _required("unknowns", SmallInteger),
    _required("lost", SmallInteger),
    _required("claim_seq", Integer),
    _required("reported_seq", Integer),
    _required("claimed_until", INSTANT),
    Column("claimed_by", Text),
    _required("due_at", INSTANT),
    _required("expires_at", INSTANT),
    _required("created_at", INSTANT),
    Column("finished_at", INSTANT),
    Column("accepted_at", INSTANT),
    Column("detail", Text),
    _required("tried", Boolean),
    UniqueConstraint("event_id", "channel", name="outgoing_one_per_channel"),
    Index("outgoing_listed", "scope_id", "status", "reason", "job_id"),
    Index("outgoing_failed", "scope_id", "finished_at", "job_id", postgresql_where=text("status = 'FAILED'")),
    Index("outgoing_claim", "scope_id", "lane", "due_at", "job_id", postgresql_where=text("status = 'PENDING'")),
    Index("outgoing_expiring", "expires_at", postgresql_where=text("status = 'PENDING' AND expires_at > '-infinity'")),
)

content = Table(
    "content",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    _required("event_type", Text),
    _required("recipient_id", Text),
    _required("file_version", Integer),
    _required("terms", JSON),
    _required("body", JSON),
)

attempts = Table(
    "attempts",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("claim_seq", Integer, primary_key=True, autoincrement=False),
    Column("target_id", BigInteger, primary_key=True, autoincrement=False),
    _required("number", SmallInteger),
    _required("provider", Text),
    _required("verdict", Text),
    _required("reason", Text),
    Column("code", Text),
    Column("error", Text),
    Column("provider_id", Text),
    _required("started_at", INSTANT),
    _required("took_ms", Integer),
    _required("applied", Boolean),
    _required("late", Boolean),
    _required("possible_duplicate", Boolean),
)

inbox = Table(
    "inbox",
    metadata,
    Column("scope_id", Integer, primary_key=True),
    Column("recipient_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    _required("event_id", Uuid),
    _required("job_id", BigInteger),
    _required("event_type", Text),
    _required("content", JSON),
    _required("created_at", INSTANT),
    Column("read_at", INSTANT),
    UniqueConstraint("event_id", name="inbox_once"),
)

inbox_heads = Table(
    "inbox_heads",
    metadata,
    Column("scope_id", Integer, primary_key=True),
    Column("recipient_id", Text, primary_key=True),
    _required("last_seq", BigInteger),
    _required("unread_count", BigInteger),
)

ledger = Table(
    "ledger",
    metadata,
    Column("scope_id", Integer, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("channel", Text, primary_key=True),
    Column("status", Text, primary_key=True),
    Column("reason", Text, primary_key=True),
    _required("n", BigInteger),
    _required("attempts", BigInteger),
    _required("rounds", BigInteger),
    _required("tried", BigInteger),
    _required("sent", BigInteger),
)

push_targets = Table(
    "push_targets",
    metadata,
    Column("target_id", BigInteger, primary_key=True),
    _required("scope_id", Integer),
    _required("recipient_id", Text),
    _required("kind", Text),
    _required("token", Text),
    _required("token_hash", LargeBinary),
    Column("platform", Text),
    Column("app", Text),
    _required("registered_at", INSTANT),
    Column("last_used_at", INSTANT),
    Column("p256dh", Text),
    Column("auth", Text),
    UniqueConstraint("scope_id", "kind", "token_hash", name="push_targets_token"),
    Index("push_targets_recipient", "scope_id", "recipient_id", "target_id"),
)

sender_secrets = Table(
    "sender_secrets",
    metadata,
    Column("tenant_id", Integer, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("kind", Text, primary_key=True),
    _required("sealed", LargeBinary),
    _required("updated_at", INSTANT),
)

pauses = Table(
    "pauses",
    metadata,
    Column("pause_id", Integer, primary_key=True),
    _required("kind", Text),
    _required("channel", Text),
    _required("tenant_id", Integer),
    _required("name", Text),
    _required("reason", Text),
    _required("code", Text),
    _required("paused_at", INSTANT),
    Column("paused_until", INSTANT),
    _required("failures", Integer),
    _required("probing_until", INSTANT),
    UniqueConstraint("kind", "channel", "tenant_id", "name", name="pauses_one_of_a_kind"),
)


suppressions = Table(
    "suppressions",
    metadata,
    Column("suppression_id", BigInteger, primary_key=True),
    _required("scope_id", Integer),
    _required("channel", Text),
    _required("address", Text),
    _required("reason", Text),
    _required("source", Text),
    Column("code", Text),
    Column("detail", Text),
    _required("created_at", INSTANT),
    UniqueConstraint("scope_id", "channel", "address", name="suppressions_address"),
    Index("suppressions_listed", "scope_id", "suppression_id"),
)

receipts = Table(
    "receipts",
    metadata,
    Column("receipt_id", BigInteger, primary_key=True),
    _required("source", Text),
    _required("provider_id", Text),
    _required("address", Text),
    _required("scope_id", Integer),
    _required("job_id", BigInteger),
    _required("kind", Text),
    _required("cause", Text),
    Column("code", Text),
    Column("detail", Text),
    _required("received_at", INSTANT),
    Column("applied_at", INSTANT),
    _required("effect", Text),
    UniqueConstraint("source", "provider_id", "address", name="receipts_once"),
    Index("receipts_parked", "receipt_id", postgresql_where=text("applied_at IS NULL")),
    Index("receipts_of_job", "job_id", "receipt_id"),
)

preferences = Table(
    "preferences",
    metadata,
    Column("scope_id", Integer, primary_key=True),
    Column("recipient_id", Text, primary_key=True),
    Column("category", Text, primary_key=True),
    Column("channel", Text, primary_key=True),
    _required("wanted", Boolean),
    _required("changed_at", INSTANT),
)

changes = Table(
    "changes",
    metadata,
    Column("change_id", BigInteger, primary_key=True),
    _required("scope_id", Integer),
    _required("kind", Text),
    _required("channel", Text),
    _required("status", Text),
    _required("reason", Text),
    _required("event_ids", ARRAY(Uuid)),
    Column("target", JSON),
    _required("n", Integer),
    _required("at", INSTANT),
    _required("written_by", BigInteger),
    Column("last_seq", BigInteger),
    Index("changes_unnumbered", "written_by", postgresql_where=text("last_seq IS NULL")),
    Index("changes_read", "scope_id", "last_seq", unique=True, postgresql_where=text("last_seq IS NOT NULL")),
)

change_heads = Table(
    "change_heads",
    metadata,
    Column("scope_id", Integer, primary_key=True, autoincrement=False),
    _required("last_seq", BigInteger),
    _required("gone_seq", BigInteger),
)


def is_compared(_item: object, name: str | None, kind: str, reflected: bool, _other: object) -> bool:  # noqa: FBT001 - a yes or no by nature
    """Whether Alembic compares ``name``: not the partitions, which are ``outgoing`` under other names."""
    return not (reflected and kind == "table" and str(name).startswith("outgoing_"))
