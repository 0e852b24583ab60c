"""What a process counts for Prometheus. No label ever carries a tenant, a recipient or an id."""

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

events_accepted = Counter(
    "waybill_events_accepted",
    "Events that got a 202; result is new, replayed or scheduled.",
    ["result"],
    registry=REGISTRY,
)
request_seconds = Histogram(
    "waybill_http_request_seconds",
    "Time to answer a request, by the route's template.",
    ["method", "route", "status"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
announcements = Counter(
    "waybill_announcements",
    "Messages that tell the router of new events; result is confirmed or unconfirmed.",
    ["result"],
    registry=REGISTRY,
)
announcements_unreadable = Counter(
    "waybill_announcements_unreadable",
    "Messages for the router that are none of ours; they lie in waybill.router.dead.",
    registry=REGISTRY,
)
wakes = Counter(
    "waybill_wakes",
    "Wakes by channel; result is sent, lost or received.",
    ["channel", "result"],
    registry=REGISTRY,
)
events_routed = Counter(
    "waybill_events_routed",
    "Events that left the router, by the status they got.",
    ["status"],
    registry=REGISTRY,
)
jobs_claimed = Counter(
    "waybill_jobs_claimed",
    "Jobs claimed, by channel.",
    ["channel"],
    registry=REGISTRY,
)
jobs_expired = Counter(
    "waybill_jobs_expired",
    "Jobs ended because their time was up and nobody claimed them, by channel and the status they got.",
    ["channel", "status"],
    registry=REGISTRY,
)
attempts = Counter(
    "waybill_attempts",
    "Attempts by channel and verdict.",
    ["channel", "verdict"],
    registry=REGISTRY,
)
targets_removed = Counter(
    "waybill_push_targets_removed",
    "Push targets that are no more; why is dead (its push service said so), too_many, moved or asked.",
    ["why"],
    registry=REGISTRY,
)
attempt_seconds = Histogram(
    "waybill_attempt_seconds",
    "Time one attempt took, by channel.",
    ["channel"],
    buckets=_SECONDS,
    registry=REGISTRY,
)
bounce_connections = Counter(
    "waybill_bounce_connections",
    "Connections to the bounce listener by how they went: ended, too_slow, cut_off or turned_away (one too many).",
    ["result"],
    registry=REGISTRY,
)
bounce_mails = Counter(
    "waybill_bounce_mails",
    "Mails that came back by what became of them: new, known, too_many, not_a_report, no_job, forged or expired.",
    ["result"],
    registry=REGISTRY,
)
oldest_due_seconds = Gauge(
    "waybill_oldest_due_seconds",
    "How long the oldest due job of a channel has been waiting; 0: none is due.",
    ["channel"],
    registry=REGISTRY,
)
due_jobs = Gauge(
    "waybill_due_jobs",
    "Jobs of a channel that are due and not finished, counted up to 10,000.",
    ["channel"],
    registry=REGISTRY,
)
oldest_queued_seconds = Gauge(
    "waybill_oldest_queued_seconds",
    "How long the oldest event that is to be routed has been waiting; 0: none is.",
    registry=REGISTRY,
)
queued_events = Gauge(
    "waybill_queued_events",
    "Events that are to be routed, counted up to 10,000.",
    registry=REGISTRY,
)
changes_waiting_seconds = Gauge(
    "waybill_changes_waiting_seconds",
    "How long the oldest change has been waiting for its place in the feed; 0: none is.",
    registry=REGISTRY,
)
pauses_standing = Gauge(
    "waybill_pauses",
    "Pauses that stand, by kind: channel, tenant and event_type are an operator's, relay and sender a provider's.",
    ["kind"],
    registry=REGISTRY,
)
purged_rows = Counter(
    "waybill_purged_rows",
    "Rows purged because they were kept long enough, by table.",
    ["table"],
    registry=REGISTRY,
)
