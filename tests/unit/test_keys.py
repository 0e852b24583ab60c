"""API keys: their form alone tells most wrong ones from right ones."""

import pytest

from shared.keys import ALPHABET, OPERATIONS, PREFIXES, Permission, hash_key, hint_of, is_key, mint_key
from shared.tenant import Mode


@pytest.mark.parametrize("mode", list(Mode))
def test_a_minted_key_says_its_mode_and_passes_its_own_check(mode: Mode) -> None:
    key = mint_key(mode)
    assert key.startswith(PREFIXES[mode])
    assert is_key(key)
    assert key != mint_key(mode)


def test_every_single_mistyped_character_is_noticed() -> None:
    key = mint_key(Mode.LIVE)
    for at in range(len(key)):
        other = ALPHABET[(ALPHABET.index(key[at]) + 1) % len(ALPHABET)] if key[at] in ALPHABET else "x"
        assert not is_key(key[:at] + other + key[at + 1 :])


def test_keys_that_lost_their_end_or_gained_something_are_noticed() -> None:
    key = mint_key(Mode.TEST)
    for wrong in (
        key[:-1],
        key + "0",
        key.upper(),
        f" {key}",
        key.replace("wb_test_", "wb_live_"),
        "",
        "wb_live_",
        "é",
    ):
        assert not is_key(wrong)


def test_what_is_shown_of_a_key_is_far_from_enough_to_guess_it() -> None:
    key = mint_key(Mode.LIVE)
    assert hint_of(key) == key[:12] + "…"
    assert len(hash_key(key)) == 32


def test_every_operation_needs_a_permission_that_exists() -> None:
    assert set(OPERATIONS.values()) <= set(Permission)
