"""What an answer of any push service blames, in one word."""

from collections.abc import Mapping
from typing import Any, assert_never

from services.push.fcm_replies import judge, judge_oauth
from services.push.reply import Reply
from services.push.webpush_replies import judge_webpush
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict


def classify(row: Mapping[str, Any]) -> str:
    """One of delivered, dead-token, bad-payload, backoff, tenant-config and outage.

    ``row`` has channel, service, status, headers and body; no status: no answer came.
    """
    if row["status"] is None:
        return "outage"
    headers = {name.lower(): value for name, value in (row["headers"] or {}).items()}
    reply = Reply(row["status"], headers, (row["body"] or "").encode("utf-8", "replace"))
    return _word(_judge(row, reply), reply)


def _judge(row: Mapping[str, Any], reply: Reply) -> Verdict:
    if row["channel"] == "webpush":
        return judge_webpush(reply)
    return judge_oauth(reply) if row["service"] == "google-oauth" else judge(reply)


def _word(verdict: Verdict, reply: Reply) -> str:
    match verdict:
        case Delivered():
            return "delivered"
        case Rejected(target_dead=dead):
            return "dead-token" if dead else "bad-payload"
        case Deferred():
            return "backoff"
        case SenderBlocked():
            return "tenant-config"
        case NoVerdict(refused=True, retry_after=wait):
            said_itself = reply.status in (429, 500, 503) and not reply.is_page
            return "backoff" if said_itself or wait is not None else "outage"
        case NoVerdict():
            return "outage"
        case _:
            assert_never(verdict)
