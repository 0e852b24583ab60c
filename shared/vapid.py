"""VAPID (RFC 8292): the key pair by which push services know one tenant, and what it signs."""

import base64
import hashlib
import time
from dataclasses import dataclass, field

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from shared.errors import VapidKeyUnusable

SIGNED_FOR_SECONDS = 12 * 3600
"""Half of what RFC 8292 allows: clocks may be hours off."""
PRIVATE_BYTES = 32


@dataclass(frozen=True, slots=True)
class VapidKey:
    """A tenant's key pair; ``public`` is what browsers subscribe with: base64url of the 65 bytes of its point."""

    public: str
    _private: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def secret(self) -> bytes:
        """The private key as it is kept and as other tools write it: base64url of its 32 bytes."""
        return write_base64url(self._private.private_numbers().private_value.to_bytes(PRIVATE_BYTES)).encode()

    @property
    def fingerprint(self) -> str:
        """A short word for the key, which says nothing about it."""
        return hashlib.sha256(self.public.encode()).hexdigest()[:16]

    def authorization(self, origin: str, contact: str) -> str:
        """The header ``Authorization`` for one push service; ``contact`` is whom its operators may write to."""
        claims = {"aud": origin, "exp": int(time.time()) + SIGNED_FOR_SECONDS, "sub": contact}
        return f"vapid t={jwt.encode(claims, self._private, algorithm='ES256')}, k={self.public}"


def new_vapid_key() -> VapidKey:
    """A fresh key pair."""
    return _vapid_key(ec.generate_private_key(ec.SECP256R1()))


def parse_vapid_key(secret: bytes) -> VapidKey:
    """The key pair of a private key in PEM or as base64url of its 32 bytes. Raises VapidKeyUnusable."""
    text = secret.strip()
    try:
        if text.startswith(b"-----"):
            private = load_pem_private_key(text, None)
        else:
            value = read_base64url(text.decode())
            if len(value) != PRIVATE_BYTES:
                raise ValueError
            private = ec.derive_private_key(int.from_bytes(value), ec.SECP256R1())
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise VapidKeyUnusable("a VAPID key is a private key on P-256, as PEM or as base64url of 32 bytes") from exc
    if not isinstance(private, ec.EllipticCurvePrivateKey) or not isinstance(private.curve, ec.SECP256R1):
        raise VapidKeyUnusable("a VAPID key must be on the curve P-256")
    return _vapid_key(private)


def read_base64url(text: str) -> bytes:
    """The bytes of base64url, or of ordinary base64, with or without padding. Raises ValueError."""
    plain = text.strip().rstrip("=").translate(str.maketrans("+/", "-_"))
    return base64.b64decode(plain + "=" * (-len(plain) % 4), altchars=b"-_", validate=True)


def write_base64url(value: bytes) -> str:
    """``value`` in base64url without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _vapid_key(private: ec.EllipticCurvePrivateKey) -> VapidKey:
    point = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return VapidKey(write_base64url(point), private)
