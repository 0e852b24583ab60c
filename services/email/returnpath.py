"""The address that bounces of one mail come back to: it names the job, ends some day, and nobody else can make it."""

import hmac
import re
from base64 import b32decode, b32encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

LIFE = timedelta(days=14)
"""Longer than any relay tries, with the days that a receipt may wait besides."""
PURPOSE = "return path"
_HOUR = 3600
_MAC_BYTES = 10
# Letters that survive being written in capitals, and nothing that any server takes for a comment or a route. ASCII, for
# else a long s is an s in capitals.
_FORM = re.compile(r"^bounces\+([a-z2-7]{26})\.([0-9a-f]{1,8})\.([a-z2-7]{16})@", re.IGNORECASE | re.ASCII)
_CLAIMED = re.compile(r"^bounces\+[^@]*@", re.IGNORECASE | re.ASCII)


class Validity(StrEnum):
    """What a return path is worth."""

    GOOD = "good"
    FORGED = "forged"
    """Nobody of us made it."""
    EXPIRED = "expired"
    """We made it, too long ago to believe what comes back now."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The job that a return path names, as far as it may be believed: None unless it is GOOD."""

    validity: Validity
    job: UUID | None = None


class ReturnPaths:
    """Makes and reads return paths under ``keys``, of which the first makes and all read."""

    def __init__(self, keys: Sequence[bytes], domain: str | None) -> None:
        """``domain``: where bounces are received; without one no mail gets a return path of its own."""
        self._keys = keys
        self._domain = domain

    def address_for(self, job: UUID, now: datetime) -> str | None:
        """The return path of ``job`` from ``now`` on, at most 64 characters before its @; None without a domain."""
        if self._domain is None:
            return None
        body = f"{_base32(job.bytes)}.{int((now + LIFE).timestamp()) // _HOUR:x}"
        return f"bounces+{body}.{_sign(self._keys[0], body)}@{self._domain}"

    def read(self, address: str, now: datetime) -> Returned | None:
        """What ``address`` is worth as a return path; None when it does not look like one."""
        found = _FORM.match(address.strip().strip("<>"))
        if found is None:
            return Returned(Validity.FORGED) if _CLAIMED.match(address.strip().strip("<>")) else None
        job, expiry, mac = (part.lower() for part in found.groups())
        if not any(hmac.compare_digest(_sign(key, f"{job}.{expiry}"), mac) for key in self._keys):
            return Returned(Validity.FORGED)
        if int(expiry, 16) * _HOUR < now.timestamp():
            return Returned(Validity.EXPIRED)
        return Returned(Validity.GOOD, UUID(bytes=b32decode(job.upper() + "======")))


def _sign(key: bytes, body: str) -> str:
    return _base32(hmac.digest(key, body.encode(), "sha256")[:_MAC_BYTES])


def _base32(value: bytes) -> str:
    return b32encode(value).decode().rstrip("=").lower()
