"""`up.json`: what a running `waybill up` tells programs about itself. It is there exactly while all is ready."""

import json
import os
from pathlib import Path
from typing import Any

NAME = "up.json"


class UpFile:
    """The file ``up.json`` in one home."""

    def __init__(self, home: Path) -> None:
        """Nothing is read or written yet."""
        self.path = home / NAME

    def write(self, fields: dict[str, Any]) -> None:
        """Put ``fields`` there at once, readable by its owner alone: nobody ever sees half of it."""
        write_secret(self.path, json.dumps(fields, ensure_ascii=False, indent=2) + "\n")

    def remove(self) -> None:
        """Take it away; nothing happens when it is not there."""
        self.path.unlink(missing_ok=True)

    def api_url(self) -> str | None:
        """The address of the running one, or None while there is no (readable) file."""
        try:
            url = json.loads(self.path.read_text(encoding="utf-8"))["api_url"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return str(url)


def write_secret(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` in one step, with mode 0600 from its first moment."""
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
