"""One trial: the tree with one change, and the tests that could notice it; and whether what failed fails without the
change too.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tools.mutation.operators import Change
from tools.mutation.reach import SOURCES
from tools.tree import python_path

TREE = (
    "packages",
    "tests",
    "tools",
    "bench",
    "examples",
    "deploy",
    "docs",
    "bpf",
    "console",
    "conftest.py",
    "pyproject.toml",
    "Makefile",
    "README.md",
)
# statuses of pytest: a test failed, a file could not be imported, a conftest could not or an argument was wrong, there
# was no test
PASSED, FAILED, INTERRUPTED, USAGE, NONE = 0, 1, 2, 4, 5
_MISSING = re.compile(r"^ERROR: (?:not found|found no collectors for): (.*)$", re.MULTILINE)
_NOTICED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """file: below `SOURCES`."""

    file: str
    change: Change


@dataclass(frozen=True, slots=True)
class Outcome:
    """dead: a test failed or did not end; `tests`: how many fast ones, or files of them, were run; `by_slow`: only a
    slow one failed; `noticed`: what failed, or all that was run where nothing came to an end.
    """

    mutant: Mutant
    dead: bool
    tests: int
    said: str
    by_slow: bool = False
    noticed: tuple[str, ...] = ()


class Interpreters:
    """Of one tree, one for each floor that changes are made in: what lies below it is imported once. The first change
    of a floor starts its own.
    """

    BELOW: ClassVar = {
        "policy": ("model", "drivers"),
        "engine": ("model", "drivers", "policy"),
        "services": ("model", "drivers", "policy", "engine"),
    }

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self._of_floors: dict[str, Interpreter] = {}

    def of(self, mutant: Mutant) -> Interpreter:
        """The one whose children read this change."""
        floor = Path(mutant.file).parts[1]
        if floor not in self._of_floors:
            self._of_floors[floor] = Interpreter(self.tree, self.BELOW.get(floor, ()))
        return self._of_floors[floor]

    def close(self) -> None:
        """End the processes."""
        for interpreter in self._of_floors.values():
            interpreter.close()


class Interpreter:
    """Runs pytest in children of a process that has imported what the changes do not touch (`warm`)."""

    def __init__(self, tree: Path, floors: Sequence[str]) -> None:
        """`floors`: what of the package no change is made in, such as `model`."""
        self._output = tree / "said-by-tests"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.mutation.warm", *floors],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": python_path(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, arguments: Sequence[str], max_s: float) -> subprocess.CompletedProcess[str]:
        """Raises `TimeoutExpired` like `subprocess.run`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        told = {"arguments": list(arguments), "output": str(self._output), "max_s": max_s}
        print(json.dumps(told), file=self._process.stdin, flush=True)
        status = json.loads(self._process.stdout.readline())["status"]
        if status is None:
            raise subprocess.TimeoutExpired("pytest", max_s)
        return subprocess.CompletedProcess("pytest", status, self._output.read_text(errors="replace"), "")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def copied(root: Path, target: Path) -> Path:
    """A copy of the tree, in which one mutant after the other is made, or an earlier copy brought up to date: what
    was compiled for it is of use again. What lies beside the tree is beside the copy, too: cases are read from there.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.parent / "shared"
    if (root.parent / "shared").exists() and not beside.exists():
        beside.symlink_to((root.parent / "shared").resolve())
    for name in TREE:
        if (root / name).is_dir():
            _bring_up_to_date(root / name, target / name)
        elif (root / name).exists():
            shutil.copy2(root / name, target / name)
    return target


def _bring_up_to_date(source: Path, target: Path) -> None:
    """Files keep their times, so that what was compiled from one that is as it was is not compiled again."""
    target.mkdir(parents=True, exist_ok=True)
    found = {path.name: path for path in source.iterdir() if path.name not in ("__pycache__", "node_modules")}
    for old in target.iterdir():
        if old.name not in found and old.name != "__pycache__":
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    for name, path in found.items():
        if path.is_dir() and not path.is_symlink():
            _bring_up_to_date(path, target / name)
        elif not _is_same(path, target / name):
            (target / name).unlink(missing_ok=True)
            shutil.copy2(path, target / name, follow_symlinks=False)


def _is_same(path: Path, copy: Path) -> bool:
    if not copy.exists() or path.is_symlink():
        return False
    one, other = path.stat(), copy.stat()
    return (one.st_mtime_ns, one.st_size) == (other.st_mtime_ns, other.st_size)


def try_one(
    tree: Path,
    mutant: Mutant,
    tests: Sequence[str],
    max_s: float,
    options: Sequence[str] = (),
    interpreter: Interpreter | None = None,
) -> Outcome:
    """Make the change, run the tests, take the change back. A run that does not end in `max_s` seconds counts as dead:
    the change made it hang. `options`: further ones of pytest. Tests that are no longer there are left out. Raises
    `RuntimeError` where pytest did not run them: nothing is known then.
    """
    path = tree / SOURCES / mutant.file
    source, before = path.read_text(), path.stat()
    try:
        path.write_text(mutant.change.apply(source))
        _forget_bytecode(path)
        try:
            done = _run(tree, tests, max_s, options, interpreter)
            if done.returncode == USAGE and (gone := _missing(tree, done)):
                tests = [test for test in tests if test not in gone]
                if not tests:
                    return Outcome(mutant, False, 0, "no test that reaches it is there any more")
                done = _run(tree, tests, max_s, options, interpreter)
        except subprocess.TimeoutExpired:
            return Outcome(mutant, True, len(tests), f"no end in {max_s:.0f} s", noticed=tuple(tests))
    finally:
        path.write_text(source)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        _forget_bytecode(path)
    said = done.stdout + done.stderr
    # named tests of a file that cannot be imported are a wrong argument to pytest, too
    is_unreadable = "while loading conftest" in said or "ERROR collecting" in said
    dead = done.returncode in (FAILED, INTERRUPTED) or (done.returncode == USAGE and is_unreadable)
    if not dead and done.returncode not in (PASSED, NONE):
        raise RuntimeError(f"{mutant.file}:{mutant.change.line}: pytest ended with {done.returncode}: {said[-2000:]}")
    noticed = tuple(dict.fromkeys(_NOTICED.findall(done.stdout))) if dead else ()
    return Outcome(mutant, dead, len(tests), (done.stdout.strip().splitlines() or [""])[-1], noticed=noticed)


def _forget_bytecode(path: Path) -> None:
    """It is found again by its source's seconds and size, which two changes may share."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def failing(
    tree: Path,
    tests: Sequence[str],
    max_s: float,
    options: Sequence[str] = (),
    interpreter: Interpreter | None = None,
) -> frozenset[str]:
    """Those of these tests (node ids without parameters, or files) that fail in the tree as it is, or all of them where
    they come to no end: what they say of a change means nothing.
    """
    if not tests:
        return frozenset()
    try:
        done = _run(tree, tests, max_s, options, interpreter, stops_at_first=False)
    except subprocess.TimeoutExpired:
        return frozenset(tests)
    found = set(_NOTICED.findall(done.stdout))
    if done.returncode not in (PASSED, FAILED, NONE):
        found |= set(tests)
    return frozenset(test for test in tests if any(one == test or one.startswith(f"{test}::") for one in found))


def _run(
    tree: Path,
    tests: Sequence[str],
    max_s: float,
    options: Sequence[str],
    interpreter: Interpreter | None,
    stops_at_first: bool = True,
) -> subprocess.CompletedProcess[str]:
    chosen = tree / "chosen-tests"
    chosen.write_text("\n".join(tests))
    arguments = [
        *("-q", *(("-x",) if stops_at_first else ())),
        *("--no-header", "--tb=line", "-p", "no:cacheprovider", *options, f"@{chosen}"),
    ]
    if interpreter is not None:
        return interpreter.run(arguments, max_s)
    command = [sys.executable, "-m", "pytest", *arguments]
    # in a session of its own: what its tests have started ends with it
    with subprocess.Popen(
        command,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": python_path(tree)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        try:
            out, err = started.communicate(timeout=max_s)
        except BaseException:
            os.killpg(started.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, started.returncode, out, err)


def _missing(tree: Path, done: subprocess.CompletedProcess[str]) -> set[str]:
    """The tests that pytest did not find in files that it could read; none where a file could not be read."""
    said = done.stdout + done.stderr
    if "ERROR collecting" in said or "while loading conftest" in said:
        return set()
    return {entry.removeprefix(f"{tree}/") for entry in _MISSING.findall(said)}
