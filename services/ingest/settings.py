"""The settings of ingest."""

from datetime import timedelta

from shared.settings import Settings, listed


class IngestSettings(Settings):
    """Where products find the API, how long they wait for Postgres, and how patient the republisher is."""

    port: int = listed("PORT")
    database_timeout: timedelta = listed("DATABASE_TIMEOUT")
    announce_again_after: timedelta = listed("ANNOUNCE_AGAIN_AFTER")
    sweep_every: timedelta = listed("SWEEP_EVERY")
