"""The browser of these tests: this machine's, else one brought from its packages."""

from pathlib import Path

import pytest

from deploy.chromium import Chromium, find_or_fetch
from shared.errors import CannotStart

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest) -> Chromium:
    """A Chromium to drive; where none can be had, the tests say why and are left out."""
    # The first time this may download: nobody should look at a silent terminal meanwhile.
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():
            return find_or_fetch(ROOT / ".waybill")
    except CannotStart as exc:
        pytest.skip(str(exc))
