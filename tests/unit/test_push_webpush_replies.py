"""The table from Web Push services' answers to verdicts: a 404 or 410 of theirs forgets, a proxy's page never does."""

import json
from datetime import timedelta

import pytest

from services.push.replies import classify
from services.push.reply import Reply
from services.push.webpush_replies import judge_webpush
from shared.job import JobReason
from shared.verdict import Deferred, NoVerdict, Rejected

NGINX = "<html><head><title>{0}</title></head><body><center><h1>{0}</h1></center><hr>nginx</body></html>"
GOOGLES = "<HTML>\n<HEAD>\n<TITLE>{0}</TITLE>\n</HEAD>\n<BODY>\n<H1>{0}</H1>\n<H2>Error {1}</H2>\n</BODY>\n</HTML>"
GOOGLES_OTHER = "<!DOCTYPE html>\n<html lang=en>\n  <title>Error {0} ({1})!!1</title>\n  <p><b>{0}.</b>"
GOOGLE = "<!DOCTYPE html><html lang=en><title>Error 404 (Not Found)!!1</title>"


def mozilla(status: int, errno: int, message: str = "") -> str:
    return json.dumps({"code": status, "errno": errno, "error": "Error", "message": message})


def apple(reason: str) -> str:
    return json.dumps({"reason": reason})


def word(status: int | None, body: str = "", **headers: str) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return classify({"channel": "webpush", "service": "any", "status": status, "headers": named, "body": body})


