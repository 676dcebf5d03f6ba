"""One trial: the tree with one change, and the tests that reach it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
FAILED, INTERRUPTED, USAGE = (
    1,
    2,
    4,
)  # statuses of pytest: a test failed, a file could not be imported, a conftest could not or an argument was wrong


@dataclass(frozen=True, slots=True)
class Mutant:
    """file: below `SOURCES`."""

    file: str
    change: Change


@dataclass(frozen=True, slots=True)
class Outcome:
    """dead: a test failed or did not end; `tests`: how many fast ones were run; `by_slow`: only a slow one failed."""

    mutant: Mutant
    dead: bool
    tests: int
    said: str
    by_slow: bool = False


def copied(root: Path, target: Path) -> Path:
    """A copy of the tree, in which one mutant after the other is made."""
    for name in TREE:
        if (root / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "node_modules", "*.nbc", "*.nbi")
            shutil.copytree(root / name, target / name, ignore=ignored, symlinks=True)
        elif (root / name).exists():
            shutil.copy2(root / name, target / name)
    return target


def try_one(tree: Path, mutant: Mutant, tests: Sequence[str], max_s: float, options: Sequence[str] = ()) -> Outcome:
    """Make the change, run the tests, take the change back. A run that does not end in `max_s` seconds counts as dead: the change made it hang.
    `options`: further ones of pytest.
    """
    path = tree / SOURCES / mutant.file
    source = path.read_text()
    chosen = tree / "chosen-tests"
    chosen.write_text("\n".join(tests))
    environment = {**os.environ, "PYTHONPATH": python_path(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "--no-header",
        "--tb=line",
        "-p",
        "no:cacheprovider",
        *options,
        f"@{chosen}",
    ]
    try:
        path.write_text(mutant.change.apply(source))
        try:
            done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=max_s)
        except subprocess.TimeoutExpired:
            return Outcome(mutant, True, len(tests), f"no end in {max_s:.0f} s")
    finally:
        path.write_text(source)
    said = done.stdout + done.stderr
    dead = done.returncode in (FAILED, INTERRUPTED) or (done.returncode == USAGE and "while loading conftest" in said)
    return Outcome(mutant, dead, len(tests), (done.stdout.strip().splitlines() or [""])[-1])
