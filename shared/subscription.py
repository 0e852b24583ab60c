"""The keys of a Web Push subscription (RFC 8291): made by the browser, and all that can read what is sent to it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric import ec

from shared.vapid import read_base64url, write_base64url

POINT_BYTES = 65
AUTH_BYTES = 16


@dataclass(frozen=True, slots=True)
class SubscriptionKeys:
    """The browser's public key and its secret, in base64url without padding."""

    p256dh: str = field(repr=False)
    auth: str = field(repr=False)

    @property
    def point(self) -> ec.EllipticCurvePublicKey:
        """The public key. Raises ValueError when it is none."""
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), read_base64url(self.p256dh))

    @property
    def secret(self) -> bytes:
        """The secret's bytes. Raises ValueError when they are none."""
        return read_base64url(self.auth)


def plain_keys(p256dh: str, auth: str) -> SubscriptionKeys:
    """Sound keys, written the one way that is kept."""
    return SubscriptionKeys(write_base64url(read_base64url(p256dh)), write_base64url(read_base64url(auth)))


def key_problems(p256dh: str, auth: str) -> Iterator[tuple[str, str]]:
    """What is wrong with each of the keys: its name, and the rest of a sentence."""
    if (point := _bytes_of(p256dh)) is None or len(point) != POINT_BYTES or point[:1] != b"\x04":
        yield "p256dh", f"must be base64url of the {POINT_BYTES} bytes of an uncompressed point on P-256"
    elif not _is_on_curve(point):
        yield "p256dh", "is no point on the curve P-256"
    if (secret := _bytes_of(auth)) is None or len(secret) != AUTH_BYTES:
        yield "auth", f"must be base64url of {AUTH_BYTES} bytes"


def _bytes_of(text: str) -> bytes | None:
    try:
        return read_base64url(text)
    except ValueError:
        return None


def _is_on_curve(point: bytes) -> bool:
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except ValueError:
        return False
    return True
