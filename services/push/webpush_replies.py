"""From an answer of a Web Push service (RFC 8030, and what the big four make of it) to a verdict.

Words come before the status: Apple says in JSON why, Mozilla by number, Google in a sentence, Microsoft in headers.
On the safe side: a subscription is forgotten only for a 404 or 410 of the push service itself, and a page for people
is never a delivery.
"""

import re

from services.push.reply import Reply, text_of
from shared.job import JobReason
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

# The key, its signature or the claims under it, as each of them says it.
_OUR_KEY = re.compile(
    r"vapid|jwt|unauthori[sz]ed|authori[sz]ation|authenticat|(?:provider|bearer|access|auth|security) ?token"
    r"|sender ?id|mismatch|do(?:es)? not correspond|crypto-key header|p256ecdsa|application ?server ?key",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(r"too (?:big|large|long)|toolarge|exceed\w* .{0,40}(?:size|bytes|limit)", re.IGNORECASE)
_TOO_MANY = re.compile(r"too ?many|rate.?limit|quota|throttl|slow down", re.IGNORECASE)
_GOOGLES_PAGE = re.compile(rb"<H2>Error \d{3}</H2>|<title>Error \d{3} \([^()<]*\)!!1")
"""Google's push service answers in pages as well, of two makes."""
_WRONG_PATH = ("BadPath", "MethodNotAllowed")
"""Apple's words for an address that none of its subscriptions can have: our doing, whatever the status."""
_WNS_STATUS = ("x-wns-notificationstatus", "x-wns-status")
_RECEIPT = {"id", "message-id", "message_id", "success"}
"""One of these is in the JSON of a push service that took a message and says so under 200."""
_NO_SUCCESS = (False, None, "", "0", "false", "False")
_FAILED = ("error", "fail", "failed", "failure")
_NO_ENDPOINT = re.compile(r"invalid (?:push )?(?:subscription )?endpoint", re.IGNORECASE)
"""Said under 403 as well, of one address: nothing is wrong with our key."""
_BETWEEN = re.compile(r"default backend|no route|upstream", re.IGNORECASE)
"""How what stands before a push service says that it does not find it."""
_ERRNO_OUR_KEY = (109,)
_ERRNO_TOO_LARGE = (104,)
_ERRNO_REQUEST = (101, 108, *range(110, 115))
_ERRNO_DOWN = (201, 202)
"""Of Mozilla's errors: https://autopush.readthedocs.io, HTTP API, error codes. Those of the request speak of keys and
headers too, but of the message's and the subscription's."""


def judge_webpush(reply: Reply) -> Verdict:
    """The verdict on an answer to one message."""
    if 200 <= reply.status <= 299:
        return _judge_success(reply)
    code, said = _code(reply), _said(reply)
    if reply.status in (406, 429):
        # 406 is Microsoft's word for too many.
        return Deferred(reply.retry_after, code, said)
    if reply.status in (401, 402, 403) and not _is_strangers_page(reply, said):
        return _judge_forbidden(reply, code, said)
    if not 400 <= reply.status <= 499 or reply.status in (401, 402, 403, 407, 408, 421, 425):
        # No redirect is followed, and whatever is down will come back: the subscription stays.
        return _down(reply, code, said)
    if reply.status == 413:
        return Rejected(JobReason.PAYLOAD_TOO_LARGE, code=code, error=said)
    return _judge_refusal(reply, code, said)


def _judge_forbidden(reply: Reply, code: str, said: str) -> Verdict:
    if _TOO_MANY.search(said):
        return Deferred(reply.retry_after, code, said)
    return Rejected(code=code, error=said) if _NO_ENDPOINT.search(said) else _our_key(code, said)


def _judge_success(reply: Reply) -> Verdict:
    for name in _WNS_STATUS:
        status = reply.headers.get(name, "received").lower()
        if status != "received":
            # Taken by the front door and thrown away behind it: throttled, or dropped for a device that is off.
            return Deferred(reply.retry_after, f"WNS {status}"[:64])
    if reply.status > 202 or reply.is_page or _contradicts_itself(reply):
        # Somebody said yes, but no push service that we know: it may have been taken all the same.
        return NoVerdict(handed_over=True, code=f"HTTP {reply.status}", error="no push service answers so")
    return Delivered(provider_id=reply.headers.get("location"), code=str(reply.status))


def _contradicts_itself(reply: Reply) -> bool:
    """Whether the body of a success speaks of none, or (under 200, which anybody says) of something else entirely."""
    fields = reply.fields
    if not fields:
        return reply.status == 200 and bool(reply.text)
    code = fields.get("code")
    failed = fields.get("success", True) in _NO_SUCCESS or (isinstance(code, int) and code >= 400)
    failed = failed or text_of(fields.get("status")).lower() in _FAILED
    if reply.status == 200 and not fields.keys() & _RECEIPT:
        return True
    return failed or any(fields.get(name) for name in ("errno", "error", "errors", "reason", "failure"))


def _judge_refusal(reply: Reply, code: str, said: str) -> Verdict:
    errno, reason = reply.fields.get("errno"), text_of(reply.fields.get("reason"))
    if errno in _ERRNO_OUR_KEY or "vapid" in said.lower():
        return _our_key(code, said)
    if reply.status == 410 or (reply.status == 404 and reason not in _WRONG_PATH):
        return _judge_gone(reply, code, said)
    if errno in _ERRNO_DOWN:
        return _down(reply, code, said)
    if errno in _ERRNO_REQUEST:
        return Rejected(code=code, error=said)
    if errno in _ERRNO_TOO_LARGE or _TOO_LARGE.search(said):
        return Rejected(JobReason.PAYLOAD_TOO_LARGE, code=code, error=said)
    if _OUR_KEY.search(said):
        return _our_key(code, said)
    if _TOO_MANY.search(said) or reply.status == 412:
        # 412: Microsoft's device is off, and the message was not kept for it.
        return Deferred(reply.retry_after, code, said)
    if _is_strangers_page(reply, said):
        # Nothing is said of message or subscription.
        return _down(reply, code, said)
    return Rejected(code=code, error=said)


def _judge_gone(reply: Reply, code: str, said: str) -> Verdict:
    if reply.status == 404 and (_is_strangers_page(reply, said) or _BETWEEN.search(said)):
        # Somebody in between, who knows no subscriptions.
        return _down(reply, code, said)
    return Rejected(target_dead=True, code=code, error=said)


def _is_strangers_page(reply: Reply, said: str) -> bool:
    """Whether a proxy or a firewall answered, and not the push service: with a page that says nothing of any key."""
    return reply.is_page and not _GOOGLES_PAGE.search(reply.body) and not _OUR_KEY.search(said)


def _down(reply: Reply, code: str, said: str) -> NoVerdict:
    return NoVerdict(handed_over=False, code=code, error=said, refused=True, retry_after=reply.retry_after)


def _our_key(code: str, said: str) -> SenderBlocked:
    return SenderBlocked("sender", code, said)


def _code(reply: Reply) -> str:
    fields = reply.fields
    reason, errno = text_of(fields.get("reason")), fields.get("errno")
    return reason[:64] or (f"errno {errno}" if isinstance(errno, int) else f"HTTP {reply.status}")


def _said(reply: Reply) -> str:
    """All words of the answer: its body's or, as Microsoft has it, its headers'."""
    fields = reply.fields
    words = [text_of(fields.get(name)) for name in ("reason", "error", "message")] if fields else [reply.text]
    words += [reply.headers.get(name, "") for name in ("x-wns-error-description", "x-wns-status")]
    return " ".join(filter(None, words))[:1024]
