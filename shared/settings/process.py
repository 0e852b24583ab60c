"""The settings that every process reads."""

from datetime import timedelta
from typing import Literal

from shared.endpoint import PUSH_HOSTS, EndpointRules, Pair
from shared.settings.base import Settings, listed


class ProcessSettings(Settings):
    """How a process logs and where it listens."""

    log_format: Literal["auto", "pretty", "json"] = listed("LOG_FORMAT")
    log_level: Literal["debug", "info", "warning", "error"] = listed("LOG_LEVEL")
    bind: str | None = listed("BIND", optional=True)
    admin_port: int = listed("ADMIN_PORT")

    def logs_json(self) -> bool | None:
        """What ``shared.logs.configure`` takes: None leaves it to the terminal."""
        return {"auto": None, "pretty": False, "json": True}[self.log_format]


class StoreSettings(Settings):
    """Where Postgres is, and under which keys secrets are stored in it."""

    database_url: str = listed("DATABASE_URL")
    database_pool: int = listed("DATABASE_POOL")
    database_timeout: timedelta = listed("DATABASE_TIMEOUT")
    master_keys: tuple[bytes, ...] = listed("MASTER_KEYS")


class BusSettings(Settings):
    """Where RabbitMQ is; None: one process that wakes itself."""

    amqp_url: str | None = listed("AMQP_URL", optional=True)


class EndpointSettings(Settings):
    """Where Web Push may post to, beside the browsers' own push services."""

    push_hosts: tuple[str, ...] | None = listed("PUSH_HOSTS", optional=True)
    push_trusted_endpoints: frozenset[Pair] | None = listed("PUSH_TRUSTED_ENDPOINTS", optional=True)

    @property
    def rules(self) -> EndpointRules:
        """What every endpoint is held against."""
        return EndpointRules(PUSH_HOSTS + (self.push_hosts or ()), self.push_trusted_endpoints or frozenset())
