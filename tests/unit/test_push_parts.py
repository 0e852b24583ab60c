"""The push service's seams: settings, stored content, and the one file that imports firebase-admin."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from services.push.message import Letter, least_size
from services.push.settings import PushSettings
from shared.channel import Channel
from shared.content import AndroidStyle, AppleStyle, Link, PushContent, WebStyle
from shared.errors import SettingsError
from shared.settings import load_settings
from shared.store.content import decode_content, encode_content

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "content",
    [
        PushContent("Booked", "See you", "en"),
        PushContent(
            "Booked",
            "See you",
            "de-AT",
            Link("https://campus.example/b", "See", "campus://b"),
            {"booking_id": "bk_42"},
            "unread",
            "very-low",
            timedelta(hours=4),
            "reminder-bk_42",
            AndroidStyle("bookings", "ic_booking"),
            AppleStyle("default", "bookings"),
            WebStyle("https://campus.example/icon.png"),
        ),
    ],
)
def test_content_comes_back_from_the_store_as_it_went_in(content: PushContent) -> None:
    assert decode_content(Channel.PUSH, encode_content(content)) == content


def test_a_message_is_at_least_as_large_as_its_texts_and_data_in_bytes() -> None:
    content = PushContent("Gebäude", "See you", "de", Link("https://campus.example/b", "See"), {"room": "5"})
    ours = len("waybill_job") + len("job_") + 32 + len("waybill_link") + len("https://campus.example/b")
    assert least_size(Letter(content, uuid4(), 0)) == 8 + 7 + ours + 5


def test_the_defaults_are_settings_that_the_service_starts_with() -> None:
    settings = load_settings(PushSettings, {})
    assert (settings.lease, settings.attempt_timeout) == (timedelta(seconds=30), timedelta(seconds=10))
    assert settings.fcm_base_url is None


def test_a_lease_too_short_for_two_attempts_keeps_the_service_from_starting() -> None:
    with pytest.raises(SettingsError, match="WAYBILL_PUSH_LEASE=20s is too short"):
        load_settings(PushSettings, {"WAYBILL_PUSH_LEASE": "20s"})


def test_firebase_admin_is_imported_in_one_file_and_not_before_it_is_needed() -> None:
    importing = [
        path.relative_to(ROOT).as_posix()
        for folder in ("services", "shared")
        for path in (ROOT / folder).rglob("*.py")
        if any(
            line.lstrip().startswith(("import firebase_admin", "from firebase_admin"))
            for line in path.read_text(encoding="utf-8").splitlines()
        )
    ]
    assert importing == ["services/push/firebase.py"]
    asked = "import sys, services.push.app; print('firebase_admin' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
