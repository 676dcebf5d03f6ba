"""The mutation tool: its changes are programs that differ, and the tests that it would run are those that reach
them.
"""

from __future__ import annotations

import ast
import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from coverage.numbits import nums_to_numbits
from tools.mutation.__main__ import Belief, drawn
from tools.mutation.distance import has_slow_cases, import_graph, nearest_files, stages
from tools.mutation.operators import Change, changes
from tools.mutation.reach import SOURCES, nearest, read
from tools.mutation.trials import Interpreter, Mutant, Outcome, copied, failing, try_one
from tools.mutation.warm import ends_in
from tools.tree import ROOT

SOURCE = '''"""Doc 1."""
import os

LIMIT = 3


@cache(maxsize=1)
def smallest(values: list[int], strict: bool = False) -> int:
    """é 2."""
    log.info("seen %d", 4)
    if not values and strict or os.name == "é":
        raise ValueError(f"{len(values) + 1} values")
    total = min(values) + 10  # é
    total -= 1
    values.clear()
    return total
'''


def made() -> dict[str, list[str]]:
    """The text that each kind replaces, with its replacement."""
    found: dict[str, list[str]] = {}
    for change in changes(SOURCE):
        before = SOURCE[change.begin : change.end]
        found.setdefault(change.kind, []).append(f"{before} -> {change.replacement}")
    return found


def test_each_kind_of_mistake_is_made_where_a_person_could_make_it_and_nowhere_else() -> None:
    assert made() == {
        "constant": ["3 -> 4", "False -> True", "10 -> 11", "1 -> 2"],
        "condition true": ['not values and strict or os.name == "é" -> True'],
        "condition false": ['not values and strict or os.name == "é" -> False'],
        "and/or": [" and  ->  or ", " or  ->  and "],
        "not": ["not values -> (values)"],
        "comparison": [" ==  ->  != "],
        "arithmetic": [" +  ->  - "],
        "call": ["min -> max"],
        "update left out": ["total -= 1 -> pass"],
        "call left out": ["values.clear() -> pass"],
        "None returned": ["total -> None"],
    }


def test_what_only_checks_or_says_is_left_out() -> None:
    source = (
        "if TYPE_CHECKING:\n    import os\n"
        "def pairs(a, b):\n    if len(a) > 3:\n        log.info('many')\n        print(1 + 1)\n"
        "    for _ in zip(a, b[1:], strict=True):\n        Path(a).resolve(strict=True)\n"
        "    if b:\n        log.info('some')\n    else:\n        b.clear()\n"
    )
    found = [(source[change.begin : change.end], change.kind) for change in changes(source)]
    assert found == [
        ("1", "constant"),
        ("Path(a).resolve(strict=True)", "call left out"),
        ("True", "constant"),
        ("b", "condition false"),
        ("b", "condition true"),
        ("b.clear()", "call left out"),
    ]


def test_every_change_of_a_real_file_is_a_program_that_differs() -> None:
    source = Path(ast.__file__).read_text()[:60_000].rpartition("\ndef ")[0]
    plain = ast.dump(ast.parse(source))
    for change in changes(source)[::7]:
        assert ast.dump(ast.parse(change.apply(source))) != plain, change


def test_a_line_is_tried_by_the_tests_that_reach_it_and_else_by_those_of_its_file(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "coverage") as connection:
        connection.executescript(
            "CREATE TABLE file (id, path); CREATE TABLE context (id, context); CREATE TABLE line_bits (file_id, "
            "context_id, numbits);"
        )
        connection.execute("INSERT INTO file VALUES (1, ?)", (f"{tmp_path}/{SOURCES}/cotenant/a.py",))
        connection.executemany("INSERT INTO context VALUES (?, ?)", [(1, ""), (2, "t.py::x|run"), (3, "t.py::y|setup")])
        rows = [(1, 1, nums_to_numbits([1, 2, 9])), (1, 2, nums_to_numbits([2, 3])), (1, 3, nums_to_numbits([3]))]
        connection.executemany("INSERT INTO line_bits VALUES (?, ?, ?)", rows)
    reach = read(tmp_path / "coverage", tmp_path)
    assert reach.tests("cotenant/a.py", 2) == {"t.py::x"}
    assert reach.tests("cotenant/a.py", 3) == {"t.py::x", "t.py::y"}
    assert reach.tests("cotenant/a.py", 9) == {"t.py::x", "t.py::y"}  # only at import, or compiled
    assert reach.tests("cotenant/b.py", 1) == frozenset()


