"""What is sealed opens for its owner under any known key, and for nobody else."""

import base64

import pytest

from shared.errors import SealError
from shared.sealing import Sealer, new_master_key, parse_master_keys


def _keys(count: int) -> tuple[bytes, ...]:
    return parse_master_keys(",".join(new_master_key() for _ in range(count)))


def test_a_sealed_value_opens_for_what_it_was_bound_to() -> None:
    sealer = Sealer(_keys(1))
    assert sealer.open(sealer.seal(b"secret", "scope:7"), "scope:7") == b"secret"


def test_a_sealed_value_does_not_open_for_another_owner() -> None:
    sealer = Sealer(_keys(1))
    with pytest.raises(SealError, match="scope:8"):
        sealer.open(sealer.seal(b"secret", "scope:7"), "scope:8")


def test_what_an_older_key_sealed_still_opens_and_new_values_use_the_newest() -> None:
    new, old = _keys(2)
    both = Sealer((new, old))
    assert both.open(Sealer((old,)).seal(b"secret", "x"), "x") == b"secret"
    assert Sealer((new,)).open(both.seal(b"secret", "x"), "x") == b"secret"


@pytest.mark.parametrize("cut", [0, 1, 5, 16, 17, 20])
def test_a_cut_value_does_not_open(cut: int) -> None:
    sealer = Sealer(_keys(1))
    with pytest.raises(SealError):
        sealer.open(sealer.seal(b"secret", "x")[:cut], "x")


def test_a_value_of_an_unknown_key_does_not_open() -> None:
    with pytest.raises(SealError):
        Sealer(_keys(1)).open(Sealer(_keys(1)).seal(b"secret", "x"), "x")


def test_two_seals_of_one_value_differ() -> None:
    sealer = Sealer(_keys(1))
    assert sealer.seal(b"secret", "x") != sealer.seal(b"secret", "x")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "key 1 has 0 bytes"),
        ("not base64!", "key 1 is not base64"),
        ("ключ", "key 1 is not base64"),
        (base64.b64encode(b"short").decode(), "key 1 has 5 bytes"),
        (f"{base64.b64encode(b'k' * 32).decode()},", "key 2 has 0 bytes"),
    ],
)
def test_a_wrong_key_is_named_by_its_place(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_master_keys(text)
