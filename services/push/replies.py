"""From an answer of FCM, or of the OAuth server before it, to a verdict.

Judged by HTTP status, FcmError detail and field. Coarse and on the safe side: nothing but UNREGISTERED forgets
a token, and nothing but the name of a message is a delivery.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, assert_never

import msgspec

from shared.job import JobReason
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
APNS_ERROR = "type.googleapis.com/google.firebase.fcm.v1.ApnsError"
UNREGISTERED = "UNREGISTERED"

_OUR_PROJECT = ("SENDER_ID_MISMATCH", "THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR")
_TOO_LARGE = re.compile(r"too (?:big|large|long)|toolarge|exceed\w* .{0,40}(?:size|bytes|limit)", re.IGNORECASE)
_OAUTH_DOWN = ("temporarily_unavailable", "server_error", "internal_failure")


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer; the names in ``headers`` are in lower case, ``body`` may be cut off."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Said:
    """What an error in Google's form says; '' where it says nothing. ``code`` is FCM's own, ``apns`` Apple's reason."""

    status: str
    message: str
    code: str
    apns: str


def judge(reply: Reply) -> Verdict:
    """The verdict on an answer to one message."""
    if 200 <= reply.status <= 299:
        return _judge_success(reply)
    said = _said(reply.body)
    code = f"HTTP {reply.status}" if said is None else said.code or said.status or f"HTTP {reply.status}"
    error = None if said is None else said.message or None
    if reply.status == 429:
        return Deferred(_retry_after(reply.headers), code, error)
    if reply.status in (401, 403):
        return SenderBlocked("sender", code, error)
    if reply.status == 413:
        return Rejected(JobReason.PAYLOAD_TOO_LARGE, code=code, error=error)
    if said is None or not 400 <= reply.status <= 499 or reply.status == 408:
        # The service is down, or it was not FCM that answered: nothing is said of message or token.
        return NoVerdict(handed_over=False, code=code, error=error)
    return _judge_refusal(reply, said, code)


def _judge_success(reply: Reply) -> Verdict:
    name = _object(reply.body).get("name")
    if isinstance(name, str) and name:
        return Delivered(provider_id=name, code=str(reply.status))
    # Somebody said yes, but not to what: it may have been taken all the same.
    return NoVerdict(handed_over=True, code=f"HTTP {reply.status}", error="the answer names no message")


def _judge_refusal(reply: Reply, said: _Said, code: str) -> Verdict:
    if said.code == UNREGISTERED:
        return Rejected(target_dead=True, code=code, error=said.message)
    if said.code == "QUOTA_EXCEEDED":
        return Deferred(_retry_after(reply.headers), code, said.message)
    if said.code in _OUR_PROJECT or reply.status == 404:
        # A 404 without UNREGISTERED speaks of the project, not of the token.
        return SenderBlocked("sender", code, said.message)
    if _TOO_LARGE.search(f"{said.message} {said.apns}"):
        return Rejected(JobReason.PAYLOAD_TOO_LARGE, code=code, error=said.message)
    return Rejected(code=code, error=" ".join(filter(None, (said.message, said.apns))))


def judge_oauth(reply: Reply) -> Verdict:
    """The verdict on every message that waits for an access token, when this was the answer instead of one."""
    said = _object(reply.body).get("error")
    code = f"oauth {said}" if isinstance(said, str) else f"oauth HTTP {reply.status}"
    refused = reply.status in (401, 403) or (isinstance(said, str) and 400 <= reply.status <= 499)
    if refused and reply.status not in (408, 429) and said not in _OAUTH_DOWN:
        return SenderBlocked("sender", code, "the service account was refused")
    return NoVerdict(handed_over=False, code=code)


def blames_access_token(reply: Reply) -> bool:
    """Whether a fresh access token may mend it: a 401 that is not about the project's key with Apple."""
    said = _said(reply.body)
    return reply.status == 401 and (said is None or not said.code)


def classify(row: Mapping[str, Any]) -> str:
    """What an answer blames, as one of delivered, dead-token, bad-payload, backoff, tenant-config and outage.

    Web Push is not judged yet: all of it counts as an outage, which deletes nothing.
    """
    if row["channel"] != "fcm" or row["status"] is None:
        return "outage"
    reply = Reply(row["status"], {k.lower(): v for k, v in row["headers"].items()}, (row["body"] or "").encode())
    verdict = judge_oauth(reply) if row["service"] == "google-oauth" else judge(reply)
    match verdict:
        case Delivered():
            return "delivered"
        case Rejected(target_dead=dead):
            return "dead-token" if dead else "bad-payload"
        case Deferred():
            return "backoff"
        case SenderBlocked():
            return "tenant-config"
        case NoVerdict():
            return "outage"
        case _:
            assert_never(verdict)


def _said(body: bytes) -> _Said | None:
    error = _object(body).get("error")
    if not isinstance(error, dict):
        return None
    given = error.get("details")
    details = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []

    def detail(kind: str, field: str) -> str:
        return next((_text(one.get(field)) for one in details if one.get("@type") == kind), "")

    return _Said(
        _text(error.get("status")),
        _text(error.get("message")),
        detail(FCM_ERROR, "errorCode"),
        detail(APNS_ERROR, "reason"),
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Seconds or an HTTP date; None where there is neither."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text), 10**7))
    try:
        return max(parsedate_to_datetime(text) - datetime.now(UTC), timedelta())
    except (ValueError, TypeError):
        return None
