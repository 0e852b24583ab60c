"""Log lines: an event name and fields, pretty on a terminal, JSON otherwise.

A line never carries an address, a token, a key or a payload: ids, words, counts and durations only.
"""

import asyncio
import atexit
import contextlib
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

QUIET = ("aiormq", "aio_pika", "flufl.bounce")
"""Libraries that log what is no news: an outage once per attempt and layer, a strange mail with a traceback."""


def get_logger() -> FilteringBoundLogger:
    """A logger; bind it at module level, ``configure`` may come later."""
    return cast("FilteringBoundLogger", structlog.get_logger())


def log_canonical(event: str, fields: dict[str, object]) -> None:
    """One *info* line, as ``get_logger().info(event, **fields)`` writes it, but for what a context has bound.

    Every job has one: as JSON it takes a fifth of what the general way does.
    """
    if _canonical_to is None:
        get_logger().info(event, **fields)
        return
    line = {"event": event, **fields, "level": "info", "timestamp": datetime.now(UTC).isoformat()}
    _canonical_to.write(msgspec.json.encode(line, enc_hook=str).decode() + "\n")
    _canonical_to.flush()


def configure(json: bool | None = None, level: str = "info") -> None:  # noqa: FBT001 - a yes or no by nature
    """Send every log line of the process to standard error, from ``level`` on.

    ``json`` None means: pretty when standard error is a terminal. Lines of the libraries (the standard
    ``logging``) are taken along from *warning* on.
    """
    as_json = not sys.stderr.isatty() if json is None else json
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    colors = not as_json and sys.stderr.isatty()
    # The renderer's own choice shows local variables, and those hold addresses and payloads.
    plain = structlog.dev.plain_traceback
    last: list[Processor] = [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    if as_json:
        last = [structlog.processors.format_exc_info, _render_json]
    stderr = _Stderr()
    global _canonical_to  # noqa: PLW0603 - where a process's lines go is the process's, as is all of logging
    _canonical_to = stderr if as_json and logging.getLevelNamesMapping()[level.upper()] <= logging.INFO else None
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", stderr)),
        cache_logger_on_first_use=False,
    )
    of_libraries = logging.StreamHandler(cast("TextIO", stderr))
    of_libraries.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [of_libraries]
    root.setLevel(logging.WARNING)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)


class _Stderr:
    """Standard error as it is at the moment of writing; a reader that went away stops no work.

    On a running loop the lines of one turn are written together at its end: a system call a line was a tenth of
    what a drained job costs.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._scheduled_on: asyncio.AbstractEventLoop | None = None
        atexit.register(self._write_lines)

    def write(self, text: str) -> int:
        self._lines.append(text)
        return len(text)

    def flush(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._write_lines()
            return
        if self._scheduled_on is not loop:
            self._scheduled_on = loop
            loop.call_soon(self._write_lines)

    def _write_lines(self) -> None:
        lines, self._lines, self._scheduled_on = self._lines, [], None
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write("".join(lines))
            sys.stderr.flush()


_canonical_to: _Stderr | None = None


def _render_json(_logger: Any, _method: str, event: EventDict) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
