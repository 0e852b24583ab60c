"""The two messages on the bus, and how they are written; each carries the version of its shape."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

import msgspec

from shared.errors import WaybillError
from shared.ids import EventId, ScopeId

MAX_IDS_PER_MESSAGE = 1000


class Undecodable(WaybillError):
    """A message that is none of ours, or of a version this release does not know."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """These events are QUEUED: route them.

    ``redelivered``: an earlier delivery of it did not end well. ``again``: these events were announced before and
    are QUEUED all the same. In both cases one of them may be what routing fails on.
    """

    event_ids: tuple[EventId, ...]
    redelivered: bool = False
    again: bool = False

    @property
    def is_suspect(self) -> bool:
        """Whether its events are to be kept apart from one another."""
        return self.redelivered or self.again


class _AnnouncementV1(msgspec.Struct, frozen=True, tag_field="v", tag=1, omit_defaults=True):
    event_ids: Annotated[list[UUID], msgspec.Meta(max_length=MAX_IDS_PER_MESSAGE)]
    # Absent in what releases before it wrote, and skipped by them when they read.
    again: bool = False


class _WakeV1(msgspec.Struct, frozen=True, tag_field="v", tag=1):
    scope_ids: list[int]


def in_messages(event_ids: Sequence[EventId]) -> Iterator[tuple[EventId, ...]]:
    """``event_ids`` in portions that fit one message."""
    for start in range(0, len(event_ids), MAX_IDS_PER_MESSAGE):
        yield tuple(event_ids[start : start + MAX_IDS_PER_MESSAGE])


def encode_announcement(event_ids: Sequence[EventId], *, again: bool = False) -> bytes:
    """The body of the message that announces ``event_ids``, for the first time or ``again``."""
    return msgspec.json.encode(_AnnouncementV1(list(event_ids), again))


def decode_announcement(body: bytes, redelivered: bool) -> Announcement:  # noqa: FBT001 - a yes or no by nature
    """The announcement in ``body``; Undecodable when it is none."""
    try:
        read = msgspec.json.decode(body, type=_AnnouncementV1)
    except msgspec.MsgspecError as exc:
        raise Undecodable(str(exc)) from exc
    return Announcement(tuple(EventId(event_id) for event_id in read.event_ids), redelivered, read.again)


def encode_wake(scope_ids: Collection[ScopeId]) -> bytes:
    """The body of the message that wakes senders for ``scope_ids``."""
    return msgspec.json.encode(_WakeV1(sorted(scope_ids)))


def decode_wake(body: bytes) -> frozenset[ScopeId]:
    """The scopes with new work; Undecodable when ``body`` is no wake."""
    try:
        return frozenset(ScopeId(scope_id) for scope_id in msgspec.json.decode(body, type=_WakeV1).scope_ids)
    except msgspec.MsgspecError as exc:
        raise Undecodable(str(exc)) from exc
