"""Log lines of the processes, as text and as JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from tests.fakes.command_options import options

from cotenant.cli.further import add_further
from cotenant.cli.main import app
from cotenant.model.errors import InvalidInput
from cotenant.services.logs import JsonFormatter, log_to_stderr

PROCESSES = (
    ("scheduler",),
    ("extender",),
    ("manager",),
    ("console",),
    ("webhook", "--listen", ":9443"),
    ("up",),
    ("agent",),
    ("keeper", "--root", "be"),
    ("traces",),
)
record = logging.makeLogRecord


@pytest.fixture
def root_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.mark.parametrize("command", PROCESSES, ids=lambda entry: entry[0])
def test_every_process_has_the_option(command: tuple[str, ...]) -> None:
    add_further(app, command)  # `up` is of another package
    _, bound, unused, *_ = app.parse_known_args([*command, "--log-format", "json"])
    assert options(bound)["log_format"] == "json"
    assert not unused


def test_one_object_a_line(capsys: pytest.CaptureFixture[str], root_as_before: None) -> None:
    log_to_stderr("info", "json")
    log = logging.getLogger("cotenant.test")
    log.info("%d pods\nwait: %s", 3, "näive")
    log.debug("not at this level")
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {"level": "info", "logger": "cotenant.test", "message": "3 pods\nwait: näive"}
    assert (second["level"], second["message"]) == ("error", "failed")
    assert second["exception"].endswith("ValueError: broken")


def test_a_record_whose_arguments_do_not_fit_is_written_all_the_same() -> None:
    line = json.loads(JsonFormatter().format(record({"msg": "%d pods", "args": ("three",), "levelname": "INFO"})))
    assert line["message"] == "%d pods ('three',)"


def test_text_stays_as_it_was(capsys: pytest.CaptureFixture[str], root_as_before: None) -> None:
    log_to_stderr("warning")
    logging.getLogger("cotenant.test").warning("a")
    assert capsys.readouterr().err.endswith("WARNING cotenant.test: a\n")


def test_another_format_is_refused() -> None:
    with pytest.raises(InvalidInput, match="--log-format: xml: expected text or json"):
        log_to_stderr("info", "xml")
