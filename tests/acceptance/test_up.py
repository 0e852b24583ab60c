"""`waybill up`, from the printed curl to the inbox and the mail catcher."""

import asyncio
import json
import stat
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.tenantfile.check import check_file
from tests.fakes.home import throw_away_home
from tests.fakes.product import WAYBILL, Up, clean_environment, cleaned_up, eventually

ROOT = Path(__file__).resolve().parents[2]
TENANTS = ("campus", "portfolio", "storefront")


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """One running `waybill up`, ready, for every test of this module."""
    with throw_away_home() as home:
        async with cleaned_up(Up(home, tmp_path_factory.mktemp("up") / "output")) as product:
            await product.ready()
            yield product
            await product.stop()


@pytest.fixture
async def told(up: Up) -> dict[str, Any]:
    """What its up.json says."""
    return await up.ready()


def printed_request(output: str) -> list[str]:
    """The arguments of the first curl command in ``output``, as a POSIX shell reads them."""
    line = next(line for line in output.splitlines() if line.strip().startswith("curl"))
    read = f"curl() {{ printf '%s\\n' \"$@\"; }}; {line}"
    return subprocess.run(["sh", "-c", read], capture_output=True, text=True, check=True).stdout.splitlines()


async def post_as_printed(output: str) -> httpx.Response:
    """The answer to the printed curl command."""
    words = printed_request(output)
    headers = [words[at + 1].partition(": ")[::2] for at, word in enumerate(words) if word == "-H"]
    url = next(word for word in words if word.startswith("http://"))
    async with httpx.AsyncClient(timeout=15) as client:
        return await client.post(url, headers=dict(headers), content=words[words.index("-d") + 1])


async def get(url: str, token: str) -> dict[str, Any]:
    """The JSON at ``url`` for the holder of ``token``."""
    async with httpx.AsyncClient(timeout=15) as client:
        answer = await client.get(url, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_the_printed_curl_lands_in_the_inbox_in_the_mail_catcher_and_on_bobs_phone(
    up: Up, told: dict[str, Any]
) -> None:
    campus = told["tenants"]["campus"]
    answer = await post_as_printed(up.text())
    assert answer.status_code == 202
    event_id = answer.json()["id"]

    async def sent() -> dict[str, Any] | None:
        event = await get(f"{told['api_url']}/api/v1/events/{event_id}", campus["live_key"])
        return event if event["outcome"] == "sent" else None

    event = await eventually(sent)
    assert {job["channel"]: (job["status"], len(job["attempts"])) for job in event["jobs"]} == {
        "inapp": ("SENT", 1),
        "email": ("SENT", 1),
        "push": ("SENT", 1),
    }
    inbox = await get(f"{told['inbox_url']}/api/v1/inbox", campus["subscriber_token"])
    assert [entry["event_id"] for entry in inbox["data"]].count(event_id) == 1
    caught = await get(f"{told['api_url']}/sandbox/messages?channel=email", told["operator_token"])
    assert "bob@campus.example" in json.dumps(caught)
    assert "Linear algebra" in json.dumps(caught)
    rung = await get(f"{told['api_url']}/sandbox/messages?channel=push", told["operator_token"])
    assert [push["title"] for push in rung["data"]].count("Linear algebra is booked") == 1


async def test_bob_has_one_phone_whose_token_is_his_alone(told: dict[str, Any]) -> None:
    for tenant, count in (("campus", 1), ("storefront", 1), ("portfolio", 0)):
        url = f"{told['api_url']}/api/v1/recipients/bob/push-targets"
        assert len((await get(url, told["tenants"][tenant]["live_key"]))["data"]) == count


@pytest.mark.parametrize("tenant", TENANTS)
async def test_every_example_of_every_tenant_goes_out_in_every_locale(told: dict[str, Any], tenant: str) -> None:
    file = check_file(ROOT / "examples" / tenant / f"{tenant}.yaml").tenant
    key = {"Authorization": f"Bearer {told['tenants'][tenant]['live_key']}"}
    channels: dict[str, set[str]] = {}
    async with httpx.AsyncClient(base_url=told["api_url"], headers=key, timeout=15) as client:
        for event_type in file.event_types.values():
            for locale in file.locales:
                body = {"event_type": event_type.id, "payload": event_type.example}
                if event_type.to is None:
                    body["recipient"] = {"id": "bob", "email": "bob@campus.example", "locale": locale}
                answer = await client.post(
                    "/api/v1/events", json=body | {"idempotency_key": f"{event_type.id}-{locale}"}
                )
                assert answer.status_code == 202, answer.text
                channels[answer.json()["id"]] = set(event_type.channels())

        async def all_sent() -> bool:
            events = [(await client.get(f"/api/v1/events/{event_id}")).json() for event_id in channels]
            assert all(event["outcome"] in ("in_progress", "sent") for event in events), events
            return all(
                event["outcome"] == "sent" and {job["channel"] for job in event["jobs"]} == channels[event["id"]]
                for event in events
            )

        await eventually(all_sent)


async def test_the_example_event_is_accepted_with_either_key(told: dict[str, Any]) -> None:
    campus = told["tenants"]["campus"]
    async with httpx.AsyncClient(timeout=15) as client:
        for half in ("live_key", "test_key"):
            headers = {"Authorization": f"Bearer {campus[half]}", "Idempotency-Key": f"example-{half}"}
            answer = await client.post(f"{told['api_url']}/api/v1/events", headers=headers, json=told["example_event"])
            assert answer.status_code == 202, answer.text


async def test_up_json_is_its_owners_alone_and_says_where_everything_is(up: Up, told: dict[str, Any]) -> None:
    path = up.home / "up.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert set(told) == {
        "api_url",
        "inbox_url",
        "admin_url",
        "smtp_port",
        "operator_token",
        "database_url",
        "master_keys_file",
        "tenants",
        "example_event",
    }
    assert tuple(told["tenants"]) == TENANTS
    for tenant in told["tenants"].values():
        assert set(tenant) == {"live_key", "test_key", "subscriber_token"}
    assert told["api_url"] == up.api_url
    assert told["smtp_port"] == int(up.settings["SMTP_SINK_PORT"])
    assert told["example_event"]["recipient"]["id"] == "bob"
    assert "idempotency_key" not in told["example_event"]
    async with httpx.AsyncClient(timeout=15) as client:
        for page in ("/livez", "/readyz", "/metrics"):
            assert (await client.get(told["admin_url"] + page)).status_code == 200
        assert (await client.get(f"{told['api_url']}/metrics")).status_code == 404


