"""The table from FCM's answers to verdicts: only what is said of the token forgets it, nothing but a name is a yes."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from services.push.fcm_replies import blames_access_token, judge, judge_oauth
from services.push.replies import classify
from services.push.reply import Reply
from shared.job import JobReason
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
APNS_ERROR = "type.googleapis.com/google.firebase.fcm.v1.ApnsError"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
DEAD = Rejected(target_dead=True)
HTML = b"<!DOCTYPE html><title>Error</title>"


def error(
    status: int, word: str, message: str = "", code: str = "", apns: str = "", field: str = "", why: str = ""
) -> Reply:
    details: list[dict[str, object]] = []
    if code:
        details.append({"@type": FCM_ERROR, "errorCode": code})
    if apns:
        details.append({"@type": APNS_ERROR, "statusCode": status, "reason": apns})
    if field:
        faults = [{"field": one, "description": message} for one in field.split()]
        details.append({"@type": BAD_REQUEST, "fieldViolations": faults})
    if why:
        details.append({"@type": ERROR_INFO, "reason": why, "domain": "googleapis.com"})
    body = {"error": {"code": status, "message": message, "status": word, "details": details}}
    return Reply(status, {}, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (Reply(200, {}, b'{"name": "projects/p/messages/1"}'), Delivered("projects/p/messages/1", "200")),
        (Reply(200, {}, b"{}"), NoVerdict(True)),
        (Reply(200, {}, b'{"name": ""}'), NoVerdict(True)),
        (Reply(200, {}, b'{"name": 7}'), NoVerdict(True)),
        (Reply(200, {}, b'["name"]'), NoVerdict(True)),
        (Reply(200, {}, HTML), NoVerdict(True)),
        (Reply(200, {}, b"\xff\xfe"), NoVerdict(True)),
        (Reply(302, {"location": "http://169.254.169.254/"}, b""), NoVerdict(False)),
        (error(404, "NOT_FOUND", "gone", "UNREGISTERED"), Rejected(target_dead=True)),
        (error(400, "INVALID_ARGUMENT", "gone", "UNREGISTERED"), Rejected(target_dead=True)),
        (error(404, "NOT_FOUND", "no such project"), SenderBlocked("sender")),
        (Reply(404, {}, HTML), NoVerdict(False)),
        (Reply(404, {}, b""), NoVerdict(False)),
        (error(400, "INVALID_ARGUMENT", "The registration token is not valid", "INVALID_ARGUMENT"), Rejected()),
        (error(400, "INVALID_ARGUMENT", "Invalid argument.", "INVALID_ARGUMENT", "BadDeviceToken"), Rejected()),
        (error(400, "INVALID_ARGUMENT", "Invalid argument.", "INVALID_ARGUMENT", "Unregistered"), DEAD),
        (error(400, "INVALID_ARGUMENT", "Invalid registration token", "INVALID_ARGUMENT", field="message.token"), DEAD),
        (error(400, "INVALID_ARGUMENT", "Bad", field="message.token message.data"), Rejected()),
        (error(400, "INVALID_ARGUMENT", "Bad", field="message.token.x"), Rejected()),
        (error(400, "INVALID_ARGUMENT", "Invalid value (TYPE_STRING), 7", field="message.token"), Rejected()),
        (error(400, "FAILED_PRECONDITION", "Bad", field="message.token"), SenderBlocked("sender")),
        (error(400, "INVALID_ARGUMENT", "The registration token is not a valid FCM registration token"), DEAD),
        (error(400, "INVALID_ARGUMENT", "Invalid argument.", "INVALID_ARGUMENT", "TooManyRequests"), Deferred()),
        (error(400, "INVALID_ARGUMENT", "", "INVALID_ARGUMENT", "DeviceTokenNotForTopic"), SenderBlocked("sender")),
        (error(400, "INVALID_ARGUMENT", "", "INVALID_ARGUMENT", "ExpiredProviderToken"), SenderBlocked("sender")),
        (error(400, "INVALID_ARGUMENT", "", "INVALID_ARGUMENT", "ServiceUnavailable"), NoVerdict(False)),
        (error(400, "INVALID_ARGUMENT", "", "INVALID_ARGUMENT", "BadCollapseId"), Rejected()),
        (error(400, "INVALID_ARGUMENT", "API key not valid.", why="API_KEY_INVALID"), SenderBlocked("sender")),
        (error(403, "PERMISSION_DENIED", "never enabled", why="SERVICE_DISABLED"), SenderBlocked("sender")),
        (error(403, "PERMISSION_DENIED", "billing", why="BILLING_DISABLED"), SenderBlocked("sender")),
        (error(403, "PERMISSION_DENIED", "quota", why="RATE_LIMIT_EXCEEDED"), Deferred()),
        (error(400, "UNKNOWN", "", "UNSPECIFIED_ERROR"), NoVerdict(False)),
        (error(400, "", "", "UNSPECIFIED_ERROR"), Deferred()),
        (error(409, "ABORTED", "again"), NoVerdict(False)),
        (error(499, "CANCELLED", "never mind"), NoVerdict(False)),
        (Reply(404, {}, b'{"error": {"status": "NOT_FOUND", "details": [{"errorCode": "UNREGISTERED"}]}}'), DEAD),
        (Reply(401, {}, b'{"error": {"details": [{"errorCode": "THIRD_PARTY_AUTH_ERROR"}]}}'), SenderBlocked("sender")),
        (error(404, "NOT_FOUND", "not there", "UNREGISTERED", "Unregistered"), DEAD),
        (error(400, "INVALID_ARGUMENT", "The device token is off.", "INVALID_ARGUMENT", "Unregistered"), DEAD),
        (error(400, "INVALID_ARGUMENT", "No recipient.", "INVALID_ARGUMENT", field="message"), Rejected()),
        (error(400, "INVALID_ARGUMENT", "A String.", "INVALID_ARGUMENT", field="message.apns.payload.aps"), Rejected()),
        (error(400, "INVALID_ARGUMENT", "Unknown name", field="message.webpush"), Rejected()),
        (error(403, "PERMISSION_DENIED", "scopes", why="ACCESS_TOKEN_SCOPE_INSUFFICIENT"), SenderBlocked("sender")),
        (error(401, "UNAUTHENTICATED", "no token", why="CREDENTIALS_MISSING"), SenderBlocked("sender")),
        (error(429, "RESOURCE_EXHAUSTED", "per minute", why="RATE_LIMIT_EXCEEDED"), Deferred()),
        (Reply(200, {}, b'{"success": 0, "failure": 1, "results": [{"error": "NotRegistered"}]}'), NoVerdict(True)),
        (Reply(400, {}, b'[{"error": {"status": "NOT_FOUND", "message": ""}}]'), Rejected()),
        (error(400, "INVALID_ARGUMENT", "Invalid value at 'message.data[0].value'"), Rejected()),
        (
            error(400, "INVALID_ARGUMENT", "Android message is too big", "INVALID_ARGUMENT"),
            Rejected(JobReason.PAYLOAD_TOO_LARGE),
        ),
        (
            error(400, "INVALID_ARGUMENT", "Invalid argument.", "INVALID_ARGUMENT", "PayloadTooLarge"),
            Rejected(JobReason.PAYLOAD_TOO_LARGE),
        ),
        (Reply(413, {}, HTML), Rejected(JobReason.PAYLOAD_TOO_LARGE)),
        (Reply(403, {}, HTML), NoVerdict(False)),
        (Reply(401, {}, b""), SenderBlocked("sender")),
        (Reply(400, {}, HTML), NoVerdict(False)),
        (error(403, "PERMISSION_DENIED", "", "SENDER_ID_MISMATCH"), SenderBlocked("sender")),
        (error(403, "PERMISSION_DENIED", "denied"), SenderBlocked("sender")),
        (error(401, "UNAUTHENTICATED", "expired"), SenderBlocked("sender")),
        (error(401, "UNAUTHENTICATED", "", "THIRD_PARTY_AUTH_ERROR"), SenderBlocked("sender")),
        (error(429, "RESOURCE_EXHAUSTED", "", "QUOTA_EXCEEDED"), Deferred()),
        (Reply(429, {}, HTML), Deferred()),
        (error(500, "INTERNAL", "", "INTERNAL"), NoVerdict(False)),
        (error(503, "UNAVAILABLE", "", "UNAVAILABLE"), NoVerdict(False)),
        (error(503, "UNAVAILABLE", "", "UNREGISTERED"), NoVerdict(False)),
        (Reply(502, {}, HTML), NoVerdict(False)),
        (Reply(504, {}, b""), NoVerdict(False)),
        (Reply(408, {}, b'{"error": {}}'), NoVerdict(False)),
    ],
)
def test_an_answer_has_its_verdict(reply: Reply, verdict: Verdict) -> None:
    assert _bare(judge(reply)) == _bare(verdict)


def _bare(verdict: Verdict) -> tuple[object, ...]:
    match verdict:
        case Rejected():
            return Rejected, verdict.reason, verdict.target_dead
        case NoVerdict():
            return NoVerdict, verdict.handed_over
        case SenderBlocked():
            return SenderBlocked, verdict.part
        case Deferred():
            return Deferred, verdict.retry_after
        case Delivered():
            return Delivered, verdict.provider_id, verdict.code


def test_a_wait_is_taken_from_seconds_or_a_date_and_from_nothing_else() -> None:
    def wait(text: str) -> timedelta | None:
        verdict = judge(Reply(429, {"retry-after": text}, b"{}"))
        assert isinstance(verdict, Deferred)
        return verdict.retry_after

    assert wait("60") == timedelta(seconds=60)
    assert wait("0") == timedelta()
    in_an_hour = wait(format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True))
    assert in_an_hour is not None
    assert timedelta(minutes=50) < in_an_hour <= timedelta(hours=1)
    assert wait("Wed, 21 Oct 2015 07:28:00 GMT") == timedelta()
    assert wait("soon") is wait("") is wait("-5") is wait("9" * 400 + "x") is None


@pytest.mark.parametrize(
    ("header", "delay", "seconds"),
    [
        (None, "30s", 30),
        (None, "3.5s", 3.5),
        (None, "0s", 0),
        ("60", "30s", 60),
        (None, "9" * 12 + "s", 10**7),
        (None, "30", None),
        (None, "-1s", None),
        (None, 30, None),
        (None, {"seconds": "30"}, None),
    ],
)
def test_a_wait_in_the_body_stands_in_for_a_missing_header(
    header: str | None, delay: object, seconds: float | None
) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]
    headers = {} if header is None else {"retry-after": header}
    expected = None if seconds is None else timedelta(seconds=seconds)
    for status, word in ((429, "RESOURCE_EXHAUSTED"), (503, "UNAVAILABLE"), (403, "RATE_LIMIT_EXCEEDED")):
        body = json.dumps({"error": {"status": word, "message": "", "details": details}}).encode()
        verdict = judge(Reply(status, headers, body))
        assert isinstance(verdict, Deferred | NoVerdict)
        assert verdict.retry_after == expected


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (
            Reply(400, {}, b'{"error": "invalid_grant", "error_description": "account not found"}'),
            SenderBlocked("sender"),
        ),
        (Reply(401, {}, b'{"error": "invalid_client"}'), SenderBlocked("sender")),
        (Reply(401, {}, b""), SenderBlocked("sender")),
        (Reply(403, {}, HTML), SenderBlocked("sender")),
        (Reply(400, {}, HTML), NoVerdict(False)),
        (Reply(429, {}, b'{"error": "rate_limit_exceeded"}'), NoVerdict(False)),
        (Reply(400, {}, b'{"error": "temporarily_unavailable"}'), NoVerdict(False)),
        (Reply(500, {}, b'{"error": "internal_failure"}'), NoVerdict(False)),
        (Reply(403, {}, b'{"error": {"errors": [{"reason": "rateLimitExceeded"}]}}'), NoVerdict(False)),
        (Reply(403, {}, b'{"error": {"status": "PERMISSION_DENIED"}}'), SenderBlocked("sender")),
        (Reply(200, {}, HTML), NoVerdict(False)),
        (Reply(200, {}, b'{"access_token": 7}'), NoVerdict(False)),
    ],
)
def test_an_answer_instead_of_an_access_token_has_its_verdict(reply: Reply, verdict: Verdict) -> None:
    assert _bare(judge_oauth(reply)) == _bare(verdict)


def test_only_an_unexplained_401_speaks_of_the_access_token() -> None:
    assert blames_access_token(error(401, "UNAUTHENTICATED", "expired"))
    assert not blames_access_token(error(401, "UNAUTHENTICATED", "", "THIRD_PARTY_AUTH_ERROR"))
    assert not blames_access_token(error(403, "PERMISSION_DENIED"))


def test_no_answer_at_all_is_an_outage() -> None:
    row: dict[str, object] = {
        "channel": "fcm",
        "service": "fcm",
        "status": None,
        "headers": {},
        "body": "",
        "error": "reset",
    }
    assert classify(row) == "outage"
