"""The product's own processes as tests drive them: started, awaited until ready, stopped, killed, read."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from shared.ports import free_ports

WAYBILL = Path(sys.executable).with_name("waybill")
START_SECONDS = 90.0
"""Generous: two cores may be busy with everything else."""
STOP_SECONDS = 10.0
"""What the product promises for an ordinary stop."""

T = TypeVar("T")


async def eventually(probe: Callable[[], Awaitable[T | None]], seconds: float = 30.0, pause: float = 0.05) -> T:
    """The first answer of ``probe`` that is neither None nor False; AssertionError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        answer = await probe()
        if answer is not None and answer is not False:
            return answer
        assert time.monotonic() < deadline, f"{getattr(probe, '__name__', 'it')} did not come true in {seconds:g} s"
        await asyncio.sleep(pause)


def clean_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process with ``settings`` as its only WAYBILL_ names (given without the prefix)."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("WAYBILL_", "MAKE"))}
    return own | {f"WAYBILL_{name}": value for name, value in settings.items()}


class ProductProcess:
    """One ``waybill`` process in a process group of its own; its output goes to a file."""

    def __init__(self, *arguments: str, settings: Mapping[str, str], output: Path) -> None:
        """Start ``waybill`` with ``arguments`` at once. ``settings`` go without the prefix WAYBILL_."""
        self.arguments = arguments
        self.output = output
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                [WAYBILL, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=clean_environment(settings),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id, which is its group's too."""
        return self._process.pid

    def text(self) -> str:
        """All it has printed so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def exit_code(self) -> int | None:
        """How it ended (negative: by that signal), or None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        """Send the whole group a signal, as a terminal does."""
        os.killpg(self.pid, number)

    async def ended(self, seconds: float = START_SECONDS) -> int:
        """Its exit code, once it has ended by itself."""

        async def code() -> tuple[int] | None:
            found = self.exit_code()
            return None if found is None else (found,)

        try:
            return (await eventually(code, seconds))[0]
        except AssertionError as exc:
            raise AssertionError(f"{self.arguments} still runs after {seconds:g} s:\n{self.text()[-3000:]}") from exc

    async def stop(self, seconds: float = STOP_SECONDS) -> int:
        """Its exit code after SIGTERM; AssertionError when it takes longer than ``seconds``."""
        self.send(signal.SIGTERM)
        return await self.ended(seconds)

    def kill(self) -> None:
        """End it as kill -9 does; returns when it is gone."""
        self._process.kill()
        self._process.wait(STOP_SECONDS)

    def freeze(self) -> None:
        """Stop the whole group where it stands; ``thaw`` lets it go on."""
        self.send_to_group(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen group go on."""
        self.send_to_group(signal.SIGCONT)

    async def answers(self, url: str, seconds: float = START_SECONDS) -> None:
        """Return once ``url`` answers 200; AssertionError with its output when it ends or does not."""
        async with httpx.AsyncClient(timeout=5) as client:

            async def ready() -> bool:
                assert self.exit_code() is None, f"{self.arguments} ended early:\n{self.text()[-3000:]}"
                try:
                    return (await client.get(url)).status_code == 200
                except httpx.TransportError:
                    return False

            try:
                await eventually(ready, seconds)
            except AssertionError as exc:
                raise AssertionError(f"{url} is not ready: {exc}\n{self.text()[-3000:]}") from exc

    def clean_up(self) -> None:
        """End it and whatever is left of its group; nothing happens when it has ended."""
        if self.exit_code() is None:
            with contextlib.suppress(ProcessLookupError):
                self.send_to_group(signal.SIGKILL)
            self._process.wait(STOP_SECONDS)


class Up(ProductProcess):
    """A running ``waybill up`` with a data folder of its own, on free ports."""

    def __init__(self, home: Path, output: Path, settings: Mapping[str, str] | None = None) -> None:
        """Start it. ``home`` is its WAYBILL_DATA_DIR; ``settings`` come on top."""
        self.home = home
        names = ("PORT", "INBOX_PORT", "EMAIL_PORT", "SMTP_SINK_PORT")
        ports = dict(zip(names, map(str, free_ports(len(names))), strict=True))
        self.settings = {**ports, "DATA_DIR": str(home), **(settings or {})}
        super().__init__("up", settings=self.settings, output=output)

    @property
    def api_url(self) -> str:
        """Where its API answers."""
        return f"http://127.0.0.1:{self.settings['PORT']}"

    async def ready(self, seconds: float = START_SECONDS) -> dict[str, Any]:
        """What ``up.json`` says, once it is ready."""
        await self.answers(f"{self.api_url}/readyz", seconds)
        told: dict[str, Any] = json.loads((self.home / "up.json").read_text(encoding="utf-8"))
        return told


class Run(ProductProcess):
    """A running ``waybill run SERVICE`` whose admin port is known."""

    def __init__(self, service: str, output: Path, settings: Mapping[str, str]) -> None:
        """Start it; ADMIN_PORT is a free one unless given."""
        self.settings = {"ADMIN_PORT": str(free_ports(1)[0]), **settings}
        super().__init__("run", service, settings=self.settings, output=output)

    @property
    def admin_url(self) -> str:
        """Where its admin pages answer."""
        return f"http://127.0.0.1:{self.settings['ADMIN_PORT']}"

    async def ready(self, seconds: float = START_SECONDS) -> None:
        """Return once its /readyz is 200."""
        await self.answers(f"{self.admin_url}/readyz", seconds)


P = TypeVar("P", bound=ProductProcess)


@asynccontextmanager
async def cleaned_up(process: P) -> AsyncIterator[P]:
    """``process`` for the block, ended whatever happens."""
    try:
        yield process
    finally:
        process.clean_up()