def test_the_nearest_tests_are_run_first() -> None:
    tests = [
        "packages/cotenant/tests/unit/services/test_x.py::a",
        "packages/cotenant/tests/unit/engine/cycle/test_gang.py::a",
        "packages/cotenant/tests/unit/engine/cycle/test_other.py::a",
    ]
    assert nearest("cotenant/engine/cycle/gang.py", tests, 2) == [tests[1], tests[2]]


def test_slow_cases_are_run_where_they_need_no_real_cluster_or_node(tmp_path: Path) -> None:
    for name, text in {
        "tests/property/test_a.py": "@pytest.mark.slow\ndef test_it():\n    pass\n",
        "tests/property/test_b.py": "def test_it():\n    pass\n",
        "tests/e2e/test_c.py": "pytestmark = pytest.mark.slow\n",
        "tests/property/test_d.py": "@given(integers())\ndef test_it(number):\n    pass\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {path: has_slow_cases(tmp_path, path) for path in ("tests/property/test_a.py", "tests/property/test_b.py")}
    assert found == {"tests/property/test_a.py": True, "tests/property/test_b.py": False}
    assert not has_slow_cases(tmp_path, "tests/e2e/test_c.py")
    assert has_slow_cases(tmp_path, "tests/property/test_d.py")  # all of its cases
    (tmp_path / "tests/kube/claims").mkdir(parents=True)
    for name in ("tests/kube/test_e.py", "tests/kube/claims/test_same_as_upstream.py"):
        (tmp_path / name).write_text("pytestmark = pytest.mark.slow\n")
    assert has_slow_cases(tmp_path, "tests/kube/test_e.py")
    assert not has_slow_cases(tmp_path, "tests/kube/claims/test_same_as_upstream.py")  # half a minute


def test_the_files_that_come_to_import_a_module_are_tried_in_the_order_of_their_distance(tmp_path: Path) -> None:
    inside, unit = f"{SOURCES}/cotenant/engine", "packages/cotenant/tests/unit/engine"
    for name, text in {
        f"{inside}/__init__.py": "",
        f"{inside}/gang.py": "",
        f"{inside}/rounds.py": "from cotenant.engine import gang\n",
        f"{inside}/other.py": "import json\n",
        f"{SOURCES}/cotenant/cli/late.py": "from cotenant.engine import late\n",
        f"{SOURCES}/cotenant/cli/main.py": 'COMMANDS = {"late": "late:app", "none": "none:app"}\n',
        f"{inside}/late.py": "",
        f"{unit}/test_commands.py": "from cotenant.cli.main import main\n",
        f"{unit}/test_rounds.py": "def test_it():\n    from cotenant.engine.rounds import play\n",
        f"{unit}/test_gang.py": "from cotenant.engine.gang import Gang\n",
        f"{unit}/test_other.py": "import cotenant.engine.other\n",
        "tests/fakes/world.py": "from cotenant.engine.rounds import play\n",
        "tests/fault/conftest.py": "from tests.fakes import world\n",
        "tests/fault/test_world.py": "def test_it(world):\n    pass\n",
        "tests/property/test_gang.py": "from cotenant.engine.gang import Gang\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = import_graph(tmp_path)
    assert nearest_files(graph, f"{inside}/gang.py") == [
        f"{unit}/test_gang.py",
        "tests/property/test_gang.py",
        f"{unit}/test_rounds.py",
        "tests/fault/test_world.py",
    ]
    assert nearest_files(graph, f"{inside}/other.py") == [f"{unit}/test_other.py"]
    assert nearest_files(graph, f"{inside}/absent.py") == []
    assert nearest_files(graph, f"{inside}/late.py") == [f"{unit}/test_commands.py"]


def test_files_are_run_in_stages_and_those_beyond_the_last_are_left_out() -> None:
    assert stages(["a", "b", "c", "d", "e", "f"], [1, 3]) == [["a"], ["b", "c", "d"]]
    assert stages(["a"], [2, 4]) == [["a"]]
    assert stages([], [2, 4]) == []


def test_a_place_may_be_named() -> None:
    file = "packages/cotenant/src/cotenant/services/reviewing/facts.py"
    every = drawn(["services"], [file], 10_000, 1)
    assert {mutant.file for mutant in every} == {file.removeprefix(f"{SOURCES}/")}
    line = every[0].change.line
    assert {mutant.change.line for mutant in drawn(["services"], [f"{file}:{line}"], 10_000, 1)} == {line}
    assert {Path(mutant.file).name for mutant in drawn(["services"], ["reviewing/f*.py"], 10_000, 1)} == {"facts.py"}


def test_a_copy_of_the_tree_is_brought_up_to_date_and_keeps_what_was_compiled(tmp_path: Path) -> None:
    root, target = tmp_path / "here" / "root", tmp_path / "there" / "0"
    (root / "tools" / "__pycache__").mkdir(parents=True)
    (root.parent / "shared").mkdir()
    for name, text in {
        "tools/a.py": "a",
        "tools/b.py": "b",
        "tools/c/d.py": "d",
        "README.md": "r",
        "other": "o",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    assert copied(root, target) == target

    def found() -> dict[str, str]:
        files = (path for path in sorted(target.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
        return {path.relative_to(target).as_posix(): path.read_text() for path in files}

    assert found() == {"README.md": "r", "tools/a.py": "a", "tools/b.py": "b", "tools/c/d.py": "d"}
    assert (target.parent / "shared").resolve() == (root.parent / "shared").resolve()
    (target / "tools" / "__pycache__").mkdir()
    (target / "tools" / "__pycache__" / "a.pyc").write_text("")
    (target / "tools" / "a.py").write_text("x")  # a trial that was interrupted
    (root / "tools" / "b.py").write_text("b2")
    (root / "tools" / "c" / "d.py").unlink()
    (root / "tools" / "c" / "e.py").write_text("e")
    shutil.copytree(root / "tools" / "c", root / "tools" / "f")
    shutil.rmtree(root / "tools" / "c")
    copied(root, target)
    assert found() == {"README.md": "r", "tools/a.py": "a", "tools/b.py": "b2", "tools/f/e.py": "e"}
    assert (target / "tools" / "__pycache__" / "a.pyc").exists()
    for name in ("README.md", "tools/a.py"):
        assert (target / name).stat().st_mtime_ns == (root / name).stat().st_mtime_ns


@pytest.mark.slow
def test_trials_in_children_of_one_process_see_each_change_and_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / SOURCES).mkdir(parents=True)
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    module, source = tmp_path / SOURCES / "warm_module.py", "FIRST, SECOND = 3, 4\nimport time\ntime.sleep(0)\n"
    module.write_text(source)
    (tmp_path / "test_it.py").write_text(
        f"import sys\n\ndef test_it():\n    sys.path.insert(0, '{SOURCES}')\n    import warm_module\n"
        "    assert warm_module.FIRST == 3\n"
    )
    interpreter = Interpreter(tmp_path, [])
    try:
        for _ in range(2):
            dead = {
                source[change.begin : change.end]: try_one(
                    tmp_path, Mutant("warm_module.py", change), ["test_it.py"], 60.0, (), interpreter
                ).dead
                for change in changes(source)
                if change.kind == "constant" and change.line == 1
            }
            assert dead == {"3": True, "4": False}
            assert module.read_text() == source
        (hang,) = (change for change in changes(source) if change.kind == "constant" and change.line == 3)
        outcome = try_one(
            tmp_path, Mutant("warm_module.py", replace(hang, replacement="600")), ["test_it.py"], 3.0, (), interpreter
        )
        assert (outcome.dead, outcome.said) == (True, "no end in 3 s")
        assert failing(tmp_path, ["test_it.py"], 60.0, (), interpreter) == frozenset()
    finally:
        interpreter.close()


def test_seconds_without_a_cpu_are_no_hang() -> None:
    read, write = os.pipe()
    try:
        waited_s = iter([100.0, 100.0, 0.0])
        assert not ends_in(read, 0.01, lambda: next(waited_s))
        assert next(waited_s, None) is None
        os.close(write)
        assert ends_in(read, 60.0, lambda: 0.0)  # readable, as of a process that has ended
    finally:
        os.close(read)


@pytest.mark.slow
def test_a_change_that_a_test_notices_is_dead_and_the_file_is_as_before(tmp_path: Path) -> None:
    (tmp_path / SOURCES).mkdir(parents=True)
    module, source = tmp_path / SOURCES / "lone_module.py", "def double(x):\n    unused = 5\n    return x * 2\n"
    module.write_text(source)
    test = (
        "import sys\n\ndef test_it():\n    sys.path.insert(0, '"
        + SOURCES
        + "')\n    import lone_module\n    assert lone_module.double(3) == 6\n"
    )
    (tmp_path / "test_it.py").write_text(test)
    outcomes = {
        change.kind: try_one(tmp_path, Mutant("lone_module.py", change), ["test_it.py::test_it"], 60.0)
        for change in changes(source)
        if change.line == 2 or change.kind == "arithmetic"
    }
    assert {kind: outcome.dead for kind, outcome in outcomes.items()} == {"constant": False, "arithmetic": True}
    assert outcomes["arithmetic"].noticed == ("test_it.py::test_it",)
    assert module.read_text() == source


@pytest.mark.slow
def test_a_mistake_lives_only_where_tests_were_run(tmp_path: Path) -> None:
    """A case that is not there any more hides no other one, and a file that the mistake makes unreadable is a test
    that failed.
    """
    source = "def limit():\n    return 1 + 2\n\nFIRST = [limit()][0] // (limit() > 2)\n"
    (tmp_path / SOURCES).mkdir(parents=True)
    (tmp_path / SOURCES / "other_module.py").write_text(source)
    (tmp_path / "test_it.py").write_text(
        "from other_module import limit\ndef test_it():\n    assert limit() == 3\ndef test_none():\n    pass\n"
    )
    plus, *_ = (change for change in changes(source) if change.kind == "arithmetic")
    mutant = Mutant("other_module.py", plus)  # 1 - 2: no division by `False` is possible, so the file is unreadable
    gone = "test_it.py::test_gone"
    assert try_one(tmp_path, mutant, ["test_it.py::test_none"], 60.0).dead
    (tmp_path / SOURCES / "other_module.py").write_text(source.partition("\n\n")[0])
    found = try_one(tmp_path, mutant, [gone, "test_it.py::test_it"], 60.0)
    assert (found.dead, found.tests) == (True, 1)
    assert not try_one(tmp_path, mutant, [gone, "test_it.py::test_none"], 60.0).dead
    assert not try_one(tmp_path, mutant, [gone], 60.0).dead
    with pytest.raises(RuntimeError, match="pytest ended with 4"):
        try_one(tmp_path, mutant, ["test_it.py::test_it"], 60.0, ("--no-such-option",))


@pytest.mark.slow
def test_a_death_by_a_test_that_fails_without_the_change_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('a', [1, 2])\ndef test_red(a):\n    assert a == 1\n"
        "def test_green():\n    pass\n"
    )
    assert failing(tmp_path, ["test_it.py::test_red", "test_it.py::test_green"], 60.0) == {"test_it.py::test_red"}
    assert failing(tmp_path, ["test_it.py"], 60.0) == {"test_it.py"}
    assert failing(tmp_path, ["test_it.py::test_green"], 60.0) == frozenset()
    assert failing(tmp_path, [], 60.0) == frozenset()
    mutants = [Mutant("a.py", Change(line, 0, 1, "constant", "2")) for line in range(4)]
    outcomes = [
        Outcome(mutants[0], True, 1, "", noticed=("test_it.py::test_red",)),
        Outcome(mutants[1], True, 1, "", noticed=("test_it.py::test_green",)),
        Outcome(mutants[2], True, 1, "", by_slow=True, noticed=("test_it.py::test_green",)),
        Outcome(mutants[3], False, 1, ""),
    ]
    belief = Belief(60.0)
    found = {outcome.mutant: belief.checked(tmp_path, outcome).dead for outcome in outcomes}
    assert found == {mutants[0]: False, mutants[1]: True, mutants[2]: True, mutants[3]: False}
