"""Subscriber tokens: the short-lived JWT with which an end user reads their own inbox.

HS256 and nothing else, under a secret of the scope: a tenant's back end may mint them too. ``kid`` names the
scope, ``sub`` the recipient, ``aud`` is fixed, and no token lives longer than a day.
"""

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import jwt

from shared.errors import Problem
from shared.ids import ScopeId
from shared.recipient import id_problem
from shared.web.problems import unauthorized

AUDIENCE = "waybill-inbox"
ALGORITHM = "HS256"
LONGEST_LIFETIME = timedelta(hours=24)
SECRET_BYTES = 32
"""The length of a scope's secret: what HS256 asks for."""
CLOCK_LEEWAY = timedelta(seconds=10)
"""How far the clock of whoever minted the token may be off."""
LONGEST_TOKEN = 4096
_SCOPE_ID = re.compile(r"[1-9][0-9]{0,9}")
_LARGEST_SCOPE_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Who a valid token speaks for, and until when."""

    scope_id: ScopeId
    recipient_id: str
    expires_at: datetime


def mint_subscriber_token(
    secret: bytes, scope_id: ScopeId, recipient_id: str, lifetime: timedelta = LONGEST_LIFETIME
) -> str:
    """A token for ``recipient_id``; ValueError when ``lifetime`` is over a day or the recipient's id is impossible."""
    if not timedelta() < lifetime <= LONGEST_LIFETIME:
        raise ValueError("a subscriber token lives for more than nothing and at most 24 hours")
    if (problem := id_problem(recipient_id)) is not None:
        raise ValueError(f"the recipient's id {problem}")
    now = int(time.time())
    claims = {
        "sub": recipient_id,
        "aud": AUDIENCE,
        "iat": now,
        "exp": now + int(lifetime.total_seconds()),
    }
    return jwt.encode(claims, secret, algorithm=ALGORITHM, headers={"kid": str(scope_id)})


def scope_of_token(token: str) -> ScopeId:
    """The scope ``token`` says it belongs to: which secret to verify it with. Nothing is verified yet.

    Raises Problem 401 when it is no token of ours.
    """
    try:
        if len(token) > LONGEST_TOKEN:
            raise _refused("The token is too long to be one.")
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError) as exc:
        raise _refused("The token is not a JWT.") from exc
    kid = header.get("kid")
    if header.get("alg") != ALGORITHM:
        raise _refused(f"The token must be signed with {ALGORITHM}.")
    if not isinstance(kid, str) or not _SCOPE_ID.fullmatch(kid) or int(kid) > _LARGEST_SCOPE_ID:
        raise _refused("The token's header must name the scope in kid.")
    return ScopeId(int(kid))


def verify_subscriber_token(token: str, secret: bytes, scope_id: ScopeId) -> Subscriber:
    """Who ``token`` speaks for, once its signature under ``secret``, its audience and its times are right.

    Raises Problem 401. ``scope_id`` is what ``scope_of_token`` said.
    """
    try:
        claims = jwt.decode(
            token,
            secret,
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            leeway=CLOCK_LEEWAY,
            options={"require": ["exp", "sub", "aud"]},
        )
    except jwt.ExpiredSignatureError as exc:
        raise _refused("The token has expired: fetch a new one.", "token_expired") from exc
    except jwt.InvalidAudienceError as exc:
        raise _refused(f"The token's aud must be {AUDIENCE}.") from exc
    except jwt.MissingRequiredClaimError as exc:
        raise _refused(f"The token has no {exc.claim}.") from exc
    except (jwt.PyJWTError, ValueError, OverflowError) as exc:
        raise _refused("The token is not valid.") from exc
    expires = _expiry(claims["exp"])
    recipient_id = claims["sub"]
    if (problem := id_problem(recipient_id)) is not None:
        raise _refused(f"The token's sub {problem}.")
    return Subscriber(scope_id, recipient_id, expires)


def _expiry(exp: object) -> datetime:
    latest = time.time() + (LONGEST_LIFETIME + CLOCK_LEEWAY).total_seconds()
    if not isinstance(exp, int | float) or not exp <= latest:
        raise _refused("The token's exp may be 24 hours ahead at most.")
    return datetime.fromtimestamp(exp, UTC)


def _refused(detail: str, code: str = "token_invalid") -> Problem:
    return unauthorized(code, detail)
