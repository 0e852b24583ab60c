"""POST /bounces: reports that something of the operator's hands in, signed with a shared secret.

``X-Waybill-Signature: t=<seconds since 1970>,v1=<hex>``, where v1 is the HMAC-SHA256 of "<t>.<body>" under
``WAYBILL_BOUNCE_SECRET``, and the body the mail as it came in.
"""

import hmac
import re
import time

from litestar import post
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from services.email.intake import Arrival
from services.email.receiving import Receiving
from shared.store.receipts import ReceiptSource
from shared.web.body import AnyRequest, read_body
from shared.web.problems import problem

LARGEST_MAIL = 20 * 1024 * 1024
AGREED_SECONDS = 300
"""How far the signature's time may be from ours: what was signed cannot be used again for ever."""
HEADER = "x-waybill-signature"
_SIGNATURE = re.compile(r"t=(\d{1,12}),\s*v1=([0-9a-f]{64})", re.ASCII)


class TakenOut(Struct):
    """What became of the report: new, known, too_many, not_a_report, no_job, forged, expired."""

    result: str


def sign(secret: str, body: bytes, seconds: int) -> str:
    """The header for ``body``, signed at ``seconds`` since 1970."""
    mac = hmac.digest(secret.encode(), f"{seconds}.".encode() + body, "sha256").hex()
    return f"t={seconds},v1={mac}"


def bounce_route(receiving: Receiving, secret: str | None) -> HTTPRouteHandler:
    """The route; without a ``secret`` it is closed."""

    @post("/bounces", status_code=200, request_max_body_size=LARGEST_MAIL, include_in_schema=False)
    async def post_bounce(request: AnyRequest) -> TakenOut:
        """Take one mail that came back."""
        if secret is None:
            raise problem("not_found", "Set WAYBILL_BOUNCE_SECRET to open this address.")
        found = _SIGNATURE.fullmatch(request.headers.get(HEADER, ""))
        if found is None:
            raise problem("signature_missing", "Send X-Waybill-Signature: t=<seconds>,v1=<HMAC-SHA256 in hex>.")
        body = await read_body(request)
        seconds = int(found[1])
        if abs(time.time() - seconds) > AGREED_SECONDS or not hmac.compare_digest(
            sign(secret, body, seconds), f"t={found[1]},v1={found[2]}"
        ):
            raise problem("signature_invalid", "It must be made of this body, now, with the secret that both know.")
        return TakenOut(await receiving.take(Arrival(body, ReceiptSource.WEBHOOK)))

    return post_bounce