@pytest.mark.parametrize(
    ("status", "body", "headers", "expected"),
    [
        (201, "", {"location": "https://push.example/m/1"}, "delivered"),
        (201, "", {"content_type": "text/html; charset=UTF-8"}, "delivered"),
        (202, '{"message-id": "a"}', {}, "delivered"),
        (200, "", {}, "delivered"),
        (201, "", {"X_WNS_NotificationStatus": "received"}, "delivered"),
        (200, "", {"X_WNS_NotificationStatus": "channelThrottled"}, "backoff"),
        (200, "", {"X_WNS_NotificationStatus": "dropped"}, "backoff"),
        (200, NGINX.format("Sign in"), {}, "outage"),
        (200, mozilla(401, 109), {}, "outage"),
        (200, apple("InternalServerError"), {}, "outage"),
        (200, "Please sign in to the network", {}, "outage"),
        (200, '{"success": false}', {}, "outage"),
        (200, '{"code": 503}', {}, "outage"),
        (200, '{"status": "error", "message": "over quota"}', {}, "outage"),
        (201, '{"status": "failed"}', {}, "outage"),
        (200, '{"login": "https://portal.example/"}', {}, "outage"),
        (200, '{"message-id": "a"}', {}, "delivered"),
        (201, "", {"X_WNS_Status": "dropped"}, "backoff"),
        (200, "", {"X_WNS_Status": "received", "X_WNS_NotificationStatus": "channelthrottled"}, "backoff"),
        (200, "", {"X_WNS_Status": "received", "X_WNS_NotificationStatus": "received"}, "delivered"),
        (200, '{"id": "a", "success": true}', {}, "delivered"),
        (201, "Created", {}, "delivered"),
        (204, "", {}, "outage"),
        (206, "", {}, "outage"),
        (301, "", {"location": "http://169.254.169.254/"}, "outage"),
        (307, "", {"location": "https://elsewhere.example/"}, "outage"),
        (None, "", {}, "outage"),
        (410, "", {}, "dead-token"),
        (410, NGINX.format("410 Gone"), {}, "dead-token"),
        (410, apple("ExpiredToken"), {}, "dead-token"),
        (410, mozilla(410, 106), {}, "dead-token"),
        (410, mozilla(410, 103), {}, "dead-token"),
        (404, "", {}, "dead-token"),
        (404, "404: Not Found", {}, "dead-token"),
        (404, "A valid push subscription endpoint should be specified in the URL as such: …", {}, "dead-token"),
        (404, mozilla(404, 102, "Request did not validate invalid token"), {}, "dead-token"),
        (404, GOOGLE, {}, "dead-token"),
        (404, NGINX.format("404 Not Found"), {}, "outage"),
        (404, apple("BadPath"), {}, "bad-payload"),
        (400, apple("VapidPkHashMismatch"), {}, "tenant-config"),
        (410, apple("VapidPkHashMismatch"), {}, "tenant-config"),
        (403, apple("BadJwtToken"), {}, "tenant-config"),
        (403, apple("ExpiredProviderToken"), {}, "tenant-config"),
        (403, apple("TooManyProviderTokenUpdates"), {}, "backoff"),
        (400, apple("BadWebPushTopic"), {}, "bad-payload"),
        (400, apple("BadDeviceToken"), {}, "bad-payload"),
        (400, apple("BadExpirationDate"), {}, "bad-payload"),
        (413, apple("PayloadTooLarge"), {}, "bad-payload"),
        (400, "invalid JWT provided\n", {}, "tenant-config"),
        (403, "invalid JWT provided\n", {}, "tenant-config"),
        (400, "<HTML><HEAD><TITLE>UnauthorizedRegistration</TITLE></HEAD></HTML>", {}, "tenant-config"),
        (401, "", {}, "tenant-config"),
        (401, NGINX.format("401 Authorization Required"), {}, "tenant-config"),
        (403, GOOGLES.format("Forbidden", 403), {}, "tenant-config"),
        (402, "", {}, "tenant-config"),
        (400, GOOGLES.format("InvalidTokenFormat", 400), {}, "bad-payload"),
        (404, GOOGLES.format("NotRegistered", 404), {}, "dead-token"),
        (403, "", {"X_WNS_Error_Description": "The cloud service is not authorized"}, "tenant-config"),
        (400, "", {"X_WNS_Error_Description": "Bad channel, or a wrong header"}, "bad-payload"),
        (400, mozilla(400, 110, "invalid crypto keys"), {}, "bad-payload"),
        (400, mozilla(400, 111, "missing TTL"), {}, "bad-payload"),
        (400, mozilla(400, 109, "bad"), {}, "tenant-config"),
        (400, mozilla(400, 108, "no such router"), {}, "bad-payload"),
        (400, mozilla(400, 110, "no dh in the Crypto-Key header of aes128gcm"), {}, "bad-payload"),
        (400, mozilla(400, 113, "topic too long"), {}, "bad-payload"),
        (401, mozilla(401, 109, "public key mismatch"), {}, "tenant-config"),
        (410, mozilla(410, 999, "gone"), {}, "dead-token"),
        (429, mozilla(429, 201), {"retry_after": "117"}, "backoff"),
        (502, mozilla(502, 901, "our bridge was refused"), {}, "outage"),
        (503, "no connection to upstream", {}, "backoff"),
        (404, "default backend - 404", {}, "outage"),
        (404, '{"message": "no Route for this path"}', {}, "outage"),
        (404, "a subscription's endpoint should be in the URL", {}, "dead-token"),
        (403, "invalid push subscription endpoint", {}, "bad-payload"),
        (403, "sender is not authenticated", {}, "tenant-config"),
        (403, "claim aud must have the origin", {}, "tenant-config"),
        (403, GOOGLES_OTHER.format(403, "Forbidden"), {}, "tenant-config"),
        (400, GOOGLES_OTHER.format(400, "Bad Request"), {}, "bad-payload"),
        (500, GOOGLES_OTHER.format(500, "Server Error"), {}, "outage"),
        (400, GOOGLES.format("MessageTooBig", 400), {}, "bad-payload"),
        (403, GOOGLES.format("MismatchSenderId", 403), {}, "tenant-config"),
        (200, '{"success": 0, "failure": 1, "results": [{"error": "NotRegistered"}]}', {}, "outage"),
        (200, '{"success": 1, "failure": 0, "results": [{"message_id": "0:1"}]}', {}, "delivered"),
        (200, '{"success": "false", "id": "1"}', {}, "outage"),
        (200, '{"id": "1", "errors": ["expired"]}', {}, "outage"),
        (400, apple("BadWebPushToken"), {}, "bad-payload"),
        (400, apple("BadAuthorizationHeader"), {}, "tenant-config"),
        (403, apple("VapidPkHashMismatch"), {}, "tenant-config"),
        (503, apple("Shutdown"), {}, "backoff"),
        (
            400,
            "",
            {"X_WNS_Error_Description": "TTL and cache policy disagree", "X_WNS_Status": "dropped"},
            "bad-payload",
        ),
        (401, "", {"X_WNS_Error_Description": "JWT failed: no such signature"}, "tenant-config"),
        (404, "", {"X_WNS_Error_Description": "no such channel", "X_WNS_Status": "dropped"}, "dead-token"),
        (410, "", {"X_WNS_Error_Description": "the channel is over", "X_WNS_Status": "dropped"}, "dead-token"),
        (507, '{"code": 50701, "http": 507, "error": "no subscriber"}', {}, "outage"),
        (400, NGINX.format("400 Bad Request"), {}, "outage"),
        (400, "the payload is too large", {}, "bad-payload"),
        (406, "", {"retry_after": "900"}, "backoff"),
        (412, "", {}, "backoff"),
        (429, "", {}, "backoff"),
        (407, "", {}, "outage"),
        (408, "", {}, "outage"),
        (500, mozilla(500, 999), {}, "backoff"),
        (502, mozilla(502, 902), {}, "outage"),
        (503, mozilla(503, 201), {"retry_after": "120"}, "backoff"),
        (503, NGINX.format("503 Service Unavailable"), {}, "outage"),
        (403, NGINX.format("Attention Required!"), {}, "outage"),
        (403, "crypto-key header had invalid format", {}, "tenant-config"),
        (504, "", {}, "outage"),
        (511, NGINX.format("Network Authentication Required"), {}, "outage"),
    ],
)
def test_what_a_service_says_has_its_class(
    status: int | None, body: str, headers: dict[str, str], expected: str
) -> None:
    assert word(status, body, **headers) == expected


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60), ("3600", 3600), ("soon", None), ("", None), ("9" * 30, 10**7)]
)
def test_a_wait_that_was_asked_for_is_kept(text: str, seconds: int | None) -> None:
    verdict = judge_webpush(Reply(429, {"retry-after": text}, b""))
    assert verdict == Deferred(None if seconds is None else timedelta(seconds=seconds), "HTTP 429", "")


def test_a_payload_too_large_has_its_own_reason() -> None:
    for reply in (Reply(413, {}, b""), Reply(400, {}, mozilla(400, 104).encode()), Reply(413, {}, b"<html>")):
        verdict = judge_webpush(reply)
        assert isinstance(verdict, Rejected)
        assert (verdict.reason, verdict.target_dead) == (JobReason.PAYLOAD_TOO_LARGE, False)


def test_nothing_but_404_and_410_ever_forgets_a_subscription() -> None:
    bodies = ("", "nonsense", NGINX.format("Error"), "{", "[]", "\x00", mozilla(410, 106), apple("Unregistered"))
    for status in {*range(100, 200), *range(300, 600)} - {404, 410}:
        assert {word(status, body) for body in bodies} & {"dead-token", "delivered"} == set()


def test_a_server_in_trouble_refused_and_said_nothing_of_the_message_but_perhaps_when() -> None:
    for status in range(500, 600):
        verdict = judge_webpush(Reply(status, {"retry-after": "120"}, b""))
        assert isinstance(verdict, NoVerdict)
        assert (verdict.handed_over, verdict.refused) == (False, True)
        assert verdict.retry_after == timedelta(seconds=120)
