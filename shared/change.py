"""Changes: what a product is told afterwards, so that its own records stay in step with ours."""

from enum import StrEnum


class ChangeKind(StrEnum):
    """What a change is about; the word stored in ``changes.kind``."""

    JOB = "job"
    """A job came to another status: final, or PENDING again because somebody retries it."""
    EVENT = "event"
    """An event ended without having been made into jobs."""
    COMPLAINT = "complaint"
    """The recipient of a mail complained about it; the job stays as it is."""
    TARGET = "target"
    """A push target is no more."""


class TargetEnd(StrEnum):
    """Why a push target is no more; the word in ``changes.reason`` and in the counter."""

    DEAD = "dead"
    """Its push service said that it is gone for good."""
    TOO_MANY = "too_many"
    """Its recipient registered more targets than there may be, and it was unused for longest."""
    MOVED = "moved"
    """Another recipient registered it."""
    ASKED = "asked"
    """It was removed over the API: by the product, or by its owner."""


TARGET_ENDS: dict[TargetEnd, str] = {
    TargetEnd.DEAD: "Its push service said that it is gone for good: delete it on your side.",
    TargetEnd.TOO_MANY: "The recipient registered more than 20 targets, and this one was unused for longest.",
    TargetEnd.MOVED: "Another recipient registered it: it rings for that one now.",
    TargetEnd.ASKED: "It was removed over the API, by the product or by its owner.",
}
"""Every end in words for people."""
