"""What a dead keeper left in its folder: read by anybody, restored by hand, and by the keeper that comes next."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.fakes.node.cgroup_trees import CgroupTrees
from tests.fakes.node.kept_knobs import KeptKnobs

from cotenant.drivers.leasefile import file as leasefile
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import FoundLeases, LeaseFile
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs import host
from cotenant.services.knobs.executor import LeaseExecutor
from cotenant.services.knobs.host import (
    CLOCK,
    HostKnobs,
    boot_id,
    groups_of,
    idle_slices,
    machine_knobs,
    put_back,
    put_back_left,
    read_left,
)
from cotenant.services.knobs.rules import KnobRules

WISH = SetKnob(KnobTarget("be/a", Knob.CPU_MAX), "50000 100000", Reason("test", "because"))


@pytest.fixture
def knobs(monkeypatch: pytest.MonkeyPatch) -> KeptKnobs:
    knobs = KeptKnobs(["be/a"])

    @contextmanager
    def opened(cgroups: Path | None) -> Iterator[HostKnobs]:
        yield HostKnobs({KnobScope.CGROUP: knobs})

    monkeypatch.setattr(host, "machine_knobs", opened)
    return knobs


def leave(folder: Path, knobs: KeptKnobs, boot: str) -> None:
    """Hold a lease and die."""
    file = LeaseFile(folder, boot)
    LeaseExecutor({KnobScope.CGROUP: knobs}, file, AuditTrail(folder), CLOCK, KnobRules(("be",))).hold([WISH])
    file.close()


def test_leases_are_read_without_taking_them_over(knobs: KeptKnobs, tmp_path: Path) -> None:
    leave(tmp_path, knobs, boot_id())
    left = read_left(tmp_path)
    assert [lease.target for lease in left.leases] == [WISH.target]
    assert (left.earlier_boot, left.keeper, left.faults, left.aside) == (0, None, (), ())
    assert knobs.snapshot() == {WISH.target: WISH.value}
    with closing(LeaseFile(tmp_path, boot_id())):
        assert read_left(tmp_path).keeper == os.getpid()


def test_leases_of_an_earlier_boot_are_counted_and_not_more(knobs: KeptKnobs, tmp_path: Path) -> None:
    leave(tmp_path, knobs, "another boot")
    left = read_left(tmp_path)
    assert (left.leases, left.earlier_boot) == ((), 1)


def test_what_was_left_is_restored_by_hand_unless_a_keeper_lives(knobs: KeptKnobs, tmp_path: Path) -> None:
    leave(tmp_path, knobs, boot_id())
    held = LeaseFile(tmp_path, boot_id())
    with pytest.raises(Permanent):
        put_back(tmp_path, None)
    held.close()
    assert knobs.snapshot() == {WISH.target: WISH.value}
    done = put_back(tmp_path, None)
    assert knobs.snapshot() == {}
    assert ([answer.target for answer in done.answers], done.faults, done.aside) == ([WISH.target], (), None)
    assert read_left(tmp_path).keeper is None  # the folder is free again
    assert put_back(tmp_path, None).answers == ()


def test_a_folder_without_a_state_file_is_not_touched(knobs: KeptKnobs, tmp_path: Path) -> None:
    assert put_back(tmp_path, None) == host.PutBack((), (), None)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / leasefile.NAME).touch()
    assert put_back(tmp_path, None).answers == ()


class Keeper:
    """Restores what it is given, as far as it can."""

    def __init__(self, state: LeaseState) -> None:
        self.state, self.is_stopped = state, False

    async def start(self, leases: Any) -> list[LeaseAnswer]:
        return [LeaseAnswer(WISH.target, self.state, "as it was") for _ in leases]

    async def stop(self) -> None:
        self.is_stopped = True


def test_a_new_keeper_says_what_it_found_and_does_not_start_over_faults(caplog: pytest.LogCaptureFixture) -> None:
    lease = cast(Any, object())
    fault = InvalidInput("line 2", "x", "a lease")
    found = SimpleNamespace(leases=(lease,), earlier_boot=2, faults=(), aside=None)
    for state, level in ((LeaseState.RESTORING, logging.ERROR), (LeaseState.GONE, logging.INFO)):
        caplog.clear()
        keeper = Keeper(state)
        with caplog.at_level(logging.INFO):
            asyncio.run(put_back_left(cast(Any, keeper), cast(FoundLeases, found)))
        assert [record.levelno for record in caplog.records] == [logging.INFO, level]
        assert "2 leases of an earlier boot" in caplog.text
        assert not keeper.is_stopped
    caplog.clear()
    found.earlier_boot, found.faults, found.aside = 0, (fault, fault), Path("/aside")
    keeper = Keeper(LeaseState.GONE)
    with caplog.at_level(logging.INFO), pytest.raises(InvalidInput, match="2 such lines; the file is kept as /aside"):
        asyncio.run(put_back_left(cast(Any, keeper), cast(FoundLeases, found)))
    assert keeper.is_stopped
    assert "earlier boot" not in caplog.text


def test_the_machine_has_every_scope_and_its_watch(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path / "cgroup", "v1")
    with machine_knobs(trees.root) as machine:
        assert set(machine.ports) == set(KnobScope)
        assert machine.watch is not None
        assert machine.facts().cgroup_version == 1


def test_without_inotify_what_others_write_is_looked_for_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none(layout: Any) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(host, "KnobWatch", none)
    with machine_knobs(CgroupTrees(tmp_path / "cgroup", "v1").root) as machine:
        assert machine.watch is None
    assert "inotify: Too many open files" in caplog.text


def test_slices_of_idle_tasks_are_given_where_they_are_asked_for_and_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = CgroupTrees(tmp_path / "cgroup", "v1").root
    made: list[Any] = []

    class Slices:
        def __init__(self, layout: Any, slice_us: int) -> None:
            self.slice_us, self.gap, self.is_closed = slice_us, gap, False
            made.append(self)

        def close(self) -> None:
            self.is_closed = True

    monkeypatch.setattr(host, "TaskSlices", Slices)
    gap: Any = None
    with idle_slices(root, 0) as none:
        assert none is None
    assert made == []
    with idle_slices(root, 3) as given:
        assert given is made[0]
        assert (made[0].slice_us, made[0].is_closed) == (3000, False)
    assert made[0].is_closed
    gap = SimpleNamespace(what="slices", needs="a newer kernel")
    with idle_slices(root, 3) as lacking:
        assert lacking is None
    assert made[1].is_closed


def test_a_process_that_is_gone_is_in_no_group() -> None:
    assert groups_of(2**22 + 1) == ()


def test_a_kernel_without_boots_has_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host, "BOOT_ID", tmp_path / "gone")
    assert boot_id() == ""
    (tmp_path / "id").write_text("abc\n")
    monkeypatch.setattr(host, "BOOT_ID", tmp_path / "id")
    assert boot_id() == "abc"
