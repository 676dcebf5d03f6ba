"""Commands of other packages: found where they are asked for, and named where they are missing."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from cyclopts import App

from cotenant.cli import further
from cotenant.cli.further import add_all, add_further
from cotenant.model.errors import Unsupported

LOADED: list[str] = []


def scheduler(name: str = "") -> str:
    """Of the product."""
    return f"scheduler {name}"


def brought() -> str:
    """Of another package."""
    return "brought"


class Point(EntryPoint):
    def load(self) -> Callable[[], str]:
        LOADED.append(self.name)
        return brought


@pytest.fixture
def app() -> App:
    made, node = App(name="cotenant", result_action="return_value"), App(name="node")
    made.command(scheduler)
    node.command(scheduler, name="status")
    made.command(node)
    LOADED.clear()
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often installed packages were looked through; two have commands."""
    calls: list[str] = []

    def entry_points(group: str) -> EntryPoints:
        calls.append(group)
        return EntryPoints([Point(name, "tests:brought", group) for name in ("lab", "node experiment", "theirs")])

    monkeypatch.setattr(further, "entry_points", entry_points)
    return calls


@pytest.mark.parametrize(
    "words",
    [["--version"], ["scheduler"], ["scheduler", "--help"], ["scheduler", "lab"], ["node", "status", "--json"]],
)
def test_a_command_of_the_product_looks_for_no_other(app: App, asked: list[str], words: list[str]) -> None:
    add_further(app, words)
    assert (asked, LOADED) == ([], [])


@pytest.mark.parametrize(
    ("words", "loaded"),
    [
        (["lab", "compare"], ["lab"]),
        (["theirs"], ["theirs"]),
        (["node", "experiment", "sine"], ["node experiment"]),
        (["node", "--help"], ["node experiment"]),
        (["--help"], ["lab", "theirs"]),
        ([], ["lab", "theirs"]),
        (["lba"], ["lab", "theirs"]),  # for the suggestion
    ],
)
def test_what_is_loaded_is_what_the_words_may_mean(
    app: App, asked: list[str], words: list[str], loaded: list[str]
) -> None:
    add_further(app, words)
    assert (asked, sorted(LOADED)) == ([further.GROUP], loaded)


def test_a_command_that_was_added_runs(app: App, asked: list[str]) -> None:
    add_further(app, ["node", "experiment"])
    assert app(["node", "experiment"], exit_on_error=False) == "brought"
    add_further(app, ["node", "experiment"])  # again, as in one process of tests
    assert len(asked) == 1


@pytest.mark.parametrize("words", [["up"], ["up", "--nodes", "3"], ["demo", "--help"]])
def test_a_missing_package_is_named(app: App, asked: list[str], words: list[str]) -> None:
    with pytest.raises(Unsupported, match=f"cotenant {words[0]}.*pip install cotenant-local"):
        add_further(app, words)


def test_all_that_is_installed_can_be_added(app: App, asked: list[str]) -> None:
    add_all(app)
    assert {"lab", "theirs", "scheduler", "node"} <= set(app)
    assert "experiment" in set(app["node"])
