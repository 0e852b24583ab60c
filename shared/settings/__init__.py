"""Settings: one table of all names, and small classes that take their fields from it."""

from shared.settings.base import Settings, check_lease, listed, load_settings
from shared.settings.environment import check_environment
from shared.settings.process import BusSettings, EndpointSettings, ProcessSettings, StoreSettings
from shared.settings.table import PREFIX, TABLE, Setting
from shared.settings.words import format_duration, parse_duration

__all__ = [
    "PREFIX",
    "TABLE",
    "BusSettings",
    "EndpointSettings",
    "ProcessSettings",
    "Setting",
    "Settings",
    "StoreSettings",
    "check_environment",
    "check_lease",
    "format_duration",
    "listed",
    "load_settings",
    "parse_duration",
]
