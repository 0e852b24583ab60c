"""From an answer of FCM, or of the OAuth server before it, to a verdict.

Judged by HTTP status, FcmError detail, Apple's reason and field. On the safe side: a token is forgotten only for what
is said of that very token, and nothing but the name of a message is a delivery.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from services.push.reply import Reply, seconds_of, text_of
from shared.job import JobReason
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

APNS_ERROR = "type.googleapis.com/google.firebase.fcm.v1.ApnsError"
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
TOKEN_FIELD = "message.token"  # noqa: S105 - a field's name

# BadDeviceToken is not among them: to all of an app's living tokens Apple says it when the wrong of its two
# environments was asked.
_DEAD = {"UNREGISTERED", "Unregistered", "ExpiredToken"}
_TOO_MANY = {"QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", "TooManyRequests", "TooManyProviderTokenUpdates"}
_TOO_MANY |= {"RATE_LIMIT_EXCEEDED", "rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded"}
_DOWN = {"UNAVAILABLE", "INTERNAL", "UNKNOWN", "ABORTED", "CANCELLED", "DEADLINE_EXCEEDED"}
_DOWN |= {"InternalServerError", "ServiceUnavailable", "Shutdown", "IdleTimeout"}
_OUR_PROJECT = {"SENDER_ID_MISMATCH", "THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR", "UNAUTHENTICATED"}
_OUR_PROJECT |= {"PERMISSION_DENIED", "FAILED_PRECONDITION", "API_KEY_INVALID", "API_KEY_EXPIRED", "SERVICE_DISABLED"}
_OUR_PROJECT |= {"CONSUMER_INVALID", "CONSUMER_SUSPENDED", "BILLING_DISABLED", "USER_PROJECT_DENIED"}
_OUR_PROJECT |= {"ExpiredProviderToken", "InvalidProviderToken", "MissingProviderToken", "BadCertificate", "Forbidden"}
_OUR_PROJECT |= {"BadCertificateEnvironment", "BadEnvironmentKeyInToken", "BadEnvironmentKeyIdInToken"}
_OUR_PROJECT |= {"DeviceTokenNotForTopic", "BadTopic", "MissingTopic", "TopicDisallowed"}
_TOO_LARGE = re.compile(r"too (?:big|large|long)|toolarge|exceed\w* .{0,40}(?:size|bytes|limit)", re.IGNORECASE)
_NO_TOKEN = re.compile(r"registration token is not a valid FCM", re.IGNORECASE)
_OAUTH_DOWN = ("temporarily_unavailable", "server_error", "internal_failure", "rate_limit_exceeded")


@dataclass(frozen=True, slots=True)
class _Said:
    """What an error in Google's form says; '' where it says nothing. ``code`` is FCM's own, ``apns`` Apple's reason.

    ``words``: all of its codes. ``faults``: what is said of which field. ``wait``: how long we are to leave it alone.
    """

    message: str
    code: str
    status: str
    apns: str
    words: frozenset[str]
    faults: tuple[tuple[str, str], ...]
    wait: timedelta | None

    @property
    def blames_token(self) -> bool:
        """Whether the token is none: it, and nothing else, is at fault, and not for how it was written down."""
        if self.faults:
            return all(field == TOKEN_FIELD and "TYPE_" not in description for field, description in self.faults)
        return _NO_TOKEN.search(self.message) is not None


def judge(reply: Reply) -> Verdict:
    """The verdict on an answer to one message."""
    if 200 <= reply.status <= 299:
        return _judge_success(reply)
    said = _said(reply)
    code = f"HTTP {reply.status}" if said is None else said.code or said.status or f"HTTP {reply.status}"
    error = None if said is None else " ".join(filter(None, (said.message, said.apns))) or None
    wait = _wait(reply, said)
    if reply.status == 429:
        return Deferred(wait, code, error)
    if reply.status == 413:
        return Rejected(JobReason.PAYLOAD_TOO_LARGE, code=code, error=error)
    # A page under 403 is a firewall's or a front end's: FCM itself answers in JSON.
    refused = reply.status == 401 or (reply.status in (402, 403) and not reply.is_page)
    if refused and (said is None or not said.words & _TOO_MANY):
        return SenderBlocked("sender", code, error)
    if said is None or not 400 <= reply.status <= 499 or reply.status == 408:
        # The service is down, or it was not FCM that answered: nothing is said of message or token.
        return NoVerdict(handed_over=False, code=code, error=error, refused=True, retry_after=wait)
    return _judge_refusal(reply.status, said, wait, code, error)


def _judge_success(reply: Reply) -> Verdict:
    name = reply.fields.get("name")
    if isinstance(name, str) and name:
        return Delivered(provider_id=name, code=str(reply.status))
    # Somebody said yes, but not to what: it may have been taken all the same.
    return NoVerdict(handed_over=True, code=f"HTTP {reply.status}", error="the answer names no message")


def _judge_refusal(status: int, said: _Said, wait: timedelta | None, code: str, error: str | None) -> Verdict:
    if said.words & _DEAD:
        return Rejected(target_dead=True, code=code, error=error)
    if said.words & _TOO_MANY:
        return Deferred(wait, code, error)
    if said.words & _OUR_PROJECT or status == 404:
        # A 404 without UNREGISTERED speaks of the project, not of the token.
        return SenderBlocked("sender", code, error)
    if _TOO_LARGE.search(" ".join((said.message, said.apns, *(description for _, description in said.faults)))):
        return Rejected(JobReason.PAYLOAD_TOO_LARGE, code=code, error=error)
    if said.words & _DOWN:
        return NoVerdict(handed_over=False, code=code, error=error, refused=True, retry_after=wait)
    if said.code == "UNSPECIFIED_ERROR":
        return Deferred(wait, code, error)
    return Rejected(target_dead=said.status == "INVALID_ARGUMENT" and said.blames_token, code=code, error=error)


def judge_oauth(reply: Reply) -> Verdict:
    """The verdict on every message that waits for an access token, when this was the answer instead of one."""
    said = reply.fields.get("error")
    code = f"oauth {said}" if isinstance(said, str) else f"oauth HTTP {reply.status}"
    refused = reply.status in (401, 403) or (isinstance(said, str | dict) and 400 <= reply.status <= 499)
    explained = _said(reply)
    too_many = explained is not None and bool(explained.words & _TOO_MANY)
    if refused and not too_many and reply.status not in (408, 429) and said not in _OAUTH_DOWN:
        return SenderBlocked("sender", code, "the service account was refused")
    return NoVerdict(handed_over=False, code=code, refused=True, retry_after=_wait(reply, explained))


def blames_access_token(reply: Reply) -> bool:
    """Whether a fresh access token may mend it: a 401 that is not about the project's key with Apple."""
    said = _said(reply)
    return reply.status == 401 and (said is None or not said.code)


