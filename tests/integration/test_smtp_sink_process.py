"""The sink as a process of its own: what the crash tests count by."""

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from services.email.smtp import SmtpProvider
from shared.relay import Relay
from shared.verdict import Delivered, NoVerdict, Rejected
from tests.fakes.parcels import email_parcel

ROOT = Path(__file__).resolve().parents[2]


def _logged(log: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, log.read_text().splitlines()) if line["kind"] == kind]


@pytest.mark.parametrize(("stall", "counted"), [("before-banner", 0), ("after-dot", 1)])
async def test_it_stalls_counts_and_changes_its_mind(tmp_path: Path, stall: str, counted: int) -> None:
    log, control = tmp_path / "sink.jsonl", tmp_path / "control.json"
    arguments = ["-m", "tests.fakes.smtp", "--log", str(log), "--control", str(control), "--stall", stall]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        relay = Relay("127.0.0.1", int(await asyncio.wait_for(process.stdout.readline(), 20)))
        hurried = SmtpProvider(relay, pool_size=1, attempt_timeout=timedelta(seconds=3))
        verdict = await hurried.send(email_parcel())
        assert isinstance(verdict, NoVerdict)
        assert verdict.handed_over == bool(counted)
        assert len(_logged(log, "connected")) == 1
        assert len(_logged(log, "mail")) == counted
        control.write_text('{"connect": "usual", "eod": "usual", "rcpt": "550 5.1.1 no such user"}')
        patient = SmtpProvider(relay, pool_size=1, attempt_timeout=timedelta(seconds=20))
        assert isinstance(await patient.send(email_parcel()), Rejected)
        control.write_text('{"connect": "usual", "eod": "usual"}')
        parcel = email_parcel()
        assert isinstance(await patient.send(parcel), Delivered)
        assert _logged(log, "mail")[-1]["message_id"] == f"<{parcel.stable_id.hex}@campus.example>"
        await patient.close()
    finally:
        process.kill()
        await process.wait()
