"""Return paths: what we made is known again, whatever mail servers do to letters; nothing else is."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.email.returnpath import LIFE, Returned, ReturnPaths, Validity
from shared.channel import Channel
from shared.ids import job_uuid, new_event_id

NOW = datetime(2026, 6, 1, 9, 0, tzinfo=UTC)
OLD, NEW, FOREIGN = b"o" * 32, b"n" * 32, b"f" * 32
DOMAIN = "mail.shop.example"


def job() -> UUID:
    return job_uuid(new_event_id(), Channel.EMAIL)


def made(keys: tuple[bytes, ...] = (NEW,), name: UUID | None = None) -> str:
    address = ReturnPaths(keys, DOMAIN).address_for(name or job(), NOW)
    assert address is not None
    return address


def test_a_return_path_names_its_job_and_fits_every_server() -> None:
    name = job()
    address = made(name=name)
    local, _, domain = address.partition("@")
    assert domain == DOMAIN
    assert len(local) <= 64
    for spelt in (address, address.upper(), f"<{address}>", address.replace(DOMAIN, "elsewhere.example")):
        assert ReturnPaths((NEW,), DOMAIN).read(spelt, NOW) == Returned(Validity.GOOD, name)


def test_a_return_path_outlives_a_change_of_keys() -> None:
    name = job()
    assert ReturnPaths((NEW, OLD), DOMAIN).read(made((OLD,), name), NOW) == Returned(Validity.GOOD, name)


@pytest.mark.parametrize("place", [10, 30, 40, -30])
def test_a_changed_letter_makes_it_a_forgery(place: int) -> None:
    address = made()
    changed = "a" if address[place] != "a" else "b"
    bent = address[:place] + changed + address[place + 1 if place != -1 else len(address) :]
    returned = ReturnPaths((NEW,), DOMAIN).read(bent, NOW)
    assert returned is not None
    assert returned == Returned(Validity.FORGED)


@pytest.mark.parametrize("letter", ["\u017f", "\u212a", "\udc80", "\0"])
@pytest.mark.parametrize("place", [2, 10, 36, 50])
def test_a_letter_that_is_no_letter_of_ours_makes_it_a_forgery_or_no_return_path(letter: str, place: int) -> None:
    address = made()
    returned = ReturnPaths((NEW,), DOMAIN).read(address[:place] + letter + address[place + 1 :], NOW)
    assert returned in (None, Returned(Validity.FORGED))


def test_what_others_made_is_forged_and_what_is_too_old_expired() -> None:
    paths = ReturnPaths((NEW,), DOMAIN)
    assert paths.read(made((FOREIGN,)), NOW) == Returned(Validity.FORGED)
    assert paths.read("bounces+anything@mail.shop.example", NOW) == Returned(Validity.FORGED)
    address = made()
    assert paths.read(address, NOW + LIFE - timedelta(hours=2)) is not None
    assert paths.read(address, NOW + LIFE + timedelta(hours=2)) == Returned(Validity.EXPIRED)


@pytest.mark.parametrize("address", ["", "bob@example.com", "bounces@mail.shop.example", "<>", "bounces+", "@"])
def test_other_addresses_are_no_return_paths(address: str) -> None:
    assert ReturnPaths((NEW,), DOMAIN).read(address, NOW) is None


def test_without_a_domain_no_mail_gets_one() -> None:
    assert ReturnPaths((NEW,), None).address_for(job(), NOW) is None
