"""`cotenant profile run` on real cgroups: it measures, and leaves no process, group or file, also after kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fakes.node.one_experiment import alone
from tests.fakes.waiting import eventually, patience
from tests.node.burning import burning

from cotenant.cli.ask.profile_running import RunRequest, run
from cotenant.drivers.cgroup.experiments import PREFIX, missing_requirement
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups

__all__ = ["alone"]
pytestmark = pytest.mark.slow
WITHIN_S = 60.0


@pytest.fixture(autouse=True)
def possible(layout: CgroupLayout) -> None:
    if reason := missing_requirement(layout):
        pytest.skip(str(reason))


def command(group: str, *more: str) -> list[str]:
    return [sys.executable, "-m", "cotenant", "profile", "run", "shop/cart", "--group", group, *more]


def until(what: str, is_so: Callable[[], bool]) -> None:
    eventually(what, is_so, WITHIN_S)


def runs(pid: int) -> bool:
    """Whether a process exists and is not a zombie, whose new parent may be slow to reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def left_by(pid: int, layout: CgroupLayout, folder: str) -> list[str]:
    """Groups and folders of the run with this process id."""
    groups = [str(path) for tree in layout.hierarchies for path in Path(tree.path).glob(f"{PREFIX}{pid}")]
    return groups + [str(path) for path in Path(folder).glob("cotenant-profile-*")]


def test_a_run_measures_and_a_killed_one_leaves_nothing(groups: Groups, group: str, layout: CgroupLayout) -> None:
    with tempfile.TemporaryDirectory() as folder, burning(groups, group):
        environment = {**os.environ, "TMPDIR": folder}
        small = ("--axes", "runQueue", "--levels", "1", "--windows", "3", "--abort-ratio", "900", "--json")
        done = subprocess.run(command(group, *small), env=environment, capture_output=True, timeout=patience(300))
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        reading = {entry["name"]: entry["sensitivity"] for entry in found["axes"]}
        assert reading["runQueue"]["samples"] == 6
        assert reading["runQueue"]["source"] == "measured"
        assert "cannotTell" in reading["cpu"]
        assert list(Path(folder).iterdir()) == []

        killed = subprocess.Popen(
            command(group, "--axes", "memory", "--windows", "4", "--abort-ratio", "900"), env=environment
        )
        load = f"{PREFIX}{killed.pid}/load"
        try:
            until("a load", lambda: groups.exists(load) and len(groups.pids(load)) > 1)
            inside = groups.pids(load)
        finally:
            killed.send_signal(signal.SIGKILL)
            killed.wait()
        until("everything is removed", lambda: not left_by(killed.pid, layout, folder))
        until("every load has ended", lambda: not any(map(runs, inside)))


def test_without_root_it_says_so_in_one_line(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.seteuid(65534)
    try:
        assert run(RunRequest("shop/cart", group=group), False) == 2
    finally:
        os.seteuid(0)
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "needs root" in err
