"""Secrets at rest: AES-GCM under the master keys, bound to what they belong to."""

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from shared.errors import SealError

KEY_BYTES = 32
_VERSION = b"\x01"
_NAME_BYTES = 4
_NONCE_BYTES = 12


def new_master_key() -> str:
    """A fresh master key as it stands in ``WAYBILL_MASTER_KEYS``: base64 of 32 random bytes."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode()


def parse_master_keys(text: str) -> tuple[bytes, ...]:
    """The keys of ``base64,base64``, newest first; ValueError says which one is wrong, never what it was."""
    keys = []
    for number, part in enumerate(text.split(","), start=1):
        try:
            key = base64.b64decode(part.strip(), validate=True)
        except ValueError as exc:
            raise ValueError(f"key {number} is not base64") from exc
        if len(key) != KEY_BYTES:
            raise ValueError(f"key {number} has {len(key)} bytes, it needs {KEY_BYTES}")
        keys.append(key)
    return tuple(keys)


class Sealer:
    """Seals under the newest of ``keys`` (the first) and opens what any of them sealed."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys:
            raise ValueError("at least one master key is needed")
        self._keys = tuple(keys)
        self._ciphers = [(_name(key), AESGCM(key)) for key in keys]

    def seal(self, plain: bytes, bound_to: str) -> bytes:
        """``plain`` sealed for ``bound_to``, say ``scope:7``; no other words open it."""
        name, cipher = self._ciphers[0]
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + name + nonce + cipher.encrypt(nonce, plain, bound_to.encode())

    def signing_keys(self, purpose: str) -> tuple[bytes, ...]:
        """One key per master key, newest first, to sign with for ``purpose`` and for nothing else."""
        return tuple(hmac.digest(key, f"waybill {purpose}".encode(), "sha256") for key in self._keys)

    def open(self, sealed: bytes, bound_to: str) -> bytes:
        """What was sealed for ``bound_to``; SealError when no master key opens it."""
        name = sealed[1 : 1 + _NAME_BYTES]
        nonce = sealed[1 + _NAME_BYTES : 1 + _NAME_BYTES + _NONCE_BYTES]
        if sealed[:1] == _VERSION and len(nonce) == _NONCE_BYTES:
            for cipher in (cipher for known, cipher in self._ciphers if known == name):
                try:
                    return cipher.decrypt(nonce, sealed[1 + _NAME_BYTES + _NONCE_BYTES :], bound_to.encode())
                except InvalidTag:
                    continue
        raise SealError(f"the sealed value for {bound_to} opens under none of the master keys")


def _name(key: bytes) -> bytes:
    """Four bytes that say which key sealed a value without saying anything about the key."""
    return hashlib.sha256(b"waybill master key" + key).digest()[:_NAME_BYTES]
