"""The guards that ``make prove`` takes out are where it looks for them, and so are the tests that must then fail."""

import re

import pytest

from tests.benchmarks.harness import ROOT
from tests.prove.guards import GUARDS, Guard


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.invariant} {guard.says}")
def test_a_guard_stands_once_in_its_file_and_its_tests_exist(guard: Guard) -> None:
    assert (ROOT / guard.file).read_text(encoding="utf-8").count(guard.kept) == 1
    for test in guard.tests:
        file, _, name = test.partition("::")
        assert re.search(rf"def {name or 'test_'}", (ROOT / "tests" / file).read_text(encoding="utf-8"))


def test_every_invariant_has_a_guard() -> None:
    assert {guard.invariant for guard in GUARDS} == {f"I{number}" for number in range(1, 12)}
