"""Whole roads, one process per service, over RabbitMQ: how long one event takes, and how many fit through."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import urlsplit

from shared.store.database import Database
from tests.benchmarks.harness import ROOT, Bench, Result, Stopwatch, percentile
from tests.benchmarks.load import Orders, run_load
from tests.fakes.installation import Installation, booking, installed
from tests.fakes.rabbit import fresh_vhost, throw_away_node

PACE = 50.0
PACED_SECONDS = 20.0
FLOOD_SECONDS = 10.0
CONNECTIONS = 32

INBOX_ONLY = """\
waybill: 1
tenant: flood
name: Flood
locales: [en]
timezone: UTC
categories: {all: {title: {en: All}}}
event_types:
  note:
    title: A note
    category: all
    payload:
      type: object
      additionalProperties: false
      required: [text]
      properties: {text: {type: string, maxLength: 100}}
    example: {text: hello}
    message: {title: {en: "{{ payload.text }}"}, body: {en: A note for you}}
    channels: {inapp: {}}
"""

# Each hop in milliseconds, for every mail of the run; the clocks are this machine's one.
HOPS = """
SELECT 1000 * extract(epoch FROM e.routed_at - e.received_at)::float8 AS to_routed,
       1000 * extract(epoch FROM a.started_at - e.routed_at)::float8 AS to_provider,
       1000 * extract(epoch FROM a.started_at - e.received_at)::float8 AS whole
FROM events e
JOIN outgoing o USING (event_id)
JOIN attempts a USING (job_id)
WHERE o.channel = 'email'
"""


async def latency_rabbitmq(bench: Bench) -> Result:
    """From accept to the provider call at a steady 50 events a second, split by hop."""
    bench.say(f"latency_rabbitmq: {PACED_SECONDS:g} s at {PACE:g} events/s")
    async with _installed(bench, "ingest", "router", "email", "push", "inapp") as (installation, database):
        body = booking("")
        del body["idempotency_key"]
        told = await run_load(_orders(installation, body, 8, PACED_SECONDS, PACE))
        await _until_done(database)
        async with database.hot() as pg:
            rows = await pg.fetch(HOPS)
    hops = {name: [row[name] for row in rows] for name in ("to_routed", "to_provider", "whole")}
    return {
        "bench": "latency_rabbitmq",
        "p50_ms": round(percentile(hops["whole"], 0.5), 1),
        "p99_ms": round(percentile(hops["whole"], 0.99), 1),
        "accept_to_routed_p50_ms": round(percentile(hops["to_routed"], 0.5), 1),
        "accept_to_routed_p99_ms": round(percentile(hops["to_routed"], 0.99), 1),
        "routed_to_provider_p50_ms": round(percentile(hops["to_provider"], 0.5), 1),
        "routed_to_provider_p99_ms": round(percentile(hops["to_provider"], 0.99), 1),
        "answer_p50_ms": round(told["p50_ms"], 1),
        "events_per_second": PACE,
        "mails": len(rows),
    }


async def events_end_to_end(bench: Bench) -> Result:
    """Events a second from the first accepted to the last entry in an inbox, everything on this machine."""
    bench.say(f"events_end_to_end: {FLOOD_SECONDS:g} s over {CONNECTIONS} connections")
    async with _installed(bench, "ingest", "router", "inapp") as (installation, database):
        file = bench.folder / "flood.yaml"
        file.write_text(INBOX_ONLY)
        await installation.command("apply", str(file))
        key = json.loads(await installation.command("key", "create", "flood", "--json"))["key"]
        installation.client.headers["Authorization"] = f"Bearer {key}"
        await _until_known(installation)
        body: dict[str, object] = {"event_type": "note", "recipient": {"id": "bob"}, "payload": {"text": "hello"}}
        watch = Stopwatch()
        told = await run_load(_orders(installation, body, CONNECTIONS, FLOOD_SECONDS, 0))
        await _until_done(database)
        seconds = watch.seconds
        async with database.hot() as pg:
            entries = await pg.fetchval("SELECT count(*) FROM inbox")
    return {
        "bench": "events_end_to_end",
        "events_per_second": round(entries / seconds),
        "accepted_per_second": round(told["rate"]),
        "events": entries,
        "seconds": round(seconds, 1),
    }


@asynccontextmanager
async def _installed(bench: Bench, *services: str) -> AsyncIterator[tuple[Installation, Database]]:
    with throw_away_node(ROOT / ".waybill") as node, fresh_vhost(node.management, node.url) as amqp_url:
        async with bench.databases.fresh() as url, installed(url, amqp_url, bench.folder, *services) as installation:
            database = Database(url)
            try:
                yield installation, database
            finally:
                await database.close()


def _orders(
    installation: Installation, body: dict[str, object], connections: int, seconds: float, pace: float
) -> Orders:
    url = urlsplit(str(installation.client.base_url))
    key = installation.client.headers["Authorization"].removeprefix("Bearer ")
    return Orders(str(url.hostname), int(url.port or 0), key, body, connections, seconds, 2.0, pace)


async def _until_known(installation: Installation) -> None:
    """Every process follows a newly applied file within five seconds."""
    note = {"event_type": "note", "idempotency_key": "known", "recipient": {"id": "bob"}, "payload": {"text": ""}}
    async with asyncio.timeout(30):
        while True:
            answer = await installation.client.post("/api/v1/events", json=note)
            if answer.status_code == 202:
                return
            await asyncio.sleep(0.2)


async def _until_done(database: Database) -> None:
    """Every event is routed and every job finished."""
    async with asyncio.timeout(300), database.hot(timedelta(minutes=5)) as pg:
        while await pg.fetchval(
            "SELECT EXISTS (SELECT FROM events WHERE status = 'QUEUED')"
            " OR EXISTS (SELECT FROM outgoing WHERE status = 'PENDING')"
        ):
            await asyncio.sleep(0.05)
