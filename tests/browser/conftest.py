"""The browser of these tests: this machine's, else one brought from its packages."""

from pathlib import Path

import pytest

from deploy.chromium import Chromium, find_or_fetch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest) -> Chromium:
    """A Chromium to drive; where none can be had, these tests fail with what is to be installed."""
    # The first time this may download: nobody should look at a silent terminal meanwhile.
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        return find_or_fetch(ROOT / ".waybill")
