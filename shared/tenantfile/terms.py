"""How jobs are treated: lane, expiry, retries, unknown outcomes, each said at three levels, the nearest wins."""

import re
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import cast

from shared.channel import Channel
from shared.job import Lane
from shared.retry import DEFAULT_POLICIES, OnUnknown, RetryPolicy, Terms
from shared.tenant import DEFAULT_EXPIRES_AFTER, ChannelTerms
from shared.tenantfile.nodes import Node, Report, Scalar
from shared.tenantfile.section import Section

LANES = {"transactional": Lane.TRANSACTIONAL, "bulk": Lane.BULK}
SHORTEST_EMAIL_HORIZON = timedelta(hours=1)
EXPLICIT_CEILING = timedelta(hours=24)
"""A policy that says its own backoff stands as written; a multiplier needs some end all the same."""

_PERCENT = re.compile(r"(\d{1,3})%")


@dataclass(frozen=True, slots=True)
class Options:
    """What one level says; None is left to the level above."""

    lane: Lane | None = None
    expires_after: timedelta | None = None
    on_unknown: OnUnknown | None = None
    attempts: int | None = None
    backoff: timedelta | None = None
    multiplier: float | None = None
    jitter: float | None = None

    def over(self, above: "Options") -> "Options":
        """These options, with what they leave open taken from ``above``."""
        said = {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}
        return replace(above, **said)

    def terms_for(self, channel: Channel) -> ChannelTerms:
        """The terms of ``channel``, with its own defaults for what nobody said."""
        own = DEFAULT_POLICIES[channel]
        is_explicit = self.backoff is not None or self.multiplier is not None
        # Somebody who writes a backoff means that one, not one that doubles.
        own_multiplier = own.multiplier if self.backoff is None else 1.0
        policy = RetryPolicy(
            attempts=self.attempts or own.attempts,
            backoff=self.backoff or own.backoff,
            multiplier=self.multiplier or own_multiplier,
            jitter=own.jitter if self.jitter is None else self.jitter,
            ceiling=EXPLICIT_CEILING if is_explicit else own.ceiling,
        )
        return ChannelTerms(
            terms=Terms(policy, self.on_unknown or "resend"),
            lane=Lane.TRANSACTIONAL if self.lane is None else self.lane,
            expires_after=self.expires_after or DEFAULT_EXPIRES_AFTER,
        )


def read_options(section: Section) -> Options:
    """The options said directly in ``section``."""
    lane = section.choice("lane", LANES)
    options = Options(
        lane=None if lane is None else LANES[lane],
        expires_after=section.duration("expires_after"),
        on_unknown=cast("OnUnknown | None", section.choice("on_unknown", ("resend", "hold"))),
    )
    retry = section.section("retry")
    return options if retry is None else _with_retry(options, retry)


def _with_retry(options: Options, retry: Section) -> Options:
    attempts = retry.number("attempts", 1, 50, whole=True)
    backoff = retry.duration("backoff")
    multiplier = retry.number("multiplier", 1, 10, whole=False)
    jitter_node = retry.get("jitter")
    jitter = None if jitter_node is None else _percent(jitter_node, retry.report)
    retry.close()
    return replace(
        options,
        attempts=None if attempts is None else int(attempts),
        backoff=backoff,
        multiplier=None if multiplier is None else float(multiplier),
        jitter=jitter,
    )


def _percent(node: Node, report: Report) -> float | None:
    text = node.value if isinstance(node, Scalar) else None
    match = _PERCENT.fullmatch(text) if isinstance(text, str) else None
    if match is None or int(match[1]) > 90:  # noqa: PLR2004 - its meaning stands beside it
        report.add(node.place, "must be a share from 0% to 90%, like 20%")
        return None
    return int(match[1]) / 100


def email_warning(event_type: str, how: ChannelTerms) -> str | None:
    """A sentence when mail of ``event_type`` would give up before greylisting receivers let it in."""
    horizon = how.terms.retry.horizon()
    if horizon >= SHORTEST_EMAIL_HORIZON:
        return None
    minutes = round(horizon.total_seconds() / 60)
    return (
        f"event_types.{event_type}.channels.email: its retries end after {minutes} min; receivers that greylist "
        "may take an hour to accept a first mail"
    )
