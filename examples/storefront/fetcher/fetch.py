"""Looks what has changed in a shop and posts it to Waybill: one event a change, at least once, never two for one.

For sources that cannot post events themselves. Plain Python 3.11, nothing to install:

    STOREFRONT_KEY=wb_live_… python fetch.py --source https://shop.example/changes --waybill http://127.0.0.1:8080

The source answers ``GET {source}?after=N`` with ``{"changes": [{"number": N + 1, "kind": "order", …}, …]}``, the
oldest first. What was posted is remembered in a file; when the script dies before it has written that down, it posts
again, under the same idempotency key, and Waybill answers with the event it already has.
"""

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 10
LONGEST_REPLY = 4 * 1024 * 1024
NEVER = (400, 413, 422)
"""With these Waybill says that it will never take this event: the next ones must not wait for it."""


class NotNow(Exception):
    """The source or Waybill did not answer as it should: look again later."""


def event_of(change: dict[str, Any]) -> dict[str, Any]:
    """The event for one change; KeyError for a foreign one. Its key says what happened, never when it was fetched."""
    customer = change["customer"]
    event: dict[str, Any] = {"recipient": chosen(customer, "id", "name", "locale")}
    match change["kind"]:
        case "order":
            payload = chosen(change, "order_id", "status", "arrives_on")
            key = f"order:{change['order_id']}:{change['status']}"
            event |= {"event_type": "order_update", "ref": f"order:{change['order_id']}"}
        case "stock":
            payload = chosen(change, "product_id", "product", "left")
            key = f"stock:{change['product_id']}:{change['number']}:{customer['id']}"
            event |= {"event_type": "stock_change", "ref": f"product:{change['product_id']}"}
        case "discount":
            payload = chosen(change, "code", "percent", "ends_at")
            key = f"discount:{change['code']}:{customer['id']}"
            event |= {"event_type": "discount"}
        case "milestone":
            payload = chosen(change, "order_count", "gift")
            key = f"milestone:{customer['id']}:{change['order_count']}"
            event |= {"event_type": "milestone"}
        case kind:
            raise KeyError(kind)
    return event | {"idempotency_key": key, "payload": payload}


def chosen(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    """Those of ``fields`` that are wanted and there."""
    return {name: fields[name] for name in names if name in fields}


def ask(request: urllib.request.Request) -> tuple[int, bytes]:
    """Status and body of the answer. Raises NotNow when there is none."""
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - http(s), see main
            return int(answer.status), answer.read(LONGEST_REPLY)
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read(LONGEST_REPLY)
    except (OSError, ValueError) as exc:
        raise NotNow(f"{request.full_url}: {exc}") from exc


def changes_after(source: str, number: int) -> list[dict[str, Any]]:
    """What has changed since the change with that number."""
    status, body = ask(urllib.request.Request(f"{source}?after={number}"))  # noqa: S310 - http(s), see main
    if status != 200:
        raise NotNow(f"{source} answered {status}")
    try:
        changes: list[dict[str, Any]] = json.loads(body)["changes"]
    except (ValueError, KeyError, TypeError) as exc:
        raise NotNow(f"{source} answered without changes") from exc
    return changes


def post(waybill: str, key: str, event: dict[str, Any]) -> str:
    """What Waybill made of ``event``: its id, or why it will never take it. Raises NotNow."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(  # noqa: S310 - http(s), see main
        f"{waybill}/api/v1/events", json.dumps(event).encode(), headers, method="POST"
    )
    status, body = ask(request)
    if status not in (202, *NEVER):
        raise NotNow(f"{waybill} answered {status}")
    try:
        answer = json.loads(body)
        return str(answer["id"]) if status == 202 else f"refused: {answer['detail']}"
    except (ValueError, KeyError, TypeError) as exc:
        raise NotNow(f"{waybill} answered {status}, and not as Waybill does") from exc


def fetch(source: str, waybill: str, key: str, state: Path) -> None:
    """Post everything new. What is done is written down after each event, so that a crash costs nothing."""
    number = int(state.read_text()) if state.exists() else 0
    for change in changes_after(source, number):
        try:
            event = event_of(change)
        except (KeyError, TypeError) as exc:
            print(f"{change.get('number')}: left out, this fetcher does not know {exc}", file=sys.stderr)
        else:
            print(f"{change['number']}: {event['idempotency_key']}: {post(waybill, key, event)}", flush=True)
        beside = state.with_name(f"{state.name}.new")
        beside.write_text(str(change["number"]))
        beside.replace(state)


def main() -> None:
    """Fetch once, or every so many seconds until it is stopped."""
    parser = argparse.ArgumentParser(description="Post what has changed in a shop to Waybill.")
    parser.add_argument("--source", required=True, help="where the shop tells what has changed, http(s)://…")
    parser.add_argument("--waybill", default="http://127.0.0.1:8080", help="where Waybill's API answers")
    parser.add_argument("--state", type=Path, default=Path("fetched"), help="the file that remembers what was posted")
    parser.add_argument("--every", type=float, metavar="SECONDS", help="go on for ever; left out: once")
    wanted = parser.parse_args()
    for url in (wanted.source, wanted.waybill):
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            parser.error(f"{url} is no http or https address")
    key = os.environ.get("STOREFRONT_KEY") or parser.error("STOREFRONT_KEY must be an API key of the tenant")
    while True:
        try:
            fetch(wanted.source, wanted.waybill, key, wanted.state)
        except NotNow as exc:
            print(f"not now: {exc}", file=sys.stderr, flush=True)
            if wanted.every is None:
                sys.exit(1)
        if wanted.every is None:
            return
        time.sleep(wanted.every)


if __name__ == "__main__":
    main()
