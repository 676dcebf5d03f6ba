"""An option of a process is declared once: on the field of the arguments that the command takes."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest
from cyclopts import App, Group, Parameter

from cotenant.cli.main import app, main
from cotenant.services.options import COMMON

PROCESSES = (
    ("agent",),
    ("console",),
    ("credit", "serve"),
    ("extender",),
    ("keeper",),
    ("manager",),
    ("nri",),
    ("rebalancer", "plan"),
    ("rebalancer", "run"),
    ("scheduler",),
    ("traces",),
    ("webhook",),
)
EVERYWHERE = {"json"}  # options of the output, which no service knows


def command(words: tuple[str, ...]) -> App:
    found = app
    for word in words:
        found = found[word]
    return found


def arguments_of(words: tuple[str, ...]) -> type:
    run = command(words).default_command
    assert run is not None
    found: type = get_type_hints(run)["request"]
    return found


@pytest.mark.parametrize("words", PROCESSES, ids=" ".join)
def test_a_process_takes_its_arguments_and_declares_no_option_beside_them(words: tuple[str, ...]) -> None:
    run = command(words).default_command
    assert run is not None
    assert set(get_type_hints(run)) - EVERYWHERE == {"request", "return"}
    assert arguments_of(words).__module__ == f"cotenant.services.{words[0]}.{words[0]}_arguments"


@pytest.mark.parametrize("words", PROCESSES, ids=" ".join)
def test_every_field_says_what_it_is_and_at_most_five_matter_first(words: tuple[str, ...]) -> None:
    of = arguments_of(words)
    hints = get_type_hints(of, include_extras=True)
    first = 0
    for field in fields(of):
        declared = [part for part in getattr(hints[field.name], "__metadata__", ()) if isinstance(part, Parameter)]
        assert declared, field.name
        if any(part.parse is False for part in declared):
            continue
        assert any(part.help for part in declared), field.name
        groups = [group for part in declared for group in part.group or ()]
        assert groups, field.name
        assert all(isinstance(group, Group) for group in groups)
        first += groups[-1] is COMMON
    assert 1 <= first <= 5


def test_commands_are_grouped_by_what_a_person_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    page = capsys.readouterr().out
    titles = [
        "Try it on this machine",
        "Install and check",
        "Run in a cluster",
        "Ask why",
        "On a node",
        "Compare policies in the lab",
    ]
    places = [page.index(title) for title in titles]
    assert places == sorted(places)
