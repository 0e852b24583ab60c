"""`waybill up` on a Postgres and a RabbitMQ that are given: nothing of its own is started in their place."""

from pathlib import Path
from typing import Any

import httpx

from shared.store.database import Database
from tests.fakes.home import throw_away_home
from tests.fakes.product import Up, cleaned_up, eventually


async def test_it_runs_the_demo_on_given_servers(
    database_url: str, database: Database, amqp_url: str, tmp_path: Path
) -> None:
    given = {"DATABASE_URL": database_url, "AMQP_URL": amqp_url}
    with throw_away_home() as home:
        async with cleaned_up(Up(home, tmp_path / "output", given)) as up:
            told = await up.ready()
            assert not (home / "postgres").exists()
            key = {"Authorization": f"Bearer {told['tenants']['campus']['live_key']}"}
            async with httpx.AsyncClient(base_url=told["api_url"], headers=key, timeout=15) as client:
                body = told["example_event"] | {"idempotency_key": "elsewhere"}
                event_id = (await client.post("/api/v1/events", json=body)).json()["id"]

                async def sent() -> dict[str, Any] | None:
                    event: dict[str, Any] = (await client.get(f"/api/v1/events/{event_id}")).json()
                    return event if event["outcome"] == "sent" else None

                await eventually(sent)
            assert await up.stop() == 0
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT count(*) FROM outgoing WHERE status = 'SENT'") == 3
