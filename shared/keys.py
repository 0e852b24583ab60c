"""API keys: how they are written, what is kept of them, and what each may do."""

import hashlib
import secrets
import string
import zlib
from enum import StrEnum

from shared.tenant import Mode

ALPHABET = string.digits + string.ascii_letters
RANDOM_LENGTH = 32
"""Characters of 62: 190 bits, nothing to guess."""
CHECKSUM_LENGTH = 6
PREFIXES = {Mode.LIVE: "wb_live_", Mode.TEST: "wb_test_"}


class Permission(StrEnum):
    """What a key may be used for; the words stored in ``api_keys.permissions``."""

    EVENTS_WRITE = "events:write"
    """Post and cancel events, and retry failed jobs."""
    EVENTS_READ = "events:read"
    """Read and list events, jobs and attempts, and the feed of changes."""
    METRICS_READ = "metrics:read"
    """Read the scope's counts."""
    RECIPIENTS_READ = "recipients:read"
    """Read recipients and their push targets."""
    RECIPIENTS_WRITE = "recipients:write"
    """Register and remove push targets."""
    SUPPRESSIONS_READ = "suppressions:read"
    """Read which addresses are suppressed."""
    SUPPRESSIONS_WRITE = "suppressions:write"
    """Suppress addresses, and write to them again."""


OPERATIONS: dict[str, Permission] = {
    "post_event": Permission.EVENTS_WRITE,
    "get_event": Permission.EVENTS_READ,
    "cancel_event": Permission.EVENTS_WRITE,
    "cancel_events_of_ref": Permission.EVENTS_WRITE,
    "list_events": Permission.EVENTS_READ,
    "list_jobs": Permission.EVENTS_READ,
    "list_failed_jobs": Permission.EVENTS_READ,
    "list_changes": Permission.EVENTS_READ,
    "retry_job": Permission.EVENTS_WRITE,
    "retry_failed_jobs": Permission.EVENTS_WRITE,
    "get_metrics": Permission.METRICS_READ,
    "put_push_target": Permission.RECIPIENTS_WRITE,
    "list_push_targets": Permission.RECIPIENTS_READ,
    "delete_push_target": Permission.RECIPIENTS_WRITE,
    "delete_push_target_by_id": Permission.RECIPIENTS_WRITE,
    "list_suppressions": Permission.SUPPRESSIONS_READ,
    "post_suppression": Permission.SUPPRESSIONS_WRITE,
    "delete_suppression": Permission.SUPPRESSIONS_WRITE,
}
"""Which permission each operation of the API needs: the one place that says so."""


def mint_key(mode: Mode) -> str:
    """A new key; whoever is to use it must be told now, only its hash is kept."""
    body = PREFIXES[mode] + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    return body + _checksum(body)


def is_key(text: str) -> bool:
    """Whether ``text`` has the form of a key and its checksum is right: no key that was ever issued fails this."""
    prefix = next((prefix for prefix in PREFIXES.values() if text.startswith(prefix)), None)
    if prefix is None or len(text) != len(prefix) + RANDOM_LENGTH + CHECKSUM_LENGTH:
        return False
    return text.isascii() and secrets.compare_digest(text[-CHECKSUM_LENGTH:], _checksum(text[:-CHECKSUM_LENGTH]))


def hash_key(key: str) -> bytes:
    """What is kept of ``key``. It is random, so a plain SHA-256 cannot be turned back."""
    return hashlib.sha256(key.encode()).digest()


def hint_of(key: str) -> str:
    """The beginning of ``key``, to tell keys apart in lists."""
    return key[: len(PREFIXES[Mode.LIVE]) + 4] + "…"


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return digits
