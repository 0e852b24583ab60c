"""The base of the services' settings classes: fields come from the table, values from an environment."""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from shared.errors import SettingsError
from shared.settings.table import PREFIX, TABLE
from shared.settings.words import format_duration

S = TypeVar("S", bound="Settings")


class Settings(BaseSettings):
    """The settings of one service. Every field is ``name: type = listed("NAME")``.

    Constructed directly it takes its fields as arguments (tests do); ``load_settings`` reads an environment.
    """

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, hide_input_in_errors=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - pydantic calls it with these
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic calls it with these
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic calls it with these
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic calls it with these
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed in: load_settings chooses the environment, nothing is read behind its back."""
        return (init_settings,)

    @field_validator("*", mode="before")
    @classmethod
    def _parse(cls, value: object, field: ValidationInfo) -> object:
        variable = cls.model_fields[str(field.field_name)].validation_alias
        if isinstance(value, str) and isinstance(variable, str):
            return TABLE[variable.removeprefix(PREFIX)].parse(value)
        return value


def listed(name: str, *, optional: bool = False) -> Any:
    """A field that takes variable, default and description from the table's block ``name``.

    Without a default in the table it is required; ``optional`` makes it None instead.
    """
    setting = TABLE[name]
    described: dict[str, Any] = {
        "validation_alias": setting.variable,
        "description": setting.meaning,
        "repr": not setting.is_secret,
    }
    if setting.default is not None:
        return Field(default=setting.parse(setting.default), **described)
    return Field(default=None, **described) if optional else Field(**described)


def load_settings(cls: type[S], environ: Mapping[str, str] | None = None) -> S:
    """The settings of ``cls`` from ``environ`` (the process's own when None); SettingsError has all mistakes.

    An empty variable counts as not set.
    """
    given = os.environ if environ is None else environ
    wanted = (str(field.validation_alias) for field in cls.model_fields.values())
    try:
        return cls(**{variable: given[variable] for variable in wanted if given.get(variable)})
    except ValidationError as exc:
        raise SettingsError([_say(error) for error in exc.errors()]) from None


def check_lease(name: str, lease: timedelta, attempt_timeout: timedelta, margin: timedelta) -> None:
    """ValueError unless ``lease`` holds two attempts and the margin; ``name`` is EMAIL or PUSH."""
    least = 2 * attempt_timeout + margin
    if lease < least:
        raise ValueError(
            f"{PREFIX}{name}_LEASE={format_duration(lease)} is too short: it must be at least"
            f" 2 x {PREFIX}{name}_ATTEMPT_TIMEOUT ({format_duration(attempt_timeout)})"
            f" + {PREFIX}LEASE_MARGIN ({format_duration(margin)}) = {format_duration(least)}"
        )


def _say(error: ErrorDetails) -> str:
    """One line that names the variable, never its value."""
    reason = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return reason
    variable = str(error["loc"][0])
    if error["type"] == "missing":
        setting = TABLE[variable.removeprefix(PREFIX)]
        return f"{variable} is required: {setting.meaning}"
    return f"{variable} must be {reason}" if error["type"] == "value_error" else f"{variable}: {reason}"
