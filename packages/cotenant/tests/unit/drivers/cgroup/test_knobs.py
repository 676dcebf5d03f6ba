import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import DEVICE, KINDS, CgroupTrees, KernelTree
from tests.fakes.node.knob_contract import KnobContract

from cotenant.drivers.cgroup.files import CgroupTree
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import Hierarchy, arrange
from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished

POD = "kubepods/besteffort/pod1"


class TestKnobsOfPlainFolders(KnobContract):
    @pytest.fixture(params=KINDS)
    def trees(self, request: pytest.FixtureRequest, tmp_path: Path) -> CgroupTrees:
        trees = CgroupTrees(tmp_path, request.param)
        trees.add(POD)
        return trees

    @pytest.fixture
    def knobs(self, trees: CgroupTrees) -> Iterator[CgroupKnobs]:
        with CgroupKnobs(trees.layout, KernelTree) as knobs:
            yield knobs

    @pytest.fixture
    def group(self) -> str:
        return POD

    @pytest.fixture
    def device(self) -> str:
        return DEVICE

    @pytest.fixture
    def vanish(self, trees: CgroupTrees) -> Callable[[], None]:
        return lambda: trees.remove("kubepods")


@pytest.fixture(params=("v1", "v2"))
def trees(request: pytest.FixtureRequest, tmp_path: Path) -> CgroupTrees:
    trees = CgroupTrees(tmp_path, request.param)
    trees.add(POD)
    return trees


@pytest.fixture
def v1(tmp_path: Path) -> CgroupTrees:
    trees = CgroupTrees(tmp_path, "v1")
    trees.add(POD)
    return trees


@pytest.fixture
def v2(tmp_path: Path) -> CgroupTrees:
    trees = CgroupTrees(tmp_path, "v2")
    trees.add(POD)
    return trees


def test_what_the_group_above_froze_is_not_the_groups_own(v1: CgroupTrees) -> None:
    """On v1 freezer.state shows both; written back as read, the group would stay frozen when the other thaws."""
    above = POD.rpartition("/")[0]
    with CgroupKnobs(v1.layout, KernelTree) as knobs:
        frozen = KnobTarget(POD, Knob.CGROUP_FREEZE)
        knobs.write(KnobTarget(above, Knob.CGROUP_FREEZE), "1")
        assert v1.path(POD, "freezer.state").read_text() == "FROZEN\n"
        raw = knobs.raw(frozen)
        assert knobs.read(frozen) == "0"
        knobs.write(frozen, "1")
        knobs.restore(frozen, raw)
        knobs.write(KnobTarget(above, Knob.CGROUP_FREEZE), "0")
        assert v1.path(POD, "freezer.state").read_text() == "THAWED\n"


def failing(code: int, file: str, times: int = 1) -> type[KernelTree]:
    """A tree whose writes to a file end so."""
    left = [times]

    class Failing(KernelTree):
        def write(self, group: str, name: str, text: str) -> None:
            if name == file and left[0]:
                left[0] -= 1
                raise OSError(code, os.strerror(code))
            super().write(group, name, text)

    return Failing


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.EBUSY, Transient),
        (errno.EINTR, Transient),
        (errno.ENOMEM, Transient),
        (errno.EPERM, Permanent),
        (errno.EROFS, Permanent),
        (errno.EINVAL, InvalidInput),
        (errno.ERANGE, InvalidInput),
        (errno.EACCES, InvalidInput),
        (errno.EIO, Permanent),
    ],
)
def test_errors_of_a_write_are_mapped(v2: CgroupTrees, code: int, kind: type[Exception]) -> None:
    knobs = CgroupKnobs(v2.layout, failing(code, "memory.high"))
    with pytest.raises(kind, match=r"/kubepods/besteffort/pod1:memory\.high"):
        knobs.write(KnobTarget(POD, Knob.MEMORY_HIGH), "4096")
    knobs.write(KnobTarget(POD, Knob.MEMORY_HIGH), "4096")


