"""Chromium, driven over its debugging protocol: nothing but a websocket is needed for that."""

import asyncio
import base64
import itertools
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from deploy.chromium import Chromium
from tests.factories import WAIT_SECONDS

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--remote-debugging-port=0"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
"""Without the networking ones it calls its maker at every start."""


class Page:
    """One open page."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.events: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())
        self._session: str | None = None

    async def open(self, url: str, width: int = 390, height: int = 844) -> None:
        """Show ``url`` in a window of this size, a phone's unless said otherwise."""
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        size = {"width": width, "height": height, "deviceScaleFactor": 2, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        await self.call("ServiceWorker.enable")
        await self.call("Page.navigate", url=url)

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What one command of the protocol returns; RuntimeError when it is refused."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        coming = self._waiting[number] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(WAIT_SECONDS):
            await self._socket.send_json(message)
            answer = await coming
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    async def run(self, script: str) -> Any:
        """The value of an expression in the page, awaited if it is a promise; RuntimeError when it throws."""
        told = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise RuntimeError(str(told["exceptionDetails"]))
        return told["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait for an expression in the page to become true."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not await self.run(script):
                await asyncio.sleep(0.05)

    async def photograph(self, path: Path) -> None:
        """The page as it looks, as a PNG at ``path``."""
        picture = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(picture["data"]))

    async def close(self) -> None:
        """Stop listening."""
        self._reading.cancel()
        await asyncio.wait({self._reading})

    async def _read(self) -> None:
        async for message in self._socket:
            told = message.json()
            waiting = self._waiting.pop(told.get("id", 0), None)
            if waiting is None:
                self.events.append(told)
            elif not waiting.done():
                waiting.set_result(told)


@asynccontextmanager
async def chromium(browser: Chromium) -> AsyncIterator[Page]:
    """A page of ``browser`` with a profile of its own, gone at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            browser.program,
            *FLAGS,
            f"--user-data-dir={profile}",
            env=browser.environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with aiohttp.ClientSession() as session:
                async with session.ws_connect(await _address(Path(profile)), max_msg_size=0) as socket:
                    page = Page(socket)
                    try:
                        yield page
                    finally:
                        await page.close()
        finally:
            process.terminate()
            async with asyncio.timeout(WAIT_SECONDS):
                await process.wait()


async def _address(profile: Path) -> str:
    """Where it listens, once it says so."""
    told = profile / "DevToolsActivePort"
    async with asyncio.timeout(WAIT_SECONDS):
        while not told.exists() or len(told.read_text().split()) < 2:
            await asyncio.sleep(0.05)
    port, path = told.read_text().split()
    return f"ws://127.0.0.1:{port}{path}"
