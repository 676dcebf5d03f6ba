"""The image's lock has what the package requires, with hashes, and the Containerfile runs commands that exist."""

from __future__ import annotations

import re
import tomllib

import pytest
from tests.unit.deploy.objects import DEPLOY

from cotenant.cli.main import app

LOCK = (DEPLOY / "images/lock.txt").read_text()
FILE = (DEPLOY / "images/Containerfile").read_text()
PROJECT = tomllib.loads((DEPLOY.parent / "packages/cotenant/pyproject.toml").read_text())["project"]
EXTRAS = ("cluster", "node", "traces", "credit")


def name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_the_lock_has_every_requirement(extra: str) -> None:
    locked = {name(line) for line in LOCK.splitlines() if re.match(r"[a-z]", line)}
    wanted = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    assert {name(entry) for entry in wanted if not entry.startswith("cotenant")} <= locked


def test_everything_is_pinned_with_hashes() -> None:
    entries = re.split(r"\n(?=[a-z])", LOCK.strip())
    assert all(re.match(r"[a-z0-9._-]+(\[[a-z]+\])?==\S+ .*\\\n    --hash=sha256:", entry) for entry in entries)
    assert FILE.count("--require-hashes") == 2


def test_the_kernels_are_compiled_where_the_processes_look_for_them() -> None:
    (compiled,) = re.findall(r"^RUN COTENANT_CACHE=(\S+) cotenant (\w+)$", FILE, re.MULTILINE)
    _, _, unused, *_ = app.parse_known_args([compiled[1]])
    assert not unused
    assert f"COTENANT_KERNELS={compiled[0]} " in FILE
