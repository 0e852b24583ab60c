"""The settings of ingest."""

from datetime import timedelta

from pydantic import model_validator

from shared.settings import EndpointSettings, format_duration, listed

LEAST_KEPT_CONTENT = timedelta(hours=1)
"""Far longer than any claim: an attempt that may still be reported on must not be gone."""
LEAST_KEPT_EVENTS = timedelta(days=30)
"""A product may post again with the same key for as long."""


class IngestSettings(EndpointSettings):
    """Where products find the API, how long they wait for Postgres, how patient the sweeps are, and what is kept."""

    port: int = listed("PORT")
    database_timeout: timedelta = listed("DATABASE_TIMEOUT")
    announce_again_after: timedelta = listed("ANNOUNCE_AGAIN_AFTER")
    sweep_every: timedelta = listed("SWEEP_EVERY")
    keep_content: timedelta = listed("KEEP_CONTENT")
    keep_events: timedelta = listed("KEEP_EVENTS")
    purge_every: timedelta = listed("PURGE_EVERY")

    @model_validator(mode="after")
    def _check_kept(self) -> "IngestSettings":
        content = f"WAYBILL_KEEP_CONTENT={format_duration(self.keep_content)}"
        events = f"WAYBILL_KEEP_EVENTS={format_duration(self.keep_events)}"
        if self.keep_content < LEAST_KEPT_CONTENT:
            raise ValueError(f"{content} is too short: it must be at least {format_duration(LEAST_KEPT_CONTENT)}")
        if self.keep_events < max(self.keep_content, LEAST_KEPT_EVENTS):
            least = format_duration(LEAST_KEPT_EVENTS)
            raise ValueError(f"{events} is too short: it must be at least {least}, and at least {content}")
        return self
