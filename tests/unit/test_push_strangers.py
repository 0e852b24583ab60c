"""When a refusal blames one target, and when it blames us: by whether more recipients take our messages than refuse."""

import pytest

from services.push.strangers import LATELY_SECONDS, Strangers
from shared.ids import ScopeId
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

OTHERS = SenderBlocked("sender", "SENDER_ID_MISMATCH", "SenderId mismatch")
KEPT = Rejected(code="SENDER_ID_MISMATCH", error="SenderId mismatch")


class Town:
    """Recipients by name, who are rung one after the other, a second apart."""

    def __init__(self) -> None:
        self.now = 10_000.0
        self._strangers = Strangers(lambda: self.now)

    def rings(self, name: str, *verdicts: Verdict, again: bool = False, credential: str = "one") -> list[Verdict]:
        """What is made of the verdicts on one recipient's targets."""
        self.now += 1.0
        return self._strangers.judge("fcm", credential, (ScopeId(1), name), verdicts, again=again)


@pytest.fixture
def town() -> Town:
    return Town()


def test_the_first_refusal_blames_us_and_so_do_most_of_many(town: Town) -> None:
    tables: list[list[Verdict]] = [[OTHERS], [Delivered(), OTHERS], [*[OTHERS] * 19, Delivered()]]
    for verdicts in tables:
        assert town.rings("bob", *verdicts) == verdicts


def test_one_among_many_of_a_recipients_own_is_a_stranger_at_once(town: Town) -> None:
    assert town.rings("bob", Delivered(), Delivered(), OTHERS) == [Delivered(), Delivered(), KEPT]


def test_while_others_get_through_a_refusal_waits_once_and_is_then_the_targets_own(town: Town) -> None:
    town.rings("ann", Delivered())
    town.rings("ben", Delivered())
    assert town.rings("carol", OTHERS) == [OTHERS]
    town.rings("ann", Delivered())
    town.rings("ben", Delivered())
    assert town.rings("carol", OTHERS, again=True) == [KEPT]


def test_who_got_through_before_does_not_vouch_for_what_is_refused_again_since(town: Town) -> None:
    town.rings("ann", Delivered())
    town.rings("ben", Delivered())
    town.rings("carol", OTHERS)
    assert town.rings("carol", OTHERS, again=True) == [OTHERS]
    # Nor do they vouch for a second one right behind the first.
    assert town.rings("dave", OTHERS) == [OTHERS]


def test_a_recipient_has_one_voice_however_many_targets_and_messages(town: Town) -> None:
    for _ in range(50):
        town.rings("friendly", *[Delivered()] * 20)
    assert town.rings("bob", OTHERS) == [OTHERS], "one that takes everything is not most"
    for name in ("ann", "ben", "cleo"):
        town.rings(name, Delivered())
    for _ in range(50):
        town.rings("hostile", *[OTHERS] * 20)
    for name in ("ann", "ben", "cleo"):
        town.rings(name, Delivered())
    assert town.rings("bob", OTHERS, again=True) == [KEPT], "three friends, two strangers"


def test_friends_of_an_hour_ago_do_not_vouch(town: Town) -> None:
    for name in ("ann", "ben", "cleo"):
        town.rings(name, Delivered())
    town.now += LATELY_SECONDS
    assert town.rings("bob", OTHERS) == [OTHERS]


def test_who_was_a_stranger_an_hour_ago_has_not_been_one_all_the_time(town: Town) -> None:
    town.rings("bob", OTHERS)
    for name in ("ann", "ben", "cleo"):
        town.rings(name, Delivered())
    town.now += LATELY_SECONDS
    assert town.rings("dave", OTHERS) == [OTHERS]
    assert town.rings("bob", OTHERS, again=True) == [OTHERS]


def test_other_credentials_begin_with_a_clean_sheet(town: Town) -> None:
    for name in ("ann", "ben", "cleo"):
        town.rings(name, Delivered())
    assert town.rings("bob", OTHERS, again=True, credential="two") == [OTHERS]


def test_what_is_said_of_the_credentials_themselves_is_left_alone(town: Town) -> None:
    friends = [Delivered()] * 5
    for verdict in (
        SenderBlocked("sender", "BadJwtToken", "BadJwtToken"),
        SenderBlocked("sender", "UNAUTHENTICATED", "expired"),
        NoVerdict(handed_over=True, code="timeout"),
        Deferred(code="QUOTA_EXCEEDED"),
        Rejected(target_dead=True, code="UNREGISTERED"),
    ):
        assert town.rings("bob", *friends, verdict, again=True) == [*friends, verdict]


def test_every_services_words_for_another_sender_are_known(town: Town) -> None:
    for said in (
        "VapidPkHashMismatch",
        "the VAPID credentials in the authorization header do not correspond to the credentials used to subscribe",
        "the key in the authorization header does not correspond to the sender ID used to subscribe this user",
    ):
        judged = town.rings("bob", *[Delivered()] * 2, SenderBlocked("sender", "HTTP 403", said))
        assert isinstance(judged[-1], Rejected)
