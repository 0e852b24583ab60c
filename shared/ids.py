"""The identifiers of events, jobs and attempts, and how they are written outside.

Inside, an event is a UUIDv7 and a job a bigint. Outside, every id is a prefix and a UUIDv7: ``evt_…``,
``job_…``, ``att_…``. A job is one event on one channel, so its outside id is the event's with the channel
in the last four bits: no column, no index and no count of other people's jobs is given away.
"""

import hashlib
import os
import time
from typing import NewType
from uuid import UUID

from shared.channel import CHANNEL_NUMBERS, Channel

EventId = NewType("EventId", UUID)
JobId = NewType("JobId", int)
ScopeId = NewType("ScopeId", int)
TenantId = NewType("TenantId", int)

_CHANNEL_BITS = 0xF
_BY_NUMBER = {number: channel for channel, number in CHANNEL_NUMBERS.items()}


def new_event_id() -> EventId:
    """A fresh UUIDv7 whose last four bits are zero (they hold the channel in the ids of its jobs).

    The twelve bits behind the milliseconds are the fraction of the millisecond (RFC 9562, method 3), so that ids
    of one process sort as they were made.
    """
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = (nanoseconds << 12) // 1_000_000
    random = int.from_bytes(os.urandom(8), "big") & ~_CHANNEL_BITS
    return EventId(_uuid7(milliseconds, fraction << 64 | random))


def format_event_id(event_id: UUID) -> str:
    """``evt_`` and 32 hexadecimal digits."""
    return f"evt_{event_id.hex}"


def parse_event_id(text: str) -> EventId | None:
    """The event id written as ``text``, or None when it is none."""
    value = _parse("evt_", text)
    return None if value is None or value.int & _CHANNEL_BITS else EventId(value)


def job_uuid(event_id: UUID, channel: Channel) -> UUID:
    """The job's identity outside, as a UUID: also the left part of its Message-ID."""
    return UUID(int=event_id.int & ~_CHANNEL_BITS | CHANNEL_NUMBERS[channel])


def format_job_id(event_id: UUID, channel: Channel) -> str:
    """``job_`` and 32 hexadecimal digits."""
    # Written for every attempt: without a UUID in between it takes a third.
    return f"job_{event_id.int & ~_CHANNEL_BITS | CHANNEL_NUMBERS[channel]:032x}"


def parse_job_id(text: str) -> tuple[EventId, Channel] | None:
    """The event and channel of the job written as ``text``, or None when it is none."""
    value = _parse("job_", text)
    channel = None if value is None else _BY_NUMBER.get(value.int & _CHANNEL_BITS)
    if value is None or channel is None:
        return None
    return EventId(UUID(int=value.int & ~_CHANNEL_BITS)), channel


def format_attempt_id(event_id: UUID, channel: Channel, claim_seq: int, target_id: int) -> str:
    """``att_`` and a UUIDv7 made from what identifies the attempt: the same at every read."""
    digest = hashlib.sha256(f"{job_uuid(event_id, channel).hex}.{claim_seq}.{target_id}".encode()).digest()
    return f"att_{_uuid7(event_id.int >> 80, int.from_bytes(digest[:10], 'big')).hex}"


def _uuid7(milliseconds: int, random: int) -> UUID:
    value = (milliseconds & (1 << 48) - 1) << 80 | random & (1 << 80) - 1
    value = value & ~(0xF << 76) | 7 << 76
    return UUID(int=value & ~(0x3 << 62) | 2 << 62)


def _parse(prefix: str, text: str) -> UUID | None:
    digits = text.removeprefix(prefix)
    if digits == text or len(digits) != 32 or not set(digits) <= set("0123456789abcdef"):  # noqa: PLR2004 - its meaning stands beside it
        return None
    return UUID(hex=digits)
