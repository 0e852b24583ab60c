"""Log lines are one JSON object each, or readable, and never in the way."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from shared import logs


@pytest.fixture(autouse=True)
def _leave_logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in logs.QUIET:
        logging.getLogger(name).setLevel(logging.NOTSET)


def _lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_json_lines_carry_event_fields_level_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=True)
    logs.get_logger().info("delivery.attempted", attempt=2)
    (line,) = _lines(capsys)
    assert line.pop("timestamp")
    assert line == {"event": "delivery.attempted", "attempt": 2, "level": "info"}


def test_a_logger_made_before_the_configuration_follows_it(capsys: pytest.CaptureFixture[str]) -> None:
    log = logs.get_logger()
    logs.configure(json=True, level="warning")
    log.info("small.thing")
    log.warning("big.thing")
    assert [line["event"] for line in _lines(capsys)] == ["big.thing"]


def test_a_failure_is_one_line_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=True)
    logs.get_logger().error("part.failed", exc_info=ValueError("broken"))
    (line,) = _lines(capsys)
    assert "ValueError: broken" in str(line["exception"])


def test_lines_of_libraries_come_along_from_warning_on(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=True)
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("some.library").warning("trouble with %s", "x")
    (line,) = _lines(capsys)
    assert (line["event"], line["level"], line["logger"]) == ("trouble with x", "warning", "some.library")


def test_without_a_terminal_lines_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    logs.get_logger().info("x")
    assert [line["event"] for line in _lines(capsys)] == ["x"]


def test_pretty_lines_are_for_reading(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(json=False)
    logs.get_logger().info("delivery.attempted", attempt=2)
    assert "delivery.attempted" in (text := capsys.readouterr().err)
    assert "attempt=2" in text


class _Gone(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_went_away_stops_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", _Gone())
    logs.configure(json=True)
    logs.get_logger().info("x")
