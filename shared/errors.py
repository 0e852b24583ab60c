"""The errors of Waybill, one class per meaning.

WaybillError
├── Problem                 reaches an HTTP client as problem+json (shared/web/problems.py)
├── SettingsError           every wrong setting of this process, at once
├── CannotStart             a server of our own cannot run here; one line, with what mends it
├── TenantFileError         every mistake of one tenant file, at once
├── RenderError             a template failed on this payload
├── UnknownEventType        the tenant has no such event type (any more)
├── PublishUnconfirmed      the broker did not confirm; the row in Postgres still says what to do
├── SealError               a sealed value does not open under any master key
├── AccountUnusable         a service account that is none, or cannot be read
├── RelayUnusable           a tenant's own relay that is none, or cannot be read
├── VapidKeyUnusable        a tenant's VAPID key that is none, or cannot be read
└── StoreUnavailable        Postgres did not answer in time, or not at all
    ├── StoreConflict       Postgres gave up our transaction for another one's sake; the same again succeeds
    └── StoreRefuses        Postgres is there and does not let us in
"""

from dataclasses import dataclass


class WaybillError(Exception):
    """Any error of our own."""


class SettingsError(WaybillError):
    """Settings this process cannot start with; ``mistakes`` has one line each, naming the variable."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class CannotStart(WaybillError):
    """A server this process brings along cannot run here; the text is one line that says what mends it."""


class RenderError(WaybillError):
    """A template failed on this payload; the text names the template, the line and the variable."""


class UnknownEventType(WaybillError):
    """The tenant's file has no event type of this name, or not any more."""


class PublishUnconfirmed(WaybillError):
    """A message was not confirmed by the broker: it may or may not have been taken."""


class SealError(WaybillError):
    """A sealed value opens under none of the master keys."""


class AccountUnusable(WaybillError):
    """A service account that is none, or cannot be read; the text names the field and never what is in it."""


class RelayUnusable(WaybillError):
    """A tenant's own relay that is none, or cannot be read; the text never says what is in it."""


class VapidKeyUnusable(WaybillError):
    """A VAPID key that is none, or cannot be read; the text never says what is in it."""


class StoreUnavailable(WaybillError):
    """Postgres could not be reached, or did not answer within its time."""


class StoreConflict(StoreUnavailable):
    """Postgres gave up our transaction for another one's sake (a deadlock, say): the same again succeeds."""


class StoreRefuses(StoreUnavailable):
    """Postgres is there and does not let us in: who we say we are, or where we come from, is not to its liking."""


class TenantFileError(WaybillError):
    """A tenant file that cannot be applied; ``mistakes`` has one line each, ``file:line:column path: what``."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


@dataclass(frozen=True, slots=True)
class FieldError:
    """One mistake in a request: a JSON pointer ('' for the whole body), a stable code and a sentence."""

    pointer: str
    code: str
    detail: str


class Problem(WaybillError):
    """An answer other than success: an HTTP status, a stable ``code`` and every mistake found."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        errors: list[FieldError] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors or []
        self.headers = headers or {}