def _wait(reply: Reply, said: _Said | None) -> timedelta | None:
    """How long we are to leave it alone: the header says it, else the body may."""
    return said.wait if said is not None and reply.retry_after is None else reply.retry_after


def _said(reply: Reply) -> _Said | None:
    error = reply.fields.get("error")
    if not isinstance(error, dict):
        return None
    details = _objects(error.get("details"))

    def detail(kind: str, field: str) -> str:
        return next((text_of(one.get(field)) for one in details if one.get("@type") == kind), "")

    # Nobody else's detail has an errorCode: it is FCM's also where the type was lost on the way.
    code = next(filter(None, (text_of(one.get("errorCode")) for one in details)), "")
    status, apns = text_of(error.get("status")), detail(APNS_ERROR, "reason")
    # An API's own gateway says why in ErrorInfo, or in an older list.
    reasons = [detail(ERROR_INFO, "reason"), *(text_of(one.get("reason")) for one in _objects(error.get("errors")))]
    faults = [
        (text_of(fault.get("field")), text_of(fault.get("description")))
        for one in details
        if one.get("@type") == BAD_REQUEST
        for fault in _objects(one.get("fieldViolations"))
    ]
    words = frozenset(filter(None, (code, status, apns, *reasons)))
    wait = seconds_of(detail(RETRY_INFO, "retryDelay"))
    return _Said(text_of(error.get("message")), code, status, apns, words, tuple(faults), wait)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
