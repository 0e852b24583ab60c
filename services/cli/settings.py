"""`waybill settings`: the table of every setting, as the program itself reads it."""

import shutil
import textwrap
from dataclasses import asdict

from services.cli.exits import show
from shared.settings import TABLE, Setting

_INDENT = "    "


def print_settings(as_json: bool) -> None:
    """Print the table for people or, as JSON, for programs."""
    width = min(shutil.get_terminal_size().columns, 110)
    lines = [line for one in TABLE.values() for line in _block(one, width)]
    show([_fields(setting) for setting in TABLE.values()], as_json, *lines)


def _fields(setting: Setting) -> dict[str, object]:
    fields = asdict(setting)
    del fields["parse"]
    return {"variable": setting.variable, **fields}


def _block(setting: Setting, width: int) -> list[str]:
    default = "no default" if setting.default is None else f"default {setting.default}"
    bounds = "" if setting.least is None else f", from {setting.least} to {setting.most}"
    read_by = "not read yet" if setting.reserved else f"read by {', '.join(setting.read_by)}"
    meaning = textwrap.wrap(setting.meaning, width, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return [f"{setting.variable}  ({setting.type}, {default}{bounds}, {read_by})", *meaning]
