"""A browser of bob's, all the way: the key it subscribes with, the event that reaches it, and the day it is gone."""

import json
from pathlib import Path

from tests.fakes.installation import PATIENT, PHONE, prepared
from tests.fakes.webpush import GONE, webpush_peer

TARGETS = "/api/v1/inbox/push-targets"


async def test_a_browser_subscribes_gets_the_booking_and_is_forgotten_once_it_is_gone(
    database_url: str, tmp_path: Path
) -> None:
    async with webpush_peer() as peer, prepared(database_url, None, tmp_path) as installation:
        installation.settings |= PATIENT | {"PUSH_TRUSTED_ENDPOINTS": f"127.0.0.1:{peer.port}"}
        made = json.loads(await installation.command("sender", "vapid", "campus", "--json"))
        await installation.start("all")
        key = (await installation.inbox.get("/api/v1/inbox/push-key")).json()["public_key"]
        assert key == made["public_key"]
        browser = peer.subscribe("firefox", sender=key)
        assert (await installation.inbox.put(TARGETS, json=browser.as_json())).status_code == 200
        await installation.phone(PHONE)

        event = await installation.until_outcome((await installation.post()).json()["id"])
        (push,) = (job for job in event["jobs"] if job["channel"] == "push")
        assert {one["provider"]: one["verdict"] for one in push["attempts"]} == {
            "fcm": "delivered",
            "webpush": "delivered",
        }
        (shown,) = browser.shown
        assert shown.payload["title"] == "Linear algebra is booked"
        assert shown.payload["link"] == "https://campus.example/bookings/bk_42"
        assert len(installation.fcm.rung(PHONE)) == 1

        peer.always("firefox", GONE)
        await installation.until_outcome((await installation.post()).json()["id"])
        listed = (await installation.inbox.get(TARGETS)).json()["data"]
        assert [target["kind"] for target in listed] == ["fcm"]
        assert peer.refusals == []
