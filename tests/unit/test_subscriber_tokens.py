"""Subscriber tokens: one algorithm, one audience, a day at most."""

import time
from datetime import timedelta
from typing import Any

import jwt
import pytest

from shared.errors import Problem
from shared.ids import ScopeId
from shared.web.tokens import AUDIENCE, mint_subscriber_token, scope_of_token, verify_subscriber_token

SECRET = b"s" * 32
SCOPE = ScopeId(7)


def signed(secret: bytes = SECRET, algorithm: str = "HS256", kid: object = "7", **changes: Any) -> str:
    claims = {"sub": "bob", "aud": AUDIENCE, "exp": int(time.time()) + 80_000} | changes
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, secret, algorithm=algorithm, headers={"kid": kid} if kid is not None else None)


def test_a_minted_token_speaks_for_its_recipient_in_its_scope() -> None:
    token = mint_subscriber_token(SECRET, SCOPE, "bob", timedelta(hours=1))
    assert scope_of_token(token) == SCOPE
    subscriber = verify_subscriber_token(token, SECRET, SCOPE)
    assert (subscriber.scope_id, subscriber.recipient_id) == (SCOPE, "bob")
    assert 3500 < subscriber.expires_at.timestamp() - time.time() <= 3600


def test_a_token_minted_by_the_tenants_own_back_end_is_as_good() -> None:
    assert verify_subscriber_token(signed(), SECRET, SCOPE).recipient_id == "bob"


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (signed(secret=b"x" * 32), "token_invalid"),
        (signed(algorithm="HS512", secret=b"s" * 64), "token_invalid"),
        (signed(exp=int(time.time()) - 60), "token_expired"),
        (signed(exp=int(time.time()) + 90_000), "token_invalid"),
        (signed(exp=None), "token_invalid"),
        (signed(exp="soon"), "token_invalid"),
        (signed(aud="other"), "token_invalid"),
        (signed(aud=None), "token_invalid"),
        (signed(sub=None), "token_invalid"),
        (signed(sub=""), "token_invalid"),
        (signed(sub="a\0b"), "token_invalid"),
        (signed(sub="x" * 256), "token_invalid"),
        (signed(nbf=int(time.time()) + 36_000), "token_invalid"),
    ],
)
def test_a_token_that_breaks_a_rule_is_refused_with_a_challenge(token: str, code: str) -> None:
    with pytest.raises(Problem) as caught:
        verify_subscriber_token(token, SECRET, SCOPE)
    assert (caught.value.status, caught.value.code) == (401, code)
    assert caught.value.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "abc",
        "a.b.c",
        "x" * 5000,
        "W1tb" * 900 + ".a.b",
        signed(kid=None),
        signed(kid="seven"),
        signed(kid="\u0667"),
        signed(kid="9" * 40),
        signed(kid="9999999999"),
        signed(kid="-1"),
        jwt.encode({"sub": "bob"}, "", algorithm="none", headers={"kid": "7"}),
        signed(algorithm="HS512", secret=b"s" * 64),
    ],
)
def test_what_names_no_scope_under_our_algorithm_is_refused(token: str) -> None:
    with pytest.raises(Problem) as caught:
        scope_of_token(token)
    assert (caught.value.status, caught.value.code) == (401, "token_invalid")


@pytest.mark.parametrize("lifetime", [timedelta(hours=25), timedelta(), timedelta(seconds=-1)])
def test_no_token_is_minted_for_longer_than_a_day_or_less_than_a_moment(lifetime: timedelta) -> None:
    with pytest.raises(ValueError, match="24 hours"):
        mint_subscriber_token(SECRET, SCOPE, "bob", lifetime)


def test_no_token_is_minted_for_an_impossible_recipient() -> None:
    with pytest.raises(ValueError, match="recipient"):
        mint_subscriber_token(SECRET, SCOPE, "", timedelta(hours=1))
