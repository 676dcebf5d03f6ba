"""The division of the suite among workers: what belongs together, and what starts first."""

from pathlib import Path

import pytest
from tests import distribution

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("unit", [*distribution.LONGEST, *distribution.TOGETHER])
def test_every_named_unit_exists(unit: str) -> None:
    assert (ROOT / unit).exists()


@pytest.mark.parametrize("case", distribution.LONG)
def test_every_long_case_exists(case: str) -> None:
    module, _, name = case.partition("::")
    assert (ROOT / module).exists()
    assert not name or f"def {name.partition('[')[0]}" in (ROOT / module).read_text()


def test_a_unit_is_a_module_or_a_folder_whose_modules_share_something() -> None:
    assert (
        distribution.unit("packages/cotenant-lab/tests/lab/test_dag.py::test_a")
        == "packages/cotenant-lab/tests/lab/test_dag.py"
    )
    assert (
        distribution.unit("packages/cotenant-lab/tests/lab/test_dag.py::TestA::test_b[x::y]")
        == "packages/cotenant-lab/tests/lab/test_dag.py"
    )
    assert distribution.unit("tests/e2e/test_use.py::test_a") == distribution.unit("tests/e2e/test_quota.py::test_b")
    assert distribution.unit("tests/node/guest/test_v2_knobs.py::test_a") == "tests/node/guest"


def test_what_is_long_is_found_by_the_beginning_of_its_name() -> None:
    vanish = "tests/fault/keeper/test_kill.py::test_groups_that_vanish_while_no_keeper_runs_are_not_written"
    assert distribution.is_long("tests/node/guest/test_v2_knobs.py::test_a")
    assert distribution.is_long(f"{vanish}[v2-vanished]")
    assert not distribution.is_long(f"{vanish}[v1-vanished]")


def test_the_longest_units_start_first_and_the_rest_keeps_its_order() -> None:
    class Item:
        def __init__(self, nodeid: str) -> None:
            self.nodeid = nodeid

    names = ["tests/a.py::b", "tests/e2e/test_use.py::x", "tests/a.py::a", "tests/node/guest/test_v2_knobs.py::y"]
    items = [Item(name) for name in names]
    distribution.sort(items)  # type: ignore[arg-type]
    assert [item.nodeid for item in items] == [names[3], names[1], names[0], names[2]]


def test_every_second_worker_takes_the_cases_that_wait_for_processes_and_helps_when_none_is_left() -> None:
    waiting = [
        "tests/e2e",
        "packages/cotenant-lab/tests/lab/test_dag.py",
        "tests/node/test_agent.py",
        "tests/unit/test_bench.py",
    ]
    assert distribution.choice(waiting, "gw0") == "packages/cotenant-lab/tests/lab/test_dag.py"
    assert distribution.choice(waiting, "gw1") == "tests/e2e"
    assert distribution.choice(waiting[1:], "gw3") == "tests/node/test_agent.py"
    assert (
        distribution.choice(["packages/cotenant-lab/tests/lab/test_dag.py"], "gw1")
        == "packages/cotenant-lab/tests/lab/test_dag.py"
    )
    assert distribution.choice(["tests/kube/test_watches.py"], "gw0") == "tests/kube/test_watches.py"
