"""What `waybill up` prints: a line per step while it starts, and what to try once it is ready."""

import json
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

READ = "-H 'Authorization: Bearer {}'"


def say(line: str) -> None:
    """Print one line now, also into a pipe; a reader that went away stops nothing."""
    with suppress(BrokenPipeError):
        print(line, flush=True)


def ready_lines(told: dict[str, Any], path: Path) -> list[str]:
    """The lines for somebody who has just started it; ``told`` is what ``up.json`` at ``path`` says."""
    campus = told["tenants"]["campus"]
    api, key = told["api_url"], READ.format(campus["live_key"])
    return [
        f"Waybill is ready. API {api}  inbox {told['inbox_url']}  mail catcher smtp://127.0.0.1:{told['smtp_port']}",
        f"API key of campus: {campus['live_key']}   (all keys and tokens: {_shortest(path)})",
        "Post an event:",
        f"  {post_command(told)}",
        "Then try (with the id of the answer in place of EVENT):",
        f"  curl -s {api}/api/v1/events/EVENT {key}",
        f"  curl -s {told['inbox_url']}/api/v1/inbox {READ.format(campus['subscriber_token'])}",
        f"  curl -s {api}/sandbox/messages {READ.format(told['operator_token'])}",
        f"To be pushed to in your browser: {told['inbox_url']}/push-demo#{campus['subscriber_token']}",
        f"Commands beside it need no settings: {_shortest(Path(sys.executable).with_name('waybill'))} pauses",
        "Stop with Ctrl-C.",
    ]


def post_command(told: dict[str, Any]) -> str:
    """A curl command that posts the example event, a new one each time it is run; for any POSIX shell.

    RANDOM is empty in the plainest shells: there it is a new event once a second.
    """
    # Apostrophes as JSON writes them: shell quoting would make the line unreadable.
    body = json.dumps(told["example_event"], ensure_ascii=False).replace("'", "\\u0027")
    return (
        f"curl -si -X POST {told['api_url']}/api/v1/events {READ.format(told['tenants']['campus']['live_key'])}"
        f" -H 'Content-Type: application/json' -H \"Idempotency-Key: try-$(date +%s)-$RANDOM\" -d {shlex.quote(body)}"
    )


def _shortest(path: Path) -> str:
    return min(os.path.relpath(path), str(path), key=len)
