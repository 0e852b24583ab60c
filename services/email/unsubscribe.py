"""Unsubscribe links: what a mail carries in its header and at its end.

A link names one person, one category, the tenant's half and the language of the mail, and is signed. It does not end:
old mails are kept for years.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from shared.content import EmailContent
from shared.delivery.provider import Parcel

PATH = "/unsubscribe"
PURPOSE = "unsubscribe"
LONGEST_TOKEN = 2_000
_MAC_BYTES = 15


class Subscription(Struct, array_like=True, frozen=True):
    """What a link switches off: a category, for one recipient of a half. ``locale`` is the mail's, '' in old links."""

    scope_id: int
    recipient_id: str
    category: str
    locale: str = ""


class Links:
    """Makes and reads unsubscribe links under ``keys``, of which the first makes and all read."""

    def __init__(self, keys: Sequence[bytes], base_url: str | None) -> None:
        """``base_url``: where the page is reached; without one no mail carries a link."""
        self._keys = keys
        self._base_url = base_url

    def link_for(self, parcel: Parcel) -> str | None:
        """The link that ``parcel`` carries: none where there is nothing to switch off."""
        content = parcel.content
        if self._base_url is None or not isinstance(content, EmailContent):
            return None
        if content.category is None or content.critical:
            return None
        token = self.write(Subscription(parcel.scope_id, parcel.recipient_id, content.category, content.locale))
        return f"{self._base_url.rstrip('/')}{PATH}/{token}"

    def write(self, subscription: Subscription) -> str:
        """``subscription`` as a token."""
        return self.sign(msgspec.json.encode(subscription))

    def sign(self, body: bytes) -> str:
        """``body`` as a token."""
        return urlsafe_b64encode(_sign(self._keys[0], body) + body).rstrip(b"=").decode()

    def read(self, token: str) -> Subscription | None:
        """What ``token`` names; None unless it is one of ours."""
        if len(token) > LONGEST_TOKEN or not token.isascii():
            return None
        try:
            raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            return None
        mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not any(hmac.compare_digest(_sign(key, body), mac) for key in self._keys):
            return None
        return msgspec.json.decode(body, type=Subscription)


def _sign(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:_MAC_BYTES]
