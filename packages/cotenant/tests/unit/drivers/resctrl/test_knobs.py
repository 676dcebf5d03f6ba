"""Classes of service over a fake tree that behaves like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.node.fake_resctrl import FakeResctrl
from tests.fakes.node.node_pods import node

from cotenant.drivers.resctrl.hardware import read_hardware
from cotenant.drivers.resctrl.knobs import ResctrlKnobs
from cotenant.drivers.resctrl.members import assign, members
from cotenant.drivers.resctrl.monitoring import cache_use
from cotenant.drivers.resctrl.tree import ResctrlTree
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.cache_partition import Bandwidth, CacheHardware
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished
from cotenant.policy.nodeqos.memory import cache

BE = KnobTarget("BE", Knob.SCHEMATA)


@pytest.fixture
def tree(tmp_path: Path) -> FakeResctrl:
    return FakeResctrl(tmp_path / "resctrl")


@pytest.fixture
def knobs(tree: FakeResctrl) -> ResctrlKnobs:
    return ResctrlKnobs(tree)


def everything(tree: FakeResctrl) -> dict[str, str]:
    return {
        str(path.relative_to(tree.root)): path.read_text()
        for path in tree.root.rglob("*")
        if path.is_file() and path.name != "last_cmd_status"
    }


def test_a_class_is_created_by_write_and_removed_by_restore(tree: FakeResctrl, knobs: ResctrlKnobs) -> None:
    before = everything(tree)
    raw = knobs.raw(BE)
    assert knobs.read(BE) == ""
    knobs.write(BE, "L3:0=f;1=f")
    assert knobs.read(BE) == "L3:0=f;1=f\nMB:0=100;1=100"
    knobs.write(BE, "MB:1=50")
    assert knobs.read(BE) == "L3:0=f;1=f\nMB:0=100;1=50"
    knobs.restore(BE, raw)
    knobs.restore(BE, raw)
    assert everything(tree) == before


def test_an_existing_class_is_restored_and_not_removed(tree: FakeResctrl, knobs: ResctrlKnobs) -> None:
    tree.make("BE")
    tree.write("BE", "schemata", "L3:0=3ff;1=3\n")
    raw, stood = knobs.raw(BE), everything(tree)
    knobs.write(BE, "L3:0=1;1=1\nMB:0=10;1=10")
    knobs.restore(BE, raw)
    assert {name: text.split() for name, text in everything(tree).items()} == {
        name: text.split() for name, text in stood.items()
    }
    tree.remove("BE")
    with pytest.raises(Vanished):
        knobs.restore(BE, raw)


@pytest.mark.parametrize("value", ["", "L3:0=5;1=f", "L3:0=0", "L3:2=f", "L3:0=1000", "nonsense"])
def test_what_the_kernel_refuses_leaves_no_class_behind(tree: FakeResctrl, knobs: ResctrlKnobs, value: str) -> None:
    with pytest.raises(InvalidInput):
        knobs.write(BE, value)
    assert tree.groups() == ()


def test_the_kernels_message_is_reported(knobs: ResctrlKnobs) -> None:
    with pytest.raises(InvalidInput, match="Mask invalid"):
        knobs.write(BE, "L3:0=5")


def test_hardware_without_a_free_class(tree: FakeResctrl, knobs: ResctrlKnobs) -> None:
    for name in ("a", "b", "c"):
        knobs.write(KnobTarget(name, Knob.SCHEMATA), "L3:0=f")
    with pytest.raises(Permanent, match="Out of CLOSIDs"):
        knobs.write(BE, "L3:0=f")


@pytest.mark.parametrize("group", ["info", "mon_data", "a/b", "-x", "a b", "x" * 200])
def test_names_that_cannot_be_groups(knobs: ResctrlKnobs, group: str) -> None:
    with pytest.raises(InvalidInput):
        knobs.write(KnobTarget(group, Knob.SCHEMATA), "L3:0=f")


@pytest.mark.parametrize("raw", ["", "L3:0=f", "stood\nnonsense"])
def test_a_foreign_raw_value_is_not_restored(tree: FakeResctrl, knobs: ResctrlKnobs, raw: str) -> None:
    tree.make("BE")
    stood = everything(tree)
    with pytest.raises(InvalidInput):
        knobs.restore(BE, raw)
    assert everything(tree) == stood


def test_an_unsupported_machine_reports_what_it_needs(tmp_path: Path) -> None:
    knobs = ResctrlKnobs(ResctrlTree(str(tmp_path)))
    gap = knobs.supported(Knob.SCHEMATA)
    assert gap is not None
    assert "resctrl mounted" in gap.needs
    for act in (
        lambda: knobs.read(BE),
        lambda: knobs.raw(BE),
        lambda: knobs.write(BE, "L3:0=f"),
        lambda: knobs.restore(BE, "absent"),
    ):
        with pytest.raises(Unsupported):
            act()
    with pytest.raises(Unsupported):
        read_hardware(ResctrlTree(str(tmp_path)))
    assert knobs.supported(Knob.RATE) is not None


def test_hardware_of_intel_and_amd(tmp_path: Path) -> None:
    assert read_hardware(FakeResctrl(tmp_path / "intel")) == CacheHardware(
        11, (0, 1), 1, Bandwidth.PERCENT, (0, 1), 10, 10, max_groups=4
    )
    amd = read_hardware(FakeResctrl(tmp_path / "amd", ways=16, memory=2048, closids=16))
    assert (amd.ways, amd.bandwidth, amd.max_groups) == (16, Bandwidth.ABSOLUTE, 16)
    megabytes = read_hardware(FakeResctrl(tmp_path / "mbps", memory=2**32 - 1))
    assert (megabytes.bandwidth, megabytes.bandwidth_domains) == (Bandwidth.NONE, ())
    assert read_hardware(FakeResctrl(tmp_path / "none", memory=None)).bandwidth is Bandwidth.NONE


def test_malformed_hardware_files(tree: FakeResctrl) -> None:
    (tree.root / "info/L3/min_cbm_bits").write_text("many\n")
    with pytest.raises(Permanent):
        read_hardware(tree)


def test_the_policys_value_is_written_unchanged(tree: FakeResctrl, knobs: ResctrlKnobs) -> None:
    config = cache.CacheConfig(read_hardware(tree), ls=cache.ClassCache(30, 100))
    verdict, _ = cache.decide(node(), config, cache.CacheMemory())
    for knob in verdict.knobs:
        knobs.write(knob.target, knob.value)
        assert knobs.read(knob.target) == knob.value
    assert tree.groups() == ("BE", "LS")


def test_tasks_are_moved_once_and_fall_back_when_the_class_is_removed(tree: FakeResctrl, knobs: ResctrlKnobs) -> None:
    knobs.write(BE, "L3:0=f")
    assert assign(tree, "BE", [100, 101, 999]) == 2
    assert assign(tree, "BE", [100, 101, 102]) == 1
    assert members(tree, "BE") == {100, 101, 102}
    knobs.restore(BE, "absent")
    assert members(tree, "") == tree.alive
    with pytest.raises(Vanished):
        assign(tree, "BE", [100])


def test_occupancy_and_bandwidth_are_sums_with_gaps(tree: FakeResctrl) -> None:
    folder = tree.root / "mon_data"
    (folder / "mon_L3_00/llc_occupancy").write_text("4096\n")
    (folder / "mon_L3_01/llc_occupancy").write_text("8192\n")
    (folder / "mon_L3_01/mbm_total_bytes").write_text("Unavailable\n")
    (folder / "mon_L3_00/mbm_local_bytes").unlink()
    use = cache_use(tree, "")
    assert (use.occupancy_bytes, use.total_bytes, use.local_bytes) == (12288, None, None)
    assert [gap.what for gap in use.gaps] == ["mbm_total_bytes of mon_L3_01", "mbm_local_bytes of mon_L3_00"]
    with pytest.raises(Vanished):
        cache_use(tree, "BE")