def test_a_file_that_may_not_be_opened_is_permanent(v2: CgroupTrees, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(CgroupTree):
        def open(self, group: str, name: str, flags: int = os.O_RDONLY) -> int:
            if flags & os.O_WRONLY:
                raise PermissionError(errno.EACCES, "Permission denied", name)
            return super().open(group, name, flags)

    with pytest.raises(Permanent, match="may not be written"):
        CgroupKnobs(v2.layout, Closed).write(KnobTarget(POD, Knob.MEMORY_HIGH), "4096")


def test_a_restore_that_is_refused_may_be_tried_again(v2: CgroupTrees) -> None:
    """What stood before was a value: something that stands now is in the way."""
    knobs, target = CgroupKnobs(v2.layout, failing(errno.EINVAL, "cpu.max")), KnobTarget(POD, Knob.CPU_MAX)
    raw = knobs.raw(target)
    with pytest.raises(Transient):
        knobs.restore(target, raw)
    knobs.restore(target, raw)


@pytest.mark.parametrize("knob", [Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH, Knob.MEMORY_RECLAIM])
def test_v1_protects_no_memory(v1: CgroupTrees, knob: Knob) -> None:
    gap = CgroupKnobs(v1.layout).supported(knob)
    assert gap is not None
    assert "cgroup v2" in gap.needs


def test_an_old_kernel_lacks_what_is_newer(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v1")
    for name in ("cpu.idle", "cpu.cfs_burst_us"):
        del trees.files["cpu"][name]
    try:
        trees.add("pod")
        knobs = CgroupKnobs(trees.layout)
        for knob, since in ((Knob.CPU_IDLE, r"Linux 5\.15"), (Knob.CPU_BURST, r"Linux 5\.14")):
            gap = knobs.supported(knob)
            assert gap is not None
            with pytest.raises(Unsupported, match=since):
                knobs.write(KnobTarget("pod", knob), "0")
    finally:
        trees.files["cpu"].update({"cpu.idle": "0\n", "cpu.cfs_burst_us": "0\n"})


def test_without_any_group_no_knob_is_reported_missing(tmp_path: Path) -> None:
    trees = CgroupTrees(tmp_path, "v2")
    knobs = CgroupKnobs(trees.layout)
    assert knobs.supported(Knob.IO_MAX) is None
    trees.add("pod")
    (tmp_path / "pod/io.max").unlink()
    gap = knobs.supported(Knob.IO_MAX)
    assert gap is not None
    assert "CONFIG_BLK_DEV_THROTTLING" in gap.needs


def test_a_controller_that_is_not_delegated_is_named(v2: CgroupTrees) -> None:
    for name in ("cpu.max", "cpu.weight"):
        v2.path(POD, name).unlink()
    with pytest.raises(Unsupported, match=r"cpu in cgroup\.subtree_control"):
        CgroupKnobs(v2.layout).read(KnobTarget(POD, Knob.CPU_MAX))


def test_the_root_of_v2_has_no_limits(v2: CgroupTrees) -> None:
    (v2.root / "cpu.max").unlink()
    with pytest.raises(Unsupported, match="a group below the root"):
        CgroupKnobs(v2.layout).read(KnobTarget("", Knob.CPU_MAX))


def test_a_machine_without_a_controller(tmp_path: Path) -> None:
    knobs = CgroupKnobs(arrange((Hierarchy(str(tmp_path), 2, frozenset({"cpu"})),)))
    gap = knobs.supported(Knob.MEMORY_HIGH)
    assert gap is not None
    assert gap.needs == "the memory controller"


def test_v1_says_why_a_childs_quota_is_refused(v1: CgroupTrees) -> None:
    knobs, parent = CgroupKnobs(v1.layout, KernelTree), KnobTarget("kubepods/besteffort", Knob.CPU_MAX)
    child = KnobTarget(POD, Knob.CPU_MAX)
    knobs.write(parent, "50000 100000")
    with pytest.raises(InvalidInput, match="not above the parent's, 50000 of 100000 us"):
        knobs.write(child, "60000 100000")
    knobs.write(child, "40000 100000")
    with pytest.raises(InvalidInput, match="no group may have more than its parent"):
        knobs.write(parent, "30000 100000")


def test_a_refused_period_leaves_v1s_two_files_as_they_were(v1: CgroupTrees) -> None:
    knobs, child = CgroupKnobs(v1.layout, KernelTree), KnobTarget(POD, Knob.CPU_MAX)
    knobs.write(KnobTarget("kubepods/besteffort", Knob.CPU_MAX), "50000 100000")
    knobs.write(child, "20000 100000")
    with pytest.raises(InvalidInput):
        knobs.write(child, "40000 50000")
    assert knobs.read(child) == "20000 100000"


def test_an_empty_v1_cpuset_means_the_parents(v1: CgroupTrees) -> None:
    knobs, target = CgroupKnobs(v1.layout, KernelTree), KnobTarget("kubepods", Knob.CPUSET_CPUS)
    v1.say("kubepods", "cpuset.cpus", "\n")
    raw = knobs.raw(target)
    knobs.write(target, "")
    assert knobs.read(target) == "0-1"
    knobs.restore(target, raw)
    assert knobs.read(target) == ""


def test_tasks_that_came_into_a_v1_cpuset_keep_their_cpus_when_it_was_empty_before(v1: CgroupTrees) -> None:
    knobs, target = CgroupKnobs(v1.layout, KernelTree), KnobTarget("kubepods", Knob.CPUSET_CPUS)
    v1.say("kubepods", "cpuset.cpus", "\n")
    raw = knobs.raw(target)
    knobs.write(target, "1")
    (v1.root / "cpuset/kubepods/cgroup.procs").write_text("77\n")
    knobs.restore(target, raw)
    assert knobs.read(target) == "0-1"


def test_tasks_in_a_v2_cpuset_get_every_cpu_when_it_was_empty_before(v2: CgroupTrees) -> None:
    """Linux 6.1 refuses "" while tasks are in it, though it is what the group was made with."""
    (v2.root / "possible").write_text("0-7\n")
    knobs, target = CgroupKnobs(v2.layout, KernelTree, str(v2.root / "possible")), KnobTarget(POD, Knob.CPUSET_CPUS)
    raw = knobs.raw(target)
    for undo in (lambda: knobs.restore(target, raw), lambda: knobs.write(target, "")):
        v2.say(POD, "cgroup.procs", "")
        knobs.write(target, "1")
        undo()
        assert knobs.read(target) == ""
        knobs.write(target, "1")
        v2.say(POD, "cgroup.procs", "77\n")
        undo()
        assert knobs.read(target) == "0-7"
    (v2.root / "cpuset.cpus.effective").write_text("0-3\n")
    knobs = CgroupKnobs(v2.layout, KernelTree, str(v2.root / "absent"))
    knobs.write(target, "1")
    knobs.restore(target, raw)
    assert knobs.read(target) == "0-3"


def test_a_v1_cpuset_beyond_its_parents_is_refused_with_the_reason(v1: CgroupTrees) -> None:
    with pytest.raises(InvalidInput, match="widen the parent first"):
        CgroupKnobs(v1.layout, KernelTree).write(KnobTarget("kubepods", Knob.CPUSET_CPUS), "0-7")


def test_limits_of_a_device_that_is_not_there(trees: CgroupTrees) -> None:
    knobs, target = CgroupKnobs(trees.layout, KernelTree), KnobTarget(POD, Knob.IO_MAX)
    with pytest.raises(InvalidInput, match="of this machine"):
        knobs.write(target, "9:9 rbps=4096")
    assert knobs.read(target) == ""


def test_a_refused_device_leaves_the_others_unchanged(trees: CgroupTrees) -> None:
    knobs, target = CgroupKnobs(trees.layout, KernelTree), KnobTarget(POD, Knob.IO_MAX)
    knobs.write(target, f"{DEVICE} rbps=8192")
    before = knobs.raw(target)
    with pytest.raises(InvalidInput):
        knobs.write(target, f"{DEVICE} wbps=4096\n300:0 rbps=4096")
    assert knobs.raw(target) == before


def test_restoring_limits_clears_new_ones_and_restores_old_ones(trees: CgroupTrees) -> None:
    knobs, target = CgroupKnobs(trees.layout, KernelTree), KnobTarget(POD, Knob.IO_MAX)
    nothing = knobs.raw(target)
    knobs.write(target, f"{DEVICE} rbps=8192 wiops=5")
    some = knobs.raw(target)
    knobs.write(target, f"{DEVICE} wbps=4096")
    knobs.restore(target, some)
    assert knobs.read(target) == f"{DEVICE} rbps=8192 wbps=max riops=max wiops=5"
    knobs.restore(target, nothing)
    assert knobs.raw(target) == nothing


def test_v1_weights_without_a_v2_form_are_restored_exactly(v1: CgroupTrees) -> None:
    knobs, target = CgroupKnobs(v1.layout, KernelTree), KnobTarget(POD, Knob.CPU_WEIGHT)
    for shares in ("2", "3", "1023", "261999"):
        v1.say(POD, "cpu.shares", f"{shares}\n")
        raw = knobs.raw(target)
        knobs.write(target, "500")
        knobs.restore(target, raw)
        assert v1.path(POD, "cpu.shares").read_text() == f"{shares}\n"


def test_idle_restores_shares_without_a_v2_form(v1: CgroupTrees) -> None:
    knobs, idle = CgroupKnobs(v1.layout, KernelTree), KnobTarget(POD, Knob.CPU_IDLE)
    v1.say(POD, "cpu.shares", "2\n")
    raw = knobs.raw(idle)
    knobs.write(idle, "1")
    knobs.restore(idle, raw)
    assert v1.path(POD, "cpu.shares").read_text() == "2\n"


def test_a_state_file_cannot_cause_writes_to_other_files(trees: CgroupTrees) -> None:
    knobs, target = CgroupKnobs(trees.layout, KernelTree), KnobTarget(POD, Knob.CPU_IDLE)
    for wrong in (
        {"cpu.idle": "1", "cgroup.kill": "1"},
        {"cpu.idle": 1},
        {"cpu.idle": "1", "../cpu.idle": "1"},
        ["cpu.idle"],
        {"cpu.idle": "1" * 70_000},
    ):
        with pytest.raises(InvalidInput, match="raw value"):
            knobs.restore(target, json.dumps(wrong))
    assert knobs.read(target) == "0"


@pytest.mark.parametrize(
    ("file", "text"),
    [("cpu.max", "fast\n"), ("cpu.max", ""), ("memory.max", "a lot\n"), ("cpuset.cpus", "0-\n"), ("io.weight", "\n")],
)
def test_garbage_in_a_file_is_reported(v2: CgroupTrees, file: str, text: str) -> None:
    v2.say(POD, file, text)
    with pytest.raises(Permanent, match="cannot be read"):
        CgroupKnobs(v2.layout).read(KnobTarget(POD, Knob(file)))


@pytest.mark.parametrize("file", ["cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes", "blkio.bfq.weight"])
def test_garbage_in_v1s_files_is_reported(v1: CgroupTrees, file: str) -> None:
    knob = {"cpu.shares": "cpu.weight", "cpu.cfs_quota_us": "cpu.max", "blkio.bfq.weight": "io.weight"}.get(
        file, "memory.max"
    )
    v1.say(POD, file, "\x00\xff?\n")
    with pytest.raises(Permanent, match="cannot be read"):
        CgroupKnobs(v1.layout).read(KnobTarget(POD, Knob(knob)))


@pytest.mark.parametrize("name", ["a b", "a\nb", "é/ü", "%s%n", "..x", "x..", "-rf", "a:b", "🐄", "'\"\\", " "])
def test_a_hostile_name_is_only_a_name(trees: CgroupTrees, name: str) -> None:
    trees.add(name)
    knobs, target = CgroupKnobs(trees.layout, KernelTree), KnobTarget(name, Knob.CPU_MAX)
    raw = knobs.raw(target)
    knobs.write(target, "20000 100000")
    assert knobs.read(target) == "20000 100000"
    assert knobs.read(KnobTarget(POD, Knob.CPU_MAX)) == "max 100000"
    knobs.restore(target, raw)


def test_a_link_in_place_of_a_group_is_not_followed(
    trees: CgroupTrees, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    for name in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"):
        (outside / name).write_text("50000\n")
    where = trees.path(POD, "cpu.max" if trees.kind == "v2" else "cpu.cfs_quota_us").parent
    os.symlink(outside, where / "link")
    knobs = CgroupKnobs(trees.layout, KernelTree)
    for group in (f"{POD}/link", f"{POD}/link/deeper"):
        with pytest.raises(Vanished):
            knobs.write(KnobTarget(group, Knob.CPU_MAX), "20000 100000")
    # nor does a link in place of a file
    file = trees.path(POD, "memory.max" if trees.kind == "v2" else "memory.limit_in_bytes")
    file.unlink()
    os.symlink(outside / "cpu.max", file)
    with pytest.raises(Permanent):
        knobs.write(KnobTarget(POD, Knob.MEMORY_MAX), "8192")
    assert (outside / "cpu.max").read_text() == "50000\n"


def test_a_file_in_place_of_a_group_is_not_a_group(trees: CgroupTrees) -> None:
    with pytest.raises(Vanished):
        CgroupKnobs(trees.layout).read(KnobTarget(f"{POD}/cgroup.procs", Knob.CPU_MAX))


def test_reclaiming_less_than_requested_is_not_an_error(v2: CgroupTrees) -> None:
    knobs = CgroupKnobs(v2.layout, failing(errno.EAGAIN, "memory.reclaim"))
    knobs.write(KnobTarget(POD, Knob.MEMORY_RECLAIM), "1048576")


def test_both_files_of_an_io_weight_are_written(v2: CgroupTrees) -> None:
    """Which of them counts is a matter of the device."""
    v2.path(POD, "io.weight").with_name("io.bfq.weight").write_text("default 100\n")
    knobs, target = CgroupKnobs(v2.layout, KernelTree), KnobTarget(POD, Knob.IO_WEIGHT)
    raw = knobs.raw(target)
    knobs.write(target, "default 10000")
    assert v2.path(POD, "io.weight").read_text() == "default 10000\n"
    assert v2.path(POD, "io.weight").with_name("io.bfq.weight").read_text() == "1000\n"
    knobs.restore(target, raw)
    assert knobs.raw(target) == raw


def test_knobs_of_other_trees_are_refused(v2: CgroupTrees) -> None:
    with pytest.raises(InvalidInput, match="one of a cgroup"):
        CgroupKnobs(v2.layout).write(KnobTarget(POD, Knob.SCHEMATA), "L3:0=f")
