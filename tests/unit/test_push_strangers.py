"""When a refusal blames one target, and when it blames us: by whether more of them take our messages than refuse."""

from services.push.strangers import Strangers
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

OTHERS = SenderBlocked("sender", "SENDER_ID_MISMATCH", "SenderId mismatch")
KEPT = Rejected(code="SENDER_ID_MISMATCH", error="SenderId mismatch")


def judged(*verdicts: Verdict, strangers: Strangers | None = None, credential: str = "one") -> list[Verdict]:
    return (strangers or Strangers()).judge("fcm", credential, verdicts)


def test_the_first_refusal_blames_us_and_so_do_most_of_many() -> None:
    assert judged(OTHERS) == [OTHERS]
    assert judged(Delivered(), OTHERS) == [Delivered(), OTHERS]
    assert judged(*[OTHERS] * 19, Delivered()) == [*[OTHERS] * 19, Delivered()]


def test_one_among_many_that_are_ours_is_a_stranger() -> None:
    assert judged(Delivered(), Delivered(), OTHERS) == [Delivered(), Delivered(), KEPT]
    strangers = Strangers()
    judged(Delivered(), Delivered(), strangers=strangers)
    assert judged(OTHERS, strangers=strangers) == [KEPT]
    # As many strangers as friends: from here on it may well be us.
    assert judged(OTHERS, strangers=strangers) == [OTHERS]


def test_friends_of_yesterday_do_not_vouch_for_credentials_that_fail_today() -> None:
    strangers = Strangers()
    judged(*[Delivered()] * 100, strangers=strangers)
    assert judged(Delivered(), *[OTHERS] * 19, strangers=strangers) == [Delivered(), *[OTHERS] * 19]
    judged(*[Delivered()] * 100, strangers=strangers)
    judged(Delivered(), strangers=strangers)
    assert judged(OTHERS, strangers=strangers) == [KEPT]
    assert judged(OTHERS, strangers=strangers) == [OTHERS], "two in a row, and nobody in between who took anything"
    judged(Delivered(), strangers=strangers)
    assert judged(OTHERS, strangers=strangers) == [KEPT]


def test_friends_met_one_at_a_time_vouch_as_those_met_at_once_do() -> None:
    strangers = Strangers()
    judged(Delivered(), strangers=strangers)
    judged(Delivered(), strangers=strangers)
    assert judged(OTHERS, strangers=strangers) == [KEPT]
    assert judged(OTHERS, strangers=strangers) == [OTHERS]


def test_other_credentials_begin_with_a_clean_sheet() -> None:
    strangers = Strangers()
    judged(*[Delivered()] * 100, strangers=strangers)
    assert judged(OTHERS, strangers=strangers, credential="two") == [OTHERS]


def test_what_is_said_of_the_credentials_themselves_is_left_alone() -> None:
    friends = [Delivered()] * 5
    for verdict in (
        SenderBlocked("sender", "BadJwtToken", "BadJwtToken"),
        SenderBlocked("sender", "UNAUTHENTICATED", "expired"),
        NoVerdict(handed_over=True, code="timeout"),
        Deferred(code="QUOTA_EXCEEDED"),
        Rejected(target_dead=True, code="UNREGISTERED"),
    ):
        assert judged(*friends, verdict) == [*friends, verdict]


def test_every_services_words_for_another_sender_are_known() -> None:
    for said in (
        "VapidPkHashMismatch",
        "the VAPID credentials in the authorization header do not correspond to the credentials used to subscribe",
        "the key in the authorization header does not correspond to the sender ID used to subscribe this user",
    ):
        assert isinstance(judged(*[Delivered()] * 2, SenderBlocked("sender", "HTTP 403", said))[-1], Rejected)
