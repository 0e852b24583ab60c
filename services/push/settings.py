"""The settings that the push service reads."""

from datetime import timedelta

from pydantic import model_validator

from shared.settings.base import Settings, check_lease, listed


class PushSettings(Settings):
    """How much is pushed at once, how long an attempt may take, and where Firebase is reached (None: at Google's)."""

    lease: timedelta = listed("PUSH_LEASE")
    attempt_timeout: timedelta = listed("PUSH_ATTEMPT_TIMEOUT")
    lease_margin: timedelta = listed("LEASE_MARGIN")
    slots: int = listed("PUSH_SLOTS")
    poll_busy: timedelta = listed("POLL_BUSY")
    poll_idle: timedelta = listed("POLL_IDLE")
    unanswered_step: timedelta = listed("UNANSWERED_BACKOFF")
    fcm_base_url: str | None = listed("FCM_BASE_URL", optional=True)

    @model_validator(mode="after")
    def _check_lease(self) -> "PushSettings":
        check_lease("PUSH", self.lease, self.attempt_timeout, self.lease_margin)
        return self
