"""The table of every setting, read from ``shared/settings.toml``."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from shared.settings.words import PARSERS, Parser, bounded, choice_parser, url_parser, utf8

PREFIX = "WAYBILL_"
SECRET_TYPES = ("secret", "url", "master keys")
"""Types whose value is never shown: a URL may carry a password."""


@dataclass(frozen=True)
class Setting:
    """One setting: its name without the prefix, and what the table says about it."""

    name: str
    type: str
    meaning: str
    read_by: tuple[str, ...]
    parse: Parser
    default: str | None = None
    least: str | None = None
    most: str | None = None
    reserved: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + self.name

    @property
    def is_secret(self) -> bool:
        """Whether its value must not be shown."""
        return self.type in SECRET_TYPES


def _read_block(name: str, block: Mapping[str, Any]) -> Setting:
    known = {"type", "schemes", "choices", "default", "least", "most", "meaning", "read_by", "reserved"}
    if unknown := set(block) - known:
        raise ValueError(f"settings.toml [{name}]: unknown keys {sorted(unknown)}")
    parse = utf8(_parser_of(block))
    if (default := block.get("default")) is not None:
        parse(default)
    return Setting(
        name=name,
        type=block["type"],
        meaning=block["meaning"],
        read_by=tuple(block["read_by"]),
        parse=parse,
        default=default,
        least=block.get("least"),
        most=block.get("most"),
        reserved=block.get("reserved", False),
    )


def _parser_of(block: Mapping[str, Any]) -> Parser:
    if "schemes" in block:
        return url_parser(tuple(block["schemes"]))
    if "choices" in block:
        return choice_parser(tuple(block["choices"]))
    parse = PARSERS[block["type"]]
    return bounded(parse, block["least"], block["most"]) if "least" in block else parse


def _read_table() -> dict[str, Setting]:
    text = (files("shared") / "settings.toml").read_text(encoding="utf-8")
    return {name: _read_block(name, block) for name, block in tomllib.loads(text).items()}


TABLE: Mapping[str, Setting] = _read_table()
"""Every setting by its name, in the order of the file."""
