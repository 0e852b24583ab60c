"""Posts events over kept-open connections, as fast as they are answered or at a steady pace; a process of its own.

``python -m tests.benchmarks.load`` reads its orders as JSON from standard input and prints what it saw as JSON.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.benchmarks.harness import ROOT, percentile


@dataclass(frozen=True)
class Orders:
    """Where to post, what, over how many connections and for how long; ``pace`` 0 is "as fast as answered".

    ``warm_up`` seconds come before ``seconds`` and are not counted. ``body`` is posted with a key of its own each.
    """

    host: str
    port: int
    key: str
    body: dict[str, Any]
    connections: int = 64
    seconds: float = 5.0
    warm_up: float = 1.0
    pace: float = 0.0


@dataclass
class Seen:
    """How many were accepted within the counted time, how many were not, and the waits in milliseconds."""

    accepted: int = 0
    refused: int = 0
    waits_ms: list[float] = field(default_factory=list)


async def run_load(orders: Orders) -> dict[str, float]:
    """What a process of its own saw: ``rate`` in events/s, ``refused``, ``p50_ms`` and ``p99_ms``."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.benchmarks.load",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    async with asyncio.timeout(orders.seconds + orders.warm_up + 60):
        output, _ = await process.communicate(json.dumps(asdict(orders)).encode())
    told: dict[str, float] = json.loads(output)
    return told


async def _post_for_ever(orders: Orders, number: int, begin: float, seen: Seen) -> None:
    reader, writer = await asyncio.open_connection(orders.host, orders.port)
    head = (
        f"POST /api/v1/events HTTP/1.1\r\nHost: {orders.host}\r\nAuthorization: Bearer {orders.key}\r\n"
        "Content-Type: application/json\r\n"
    )
    body = json.dumps(orders.body)
    end, every = begin + orders.warm_up + orders.seconds, orders.connections / orders.pace if orders.pace else 0.0
    due, turn = begin + every * number / orders.connections, 0
    while (now := time.perf_counter()) < end:
        if every:
            await asyncio.sleep(max(due - now, 0))
            due += every
        turn += 1
        sent = time.perf_counter()
        key = f"{number}-{turn}-{sent}"
        writer.write(f"{head}Idempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        accepted = await _read_answer(reader)
        answered = time.perf_counter()
        if begin + orders.warm_up <= answered < end:
            seen.accepted += accepted
            seen.refused += not accepted
            seen.waits_ms.append((answered - sent) * 1000)
    writer.close()


async def _read_answer(reader: asyncio.StreamReader) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(length)
    return head.startswith(b"HTTP/1.1 202")


async def _main(orders: Orders) -> None:
    seen, begin = Seen(), time.perf_counter()
    await asyncio.gather(*(_post_for_ever(orders, number, begin, seen) for number in range(orders.connections)))
    told = {
        "rate": seen.accepted / orders.seconds,
        "refused": float(seen.refused),
        "p50_ms": percentile(seen.waits_ms, 0.5),
        "p99_ms": percentile(seen.waits_ms, 0.99),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(_main(Orders(**json.loads(sys.stdin.read()))))
