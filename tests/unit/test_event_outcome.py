"""The outcome of an event, derived from its own state and its jobs'."""

import pytest

from shared.event import EventStatus, derive_outcome


@pytest.mark.parametrize(
    ("status", "jobs", "outcome"),
    [
        ("SCHEDULED", [], "in_progress"),
        ("QUEUED", [], "in_progress"),
        ("FAILED", [], "failed"),
        ("CANCELLED", [], "cancelled"),
        ("ROUTED", ["PENDING", "SENT"], "in_progress"),
        ("ROUTED", ["SENT", "SENT"], "sent"),
        ("ROUTED", ["SENT", "SKIPPED"], "sent"),
        ("ROUTED", ["SENT", "FAILED"], "partly_sent"),
        ("ROUTED", ["SENT", "CANCELLED"], "partly_sent"),
        ("ROUTED", ["FAILED", "SKIPPED"], "failed"),
        ("ROUTED", ["FAILED", "CANCELLED"], "failed"),
        ("ROUTED", ["CANCELLED", "SKIPPED"], "cancelled"),
        ("ROUTED", ["SKIPPED"], "skipped"),
        ("ROUTED", [], "skipped"),
    ],
)
def test_outcome_follows_from_the_jobs(status: str, jobs: list[str], outcome: str) -> None:
    assert derive_outcome(EventStatus(status), jobs) == outcome
