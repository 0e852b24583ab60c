"""Parts start again when they fail and all of them stop in time."""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from shared import lifecycle
from shared.lifecycle import Heart, Part, run_parts, stopped_within

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "FIRST_PAUSE_SECONDS", 0.01)


async def test_a_part_that_raises_is_started_again() -> None:
    stop = asyncio.Event()
    runs = 0

    async def run(stop: asyncio.Event) -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise RuntimeError("no luck")
        stop.set()

    async with asyncio.timeout(20):
        await run_parts([Part("unlucky", run)], stop)
    assert runs == 3


async def test_a_cancelled_error_that_nobody_asked_for_is_a_failure_not_an_end() -> None:
    stop = asyncio.Event()
    runs = 0

    async def run(stop: asyncio.Event) -> None:
        nonlocal runs
        runs += 1
        if runs < 2:
            raise asyncio.CancelledError
        stop.set()

    async with asyncio.timeout(20):
        await run_parts([Part("lost", run)], stop)
    assert runs == 2


async def test_a_failing_part_leaves_its_neighbour_alone() -> None:
    stop = asyncio.Event()
    runs = {"steady": 0, "unlucky": 0}

    async def steady(stop: asyncio.Event) -> None:
        runs["steady"] += 1
        await stop.wait()

    async def unlucky(stop: asyncio.Event) -> None:
        runs["unlucky"] += 1
        if runs["unlucky"] == 3:
            stop.set()
        raise RuntimeError("no luck")

    async with asyncio.timeout(20):
        await run_parts([Part("steady", steady), Part("unlucky", unlucky)], stop)
    assert runs == {"steady": 1, "unlucky": 3}


async def test_parts_finish_what_is_in_flight_after_stop() -> None:
    stop, running, release, finished = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(stop: asyncio.Event) -> None:
        running.set()
        await stop.wait()
        await release.wait()
        finished.set()

    parts = asyncio.create_task(run_parts([Part("slow", run)], stop))
    async with asyncio.timeout(20):
        await running.wait()
        stop.set()
        release.set()
        await parts
    assert finished.is_set()


async def test_what_does_not_stop_within_the_grace_is_cancelled() -> None:
    stop, running, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(_stop: asyncio.Event) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    parts = asyncio.create_task(run_parts([Part("stubborn", run)], stop, grace_seconds=0.01))
    async with asyncio.timeout(20):
        await running.wait()
        stop.set()
        await parts
    assert cancelled.is_set()


async def test_run_parts_ends_when_every_part_has_returned() -> None:
    async def run(_stop: asyncio.Event) -> None:
        return

    async with asyncio.timeout(20):
        await run_parts([Part("short", run), Part("brief", run)], asyncio.Event())


async def test_a_cancelled_run_cancels_its_parts() -> None:
    running, cancelled = asyncio.Event(), asyncio.Event()

    async def run(_stop: asyncio.Event) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    parts = asyncio.create_task(run_parts([Part("endless", run)], asyncio.Event()))
    async with asyncio.timeout(20):
        await running.wait()
        parts.cancel()
        with pytest.raises(asyncio.CancelledError):
            await parts
    assert cancelled.is_set()


async def test_stopped_within_says_whether_the_stop_came() -> None:
    stop = asyncio.Event()
    assert not await stopped_within(stop, 0.001)
    stop.set()
    assert await stopped_within(stop, 60)


def test_a_heart_without_beats_stops_being_alive() -> None:
    heart = Heart(limit=timedelta(seconds=60))
    assert heart.is_alive()
    assert not Heart(limit=timedelta(0)).is_alive()


_PROGRAM = """
import asyncio, sys
from shared import lifecycle, logs
from shared.lifecycle import Part, install_signal_handlers, run_parts

async def run(stop):
    print("running", flush=True)
    await stop.wait()
    {after}

logs.configure(json=True)
async def main():
    stop = asyncio.Event()
    install_signal_handlers(stop)
    await run_parts([Part("p", run)], stop, grace_seconds=60)
    print("stopped", flush=True)

asyncio.run(main())
"""


def _start(after: str, ignore_interrupts: bool = False) -> "subprocess.Popen[str]":  # noqa: FBT002 - a yes or no by nature
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(after=after)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignore_interrupts else None,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_parts_and_the_process_ends_well(number: signal.Signals) -> None:
    with _start("pass", ignore_interrupts=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "running\n"
        program.send_signal(number)
        assert program.communicate(timeout=20)[0] == "stopped\n"
    assert program.returncode == 0


def test_a_signal_that_arrives_twice_at_once_still_stops_in_order() -> None:
    with _start("await asyncio.to_thread(sys.stdin.readline)") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "running\n"
        for _ in range(2):
            os.kill(program.pid, signal.SIGTERM)
        assert program.communicate("both were sent\n", timeout=20)[0] == "stopped\n"
    assert program.returncode == 0


def test_a_later_second_signal_ends_the_process_at_once() -> None:
    wait = "lifecycle.IMPATIENT_SECONDS = 0; print('waiting', flush=True); await asyncio.Event().wait()"
    with _start(wait) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "running\n"
        program.send_signal(signal.SIGTERM)
        assert program.stdout.readline() == "waiting\n"
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=20)
    assert program.returncode == -signal.SIGTERM