async def test_commands_beside_it_need_no_settings_and_say_whose_database_they_are_about(
    up: Up, told: dict[str, Any]
) -> None:
    async def waybill(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        environment = clean_environment({"DATA_DIR": str(up.home), **settings})
        return await asyncio.to_thread(
            lambda: subprocess.run([WAYBILL, *arguments], env=environment, capture_output=True, text=True, timeout=60)
        )

    made = await waybill("key", "create", "campus")
    assert made.returncode == 0, made.stderr
    assert f"this is about the `make up` in {up.home} (127.0.0.1:" in made.stderr
    assert told["database_url"].partition("@")[0] not in made.stderr
    await get(f"{told['api_url']}/api/v1/metrics", made.stdout.strip())
    public = await waybill("sender", "vapid", "campus", "--json")
    assert json.loads(public.stdout)["made"] is False
    # Its sinks stand in for every sender: the file's credentials are not asked for.
    applied = await waybill("apply", str(ROOT / "examples" / "campus" / "campus.yaml"))
    assert (applied.returncode, applied.stdout) == (0, "Nothing to change: campus is at version 1.\n")
    elsewhere = await waybill("pauses", DATABASE_URL="postgresql://waybill@127.0.0.1:1/waybill")
    assert (elsewhere.returncode, "make up" in elsewhere.stderr) == (3, False)


async def test_it_says_all_a_newcomer_needs_in_fifteen_lines(up: Up, told: dict[str, Any]) -> None:
    lines = up.text().partition("Stop with Ctrl-C.")[0].splitlines()
    assert len(lines) < 15
    for needed in (told["api_url"], told["inbox_url"], told["tenants"]["campus"]["live_key"]):
        assert needed in "\n".join(lines)


async def test_a_second_one_says_where_the_first_is_and_disturbs_nothing(up: Up, tmp_path: Path) -> None:
    second = Up(up.home, tmp_path / "second", up.settings)
    async with cleaned_up(second):
        assert await second.ended() == 1
    assert f"already running: {up.api_url} (process {up.pid}" in second.text()
    assert len(second.text().splitlines()) == 1
    await up.ready()
