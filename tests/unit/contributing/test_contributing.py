"""CONTRIBUTING.md against the tree: every path that it names exists, and every recipe, followed to the letter, works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.fakes.waiting import patience
from tests.unit.contributing.recipes import Block, Stale, recipes
from tools.tree import PACKAGES, python_path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
RECIPES = recipes(PAGE)
# The recipes with code, and the check in working.py of what each adds.
CHECKS = {
    "A score": "score",
    "A placement profile": "profile",
    "A filter": "filter_",
    "A plugin of the scheduler": "plugin",
    "A custom kind": "kind",
    "A collector": "collector",
    "A node policy": "node_policy",
    "A metric of the lab": "metric",
    "A trace format": "trace",
}


def copied(folder: Path, applied: Mapping[str, tuple[Block, ...]]) -> Path:
    """A copy of the packages' sources with these recipes applied."""
    for package in PACKAGES.values():
        shutil.copytree(package, folder / package.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__"))
    for blocks in applied.values():
        for block in blocks:
            block.apply(folder)
    return folder


def check(tree: Path, name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one check of working.py on a tree, with a cache of compiled code of the tree's own."""
    environment = os.environ | {
        "PYTHONPATH": f"{python_path(tree)}{os.pathsep}{ROOT}{os.pathsep}{ROOT / 'packages/cotenant'}",
        "COTENANT_CACHE": str(tree / "cache"),
        "COLUMNS": "300",
    }
    words = [sys.executable, "-m", "tests.unit.contributing.working", name, str(folder)]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=patience(300))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources to which all recipes were applied, in the order of the page."""
    return copied(tmp_path_factory.mktemp("all"), RECIPES)


def test_every_recipe_with_code_is_checked() -> None:
    assert list(RECIPES) == list(CHECKS)


def test_every_fenced_block_of_a_recipe_names_its_file() -> None:
    section = PAGE[PAGE.index("## How to add") : PAGE.index("## Review")]
    assert len(re.findall(r"^```\w", section, re.MULTILINE)) == sum(len(blocks) for blocks in RECIPES.values())


def test_every_path_that_the_page_names_exists() -> None:
    written = {block.path for blocks in RECIPES.values() for block in blocks}
    named = set(re.findall(r"(?<=[`(])[\w./-]+/[\w.-]*(?=[`)#])", re.sub(r"^```.*?^```$", "", PAGE, flags=re.M | re.S)))
    roots = (ROOT, PACKAGES["cotenant"])
    missing = {
        path for path in named if not path.startswith("../") and not any((root / path).exists() for root in roots)
    }
    assert len(named) > 60
    assert not missing - written


@pytest.mark.slow
@pytest.mark.parametrize("recipe", CHECKS)
def test_a_recipe_followed_to_the_letter_works(recipe: str, tree: Path, tmp_path: Path) -> None:
    done = check(tree, CHECKS[recipe], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "left_out", "name", "said"),
    [
        ("A score", "elif score == _MEMORY_LEFT:", "compiled_score", "ValueError: unknown score code"),
        ("A score", "Score.MEMORY_LEFT: memory_left,", "plain_score", "KeyError: <Score.MEMORY_LEFT: 11>"),
        ("A filter", "Reject.BATCH_SHARE: Filter(", "filter_", "KeyError: <Reject.BATCH_SHARE: 9>"),
        ("A metric of the lab", '"wait_longest_s",', "metric", "assert [each.name for each in METRICS] =="),
        ("A trace format", "nightly.FORMAT,", "trace", "FORMAT: nightly: expected one of"),
    ],
)
def test_a_step_left_out_fails_loudly(recipe: str, left_out: str, name: str, said: str, tmp_path: Path) -> None:
    blocks = RECIPES[recipe]
    assert sum(left_out in block.text for block in blocks if block.is_diff) == 1
    partial = tuple(block.without(left_out) if block.is_diff and left_out in block.text else block for block in blocks)
    done = check(copied(tmp_path / "tree", {recipe: partial}), name, tmp_path)
    assert done.returncode != 0
    assert said in done.stderr


def test_a_change_that_no_longer_fits_the_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("A = 1\nB = 2\nA = 1\n")
    for text in (" C = 3\n+D = 4\n", " A = 1\n+D = 4\n", "+D = 4\n", "D = 4\n"):
        with pytest.raises(Stale):
            Block("m.py", text, is_diff=True).apply(tmp_path)
    with pytest.raises(Stale, match="exists already"):
        Block("m.py", "", is_diff=False).apply(tmp_path)
    Block("m.py", " A = 1\n-B = 2\n+B = 3\n+C = 4\n", is_diff=True).apply(tmp_path)
    assert (tmp_path / "m.py").read_text() == "A = 1\nB = 3\nC = 4\nA = 1\n"
