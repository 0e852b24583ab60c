"""The settings that the in-app service reads."""

from datetime import timedelta

from shared.settings import Settings, listed


class InappSettings(Settings):
    """Where end users find the inbox API, and how long they wait for Postgres."""

    inbox_port: int = listed("INBOX_PORT")
    database_timeout: timedelta = listed("DATABASE_TIMEOUT")
    poll_busy: timedelta = listed("POLL_BUSY")
    poll_idle: timedelta = listed("POLL_IDLE")
