"""One plain ASCII address is taken; everything else is refused with its reason."""

import pytest

from shared.address import address_problem


@pytest.mark.parametrize(
    "address",
    [
        "bob@campus.example",
        "bob+tag@campus.example",
        "o'brien_1@mail.campus.example",
        "a.b.c@x-y.example",
        "b@1st.example",
        "bob@xn--bcher-kva.example",
        f"{'a' * 64}@campus.example",
        f"bob@{'a' * 63}.example",
        "!#$%&'*+/=?^_`{|}~-@campus.example",
    ],
)
def test_a_plain_address_is_taken(address: str) -> None:
    assert address_problem(address) is None


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "is empty"),
        ("bob", "needs an @"),
        ("@campus.example", "nothing before"),
        ("bob@", "nothing after"),
        ("bob@campus", "with a dot in it"),
        ("bob@campus.example.", "no valid domain"),
        ("bob@.example", "no valid domain"),
        ("bob@-campus.example", "no valid domain"),
        ("bob@campus-.example", "no valid domain"),
        ("bob@cam_pus.example", "no valid domain"),
        (f"bob@{'a' * 64}.example", "no valid domain"),
        ("bob@[192.0.2.1]", "not a network address"),
        ("bob@192.0.2.1", "not a network address"),
        ("bob@@campus.example", "exactly one address"),
        ("a@x.example,b@x.example", "exactly one address"),
        ("a@x.example;b@x.example", "exactly one address"),
        ("a@x.example b@x.example", "a space or a control character"),
        ("Bob <bob@campus.example>", "a space or a control character"),
        ("<bob@campus.example>", "exactly one address"),
        (" bob@campus.example", "a space or a control character"),
        ("bob@campus.example\r\nRCPT TO:<eve@x.example>", "a space or a control character"),
        ("bob@campus.example\n", "a space or a control character"),
        ("bob\x00@campus.example", "a space or a control character"),
        ("bob\x7f@campus.example", "a space or a control character"),
        ('"bob b"@campus.example', "a space or a control character"),
        ('"bob"@campus.example', "may not stand there"),
        ("bob(x)@campus.example", "may not stand there"),
        ("b:ob@campus.example", "may not stand there"),
        (".bob@campus.example", "a dot too many"),
        ("bob.@campus.example", "a dot too many"),
        ("bo..b@campus.example", "a dot too many"),
        (f"{'a' * 65}@campus.example", "more than 64"),
        (f"{'a' * 60}@{'b' * 60}.{'c' * 60}.{'d' * 60}.{'e' * 20}.example", "longer than 254"),
        ("jürgen@campus.example", "SMTPUTF8"),
        ("bob@bücher.example", "xn--"),
        ("bob@campus\u3002example", "xn--"),
        ("bob\u2028@campus.example", "SMTPUTF8"),
        ("jürgen", "SMTPUTF8"),
    ],
)
def test_anything_else_is_refused_with_its_reason(address: str, reason: str) -> None:
    problem = address_problem(address)
    assert problem is not None
    assert reason in problem


def test_the_reason_never_repeats_the_address() -> None:
    problem = address_problem("somebody@secret")
    assert problem is not None
    assert "somebody" not in problem
    assert "secret" not in problem
