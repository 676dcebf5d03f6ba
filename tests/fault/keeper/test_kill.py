"""kill -9 of a real process at every single step of a keeper's work: afterwards every file is restored byte for byte.

Over folders that accept writes as kernels do; tests/node/test_keeper_kill.py does the same on real cgroups.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import CgroupTrees, KernelTree
from tests.fakes.node.dying_keeper import NEVER, KeeperAtWork, all_lease_states, one_batch_held

from cotenant.drivers.leasefile.audit import changes
from cotenant.model.machine.knob import LeaseState

OVER = {LeaseState.RESTORED, LeaseState.GONE}


@pytest.fixture(params=("v1", "v2"))
def trees(request: pytest.FixtureRequest, tmp_path: Path) -> CgroupTrees:
    trees = CgroupTrees(tmp_path / "tree", request.param)
    for group in ("be/a/x", "be/b"):
        trees.add(group)
    texts = (
        {"cpu.cfs_quota_us": "80000\n", "cpu.cfs_burst_us": "20000\n", "cpu.shares": "513\n"}
        if request.param == "v1"
        else {"cpu.max": "80000 100000\n", "cpu.max.burst": "20000\n", "cpu.weight": "77\n"}
    )
    for name, text in texts.items():
        trees.say("be/b" if "shares" in name or "weight" in name else "be/a", name, text)
    return trees


def all_files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def at_work(trees: CgroupTrees, folder: Path) -> KeeperAtWork:
    return KeeperAtWork(trees.layout, KernelTree, folder, "be")


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before a step", "after a step"])
def test_killed_at_any_step_everything_is_restored_byte_for_byte(trees: CgroupTrees, state: Path, after: bool) -> None:
    before = all_files(trees.root)
    changed = died = 0
    while True:
        folder = state / f"{died}"
        keeper = at_work(trees, folder)
        if not keeper.dies(all_lease_states("be"), died, after=after):
            break
        changed += all_files(trees.root) != before
        answers = keeper.restore_all()
        assert all_files(trees.root) == before, (
            f"killed at step {died}: {[change.detail for change in changes(folder)]}"
        )
        assert {answer.state for answer in answers} <= OVER
        died += 1
    assert died > (20 if after else 60)  # reads leave nothing half done
    assert changed > died / 3  # steps between a write and its restore
    keeper.restore_all()
    assert all_files(trees.root) == before


@pytest.mark.slow
def test_killed_while_restoring_the_next_keeper_continues(trees: CgroupTrees, state: Path) -> None:
    before = all_files(trees.root)
    died = 0
    while True:
        keeper = at_work(trees, state / f"{died}")
        keeper.dies(one_batch_held("be"), NEVER, after=False)
        assert all_files(trees.root) != before
        if not keeper.dies(lambda executor, now_us: None, died, after=False):
            break
        keeper.restore_all()
        assert all_files(trees.root) == before, f"killed at step {died} while restoring"
        died += 1
    assert died > 25
    assert all_files(trees.root) == before


@pytest.mark.slow
@pytest.mark.parametrize("again", [False, True], ids=["vanished", "recreated"])
def test_groups_that_vanish_while_no_keeper_runs_are_not_written(trees: CgroupTrees, state: Path, again: bool) -> None:
    for step in range(0, 90, 7):
        keeper = at_work(trees, state / f"{step}")
        keeper.dies(all_lease_states("be"), step, after=True)
        old = [os.open(path, os.O_RDONLY) for path in trees.root.glob("**/be/a/**/") if path.is_dir()]
        trees.remove("be/a")
        if again:
            trees.add("be/a/x")
        for folder in old:  # open until now: cgroups never reuse an inode number, this file system does
            os.close(folder)
        fresh = {name: text for name, text in all_files(trees.root).items() if "/be/a" in f"/{name}"}
        for answer in keeper.restore_all():
            assert answer.state in OVER, (step, answer)
        assert {name: text for name, text in all_files(trees.root).items() if "/be/a" in f"/{name}"} == fresh
        trees.remove("be/a")
        trees.add("be/a/x")
