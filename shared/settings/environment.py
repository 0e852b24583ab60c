"""The check of a whole environment before anything starts: every mistake at once."""

import re
from collections.abc import Collection, Iterator, Mapping

from shared.errors import SettingsError
from shared.settings.base import Settings, load_settings
from shared.settings.table import PREFIX, TABLE
from shared.suggestion import closest

_SERVICE_LINK_NAME = re.compile(
    r"WAYBILL_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)", re.ASCII
)
_SERVICE_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://")


def check_environment(
    environ: Mapping[str, str], classes: Collection[type[Settings]], provided: Collection[str] = ()
) -> None:
    """SettingsError with every mistake in ``environ``: unknown names, wrong values, and what ``classes`` miss.

    A wrong value is a mistake even if no class reads it: one environment often serves all processes.
    ``provided`` names what this process makes itself when it is absent (``DATABASE_URL`` under ``up``).
    """
    links = {variable for variable, value in environ.items() if is_service_link(variable, value)}
    mistakes = [_say_links(sorted(links))] if links else []
    mistakes += _unknown(environ, links)
    mistakes += _unreadable(environ, links)
    ours = {variable: value for variable, value in environ.items() if variable not in links}
    for cls in classes:
        mistakes += _wrong(cls, ours, {PREFIX + name for name in provided})
    if mistakes:
        raise SettingsError(list(dict.fromkeys(mistakes)))


def is_service_link(variable: str, value: str) -> bool:
    """Whether Kubernetes wrote this: it does so for each Service beside the pod, also for one called ``waybill``."""
    if not variable.startswith(PREFIX):
        return False
    if variable.endswith("_PORT") and _SERVICE_LINK_VALUE.match(value):
        return True
    return variable.removeprefix(PREFIX) not in TABLE and _SERVICE_LINK_NAME.fullmatch(variable) is not None


def _say_links(variables: list[str]) -> str:
    more = f" and {len(variables) - 1} more" if len(variables) > 1 else ""
    verb = "were" if more else "was"
    return (
        f"{variables[0]}{more} {verb} written by Kubernetes for a Service whose name begins with waybill:"
        " set `enableServiceLinks: false` in the pod's spec"
    )


def _unknown(environ: Mapping[str, str], links: set[str]) -> Iterator[str]:
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in links or variable.removeprefix(PREFIX) in TABLE:
            continue
        near = closest(variable.removeprefix(PREFIX), TABLE)
        hint = f"did you mean {PREFIX}{near}?" if near else "`waybill settings` lists all there are"
        yield f"{variable} is not a setting: {hint}"


def _unreadable(environ: Mapping[str, str], links: set[str]) -> Iterator[str]:
    for setting in TABLE.values():
        value = environ.get(setting.variable)
        if not value or setting.variable in links:
            continue
        try:
            setting.parse(value)
        except ValueError as exc:
            yield f"{setting.variable} must be {exc}"


def _wrong(cls: type[Settings], environ: Mapping[str, str], provided: set[str]) -> list[str]:
    try:
        load_settings(cls, environ)
    except SettingsError as exc:
        absent = {variable for variable in provided if not environ.get(variable)}
        return [line for line in exc.mistakes if line.partition(" is required: ")[0] not in absent]
    return []
