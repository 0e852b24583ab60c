"""The settings that the email service reads."""

from datetime import timedelta

from pydantic import field_validator, model_validator

from shared.address import address_problem
from shared.relay import parse_relay
from shared.settings.base import Settings, check_lease, listed


class EmailSettings(Settings):
    """Through which relay mail goes out, how much of it at once, and how long an attempt may take."""

    smtp_url: str = listed("SMTP_URL")
    lease: timedelta = listed("EMAIL_LEASE")
    attempt_timeout: timedelta = listed("EMAIL_ATTEMPT_TIMEOUT")
    lease_margin: timedelta = listed("LEASE_MARGIN")
    slots: int = listed("EMAIL_SLOTS")
    poll_busy: timedelta = listed("POLL_BUSY")
    poll_idle: timedelta = listed("POLL_IDLE")
    unanswered_step: timedelta = listed("UNANSWERED_BACKOFF")
    port: int | None = listed("EMAIL_PORT", optional=True)
    public_url: str | None = listed("PUBLIC_URL", optional=True)
    bounce_domain: str | None = listed("BOUNCE_DOMAIN", optional=True)
    bounce_port: int | None = listed("BOUNCE_PORT", optional=True)
    bounce_protocol: str = listed("BOUNCE_PROTOCOL")
    bounce_secret: str | None = listed("BOUNCE_SECRET", optional=True)

    @field_validator("smtp_url")
    @classmethod
    def _check_relay(cls, url: str) -> str:
        parse_relay(url)
        return url

    @field_validator("bounce_domain")
    @classmethod
    def _check_domain(cls, domain: str | None) -> str | None:
        if domain is not None and (problem := address_problem(f"bounces@{domain}")) is not None:
            raise ValueError(f"a domain that can receive mail: bounces@{domain} {problem}")
        return domain

    @model_validator(mode="after")
    def _check_lease(self) -> "EmailSettings":
        check_lease("EMAIL", self.lease, self.attempt_timeout, self.lease_margin)
        return self
