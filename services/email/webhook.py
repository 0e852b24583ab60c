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
from services.email.wire import Bounds
from shared.store.receipts import ReceiptSource
from shared.web.body import AnyRequest, read_beginning
from shared.web.problems import problem

BOUNDS = Bounds()
AGREED_SECONDS = 300
"""How far the signature's time may be from ours: what was signed cannot be used again for ever."""
HEADER = "x-waybill-signature"
_SIGNATURE = re.compile(r"t=(\d{1,12}),\s*v1=([0-9a-f]{64})", re.ASCII)


class TakenOut(Struct):
    """What became of the report: new, known, too_many, not_a_report, no_job, forged, expired."""

    result: str


def sign(secret: str, body: bytes, seconds: int) -> str:
    """The header for ``body``, signed at ``seconds`` since 1970."""
    mac = _begin(secret, str(seconds))
    mac.update(body)
    return f"t={seconds},v1={mac.hexdigest()}"


def _begin(secret: str, seconds: str) -> hmac.HMAC:
    return hmac.new(secret.encode(), f"{seconds}.".encode(), "sha256")


def bounce_route(receiving: Receiving, secret: str | None) -> HTTPRouteHandler:
    """The route; without a ``secret`` it is closed."""

    @post("/bounces", status_code=200, request_max_body_size=BOUNDS.largest, include_in_schema=False)
    async def post_bounce(request: AnyRequest) -> TakenOut:
        """Take one mail that came back."""
        if secret is None:
            raise problem("not_found", "Set WAYBILL_BOUNCE_SECRET to open this address.")
        found = _SIGNATURE.fullmatch(request.headers.get(HEADER, ""))
        if found is None:
            raise problem("signature_missing", "Send X-Waybill-Signature: t=<seconds>,v1=<HMAC-SHA256 in hex>.")
        if abs(time.time() - int(found[1])) > AGREED_SECONDS:
            raise problem("signature_invalid", f"Its time is more than {AGREED_SECONDS // 60} minutes from ours.")
        # Anybody can post here: of a body that may turn out to be unsigned, no more is kept than is needed of a mail.
        mac = _begin(secret, found[1])
        beginning = await read_beginning(request, BOUNDS.kept, mac.update)
        if not hmac.compare_digest(mac.hexdigest(), found[2]):
            raise problem("signature_invalid", "It must be made of this body and this time, with the shared secret.")
        return TakenOut(await receiving.take(Arrival(beginning, ReceiptSource.WEBHOOK)))

    return post_bounce
