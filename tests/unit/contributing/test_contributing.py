"""CONTRIBUTING.md and docs/recipes against the tree: every path that they name exists, and every recipe, followed
to the letter, works.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fakes.waiting import patience
from tests.unit.contributing.recipes import Block, Stale, blocks
from tools.tree import PACKAGES, python_path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "recipes"
# The recipes in the order in which they are applied, and the check in working.py of what each adds.
CHECKS = {
    "score": "score",
    "profile": "profile",
    "profile-knob": "profile_knob",
    "filter": "filter_",
    "kind": "kind",
    "collector": "collector",
    "node-policy": "node_policy",
    "knob": "knob",
    "command": "command",
    "metric": "metric",
    "trace": "trace",
    "workload": "workload",
    "lab-policy": "lab_policy",
    "console-view": "console_view",
}
RECIPES = {name: blocks((FOLDER / f"{name}.md").read_text()) for name in CHECKS}
OTHERS = {"README", "plugin", "program"}  # the list, and recipes with a test of their own
PAGES = [ROOT / "CONTRIBUTING.md", *sorted(FOLDER.glob("*.md"))]


def copied(folder: Path) -> Path:
    """A copy of the sources; compiled bytecode stays valid with the times of its files."""
    left_out = shutil.ignore_patterns("*.egg-info", "node_modules")
    for package in PACKAGES.values():
        shutil.copytree(package, folder / package.relative_to(ROOT), ignore=left_out)
    shutil.copytree(ROOT / "console", folder / "console", ignore=left_out)
    return folder


@contextmanager
def applied(blocks: Iterable[Block], tree: Path) -> Iterator[None]:
    """These blocks in a tree, which is afterwards as it was."""
    files = [tree / path for path in {block.path: None for block in blocks}]
    before = {file: file.read_bytes() if file.exists() else None for file in files}
    try:
        for block in blocks:
            block.apply(tree)
        yield
    finally:
        for file, content in before.items():
            if content is not None:
                file.write_bytes(content)
            else:
                file.unlink(missing_ok=True)


def check(tree: Path, name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one check of working.py on a tree, with a cache of compiled code of the tree's own."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(
            (python_path(tree), str(ROOT), *(str(ROOT / "packages" / name) for name in ("cotenant", "cotenant-lab")))
        ),
        "COTENANT_CACHE": str(tree / "cache"),
        "COLUMNS": "300",
    }
    words = [sys.executable, "-m", "tests.unit.contributing.working", name, str(folder)]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=patience(300))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources to which all recipes were applied, in the order of the page."""
    whole = copied(tmp_path_factory.mktemp("all"))
    for recipe in RECIPES.values():
        for block in recipe:
            block.apply(whole)
    return whole


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources as they are."""
    return copied(tmp_path_factory.mktemp("plain"))


def test_every_recipe_is_checked_and_listed() -> None:
    found = {path.stem for path in FOLDER.glob("*.md")}
    assert found - OTHERS == set(CHECKS)
    listed = set(re.findall(r"\((\w[\w-]*)\.md\)", (FOLDER / "README.md").read_text()))
    assert found - OTHERS <= listed


@pytest.mark.parametrize("recipe", CHECKS)
def test_every_fenced_block_of_a_recipe_names_its_file(recipe: str) -> None:
    text = (FOLDER / f"{recipe}.md").read_text()
    assert len(re.findall(r"^```\w", text, re.MULTILINE)) == len(RECIPES[recipe]) > 0
    assert len(text.encode()) < 3600, "a recipe is a page"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    written = {block.path for recipe in RECIPES.values() for block in recipe}
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    named = set(re.findall(r"(?<=[`(])[\w./-]+/[\w.-]*(?=[`)#])", text))
    roots = (
        ROOT,
        PACKAGES["cotenant"],
        *(package.parent for package in PACKAGES.values()),
        page.parent,
        PACKAGES["cotenant_local"] / "controllers",
    )
    missing = {path for path in named if not any((root / path).exists() for root in roots)}
    assert not missing - written - {"../shared/traces", "../shared/conformance"}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", CHECKS)
def test_a_recipe_followed_to_the_letter_works(recipe: str, tree: Path, tmp_path: Path) -> None:
    done = check(tree, CHECKS[recipe], tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "left_out", "name", "said"),
    [
        ("score", "elif score == _MEMORY_LEFT:", "compiled_score", "ValueError: unknown score code"),
        ("score", "Score.MEMORY_LEFT: memory_left,", "plain_score", "KeyError: <Score.MEMORY_LEFT: 12>"),
        ("filter", "Reject.BATCH_SHARE: Filter(", "filter_", "KeyError: <Reject.BATCH_SHARE: 9>"),
        ("metric", '"wait_longest_s",', "metric", "assert [entry.name for entry in METRICS] =="),
        ("trace", "nightly.FORMAT,", "trace", "FORMAT: nightly: expected one of"),
        ("knob", "Knob.SWAP_MAX: _bytes_of", "knob", "KeyError: <Knob.SWAP_MAX"),
        ("command", 'cpus="cluster.cpus:cpus"', "command", "cpus"),
        ("console-view", '"origin.away":', "console_view", 'assert "origin" in texts'),
    ],
)
def test_a_step_left_out_fails_loudly(
    recipe: str, left_out: str, name: str, said: str, plain: Path, tmp_path: Path
) -> None:
    whole = RECIPES[recipe]
    assert sum(left_out in block.text for block in whole if block.is_diff) == 1
    partial = tuple(block.without(left_out) if block.is_diff and left_out in block.text else block for block in whole)
    with applied(partial, plain):
        done = check(plain, name, tmp_path)
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
