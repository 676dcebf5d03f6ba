"""Every help page, read as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO

import pytest
from cyclopts import App

from cotenant.cli.defaults import shown_default
from cotenant.cli.further import add_all
from cotenant.cli.main import app, main


def commands(of: App, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name in of:
        if not name.startswith("-"):
            yield from commands(of[name], (*words, name))


add_all(app)
ALL = list(commands(app))


def test_there_are_commands() -> None:
    assert {("up",), ("scheduler",), ("node", "experiment", "sine"), ("lab", "compare")} <= set(ALL)


@cache
def page_of(words: tuple[str, ...]) -> str:
    """A command's page of help, without the borders and line breaks of its tables."""
    with redirect_stdout(StringIO()) as out:
        assert main([*words, "--help"]) == 0
    return " ".join(out.getvalue().replace("│", " ").split())


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_defaults_that_say_nothing_are_left_out(words: tuple[str, ...]) -> None:
    page = page_of(words)
    for nothing in ("[default: ()]", '[default: ""]', "[default: False]", "[default: None]", "[default: ]", "--empty-"):
        assert nothing not in page


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        ("", None),
        ((), None),
        (False, None),
        (True, "yes"),
        (0, "0"),
        (15.0, "15"),
        (0.5, "0.5"),
        (float("inf"), "inf"),
        (("cotenant", "default-scheduler"), "cotenant, default-scheduler"),
    ],
)
def test_the_text_of_a_default(value: object, shown: str | None) -> None:
    assert shown_default(value) == shown
