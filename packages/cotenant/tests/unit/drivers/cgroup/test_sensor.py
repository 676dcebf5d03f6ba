from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import CgroupTrees

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.sensor import NodeSensor, SampleCollector
from cotenant.drivers.proc.host import HostReader
from cotenant.model.errors import Permanent, Transient
from cotenant.model.machine.counters import Gap, GpuCounters, Stall
from cotenant.model.machine.run_queue import RunQueueReading

GPU = GpuCounters(0, "GPU-1", "T4", True, 10, 16, 8)


class Source:
    """Run delays, cycles or GPUs, as given; fails on request."""

    def __init__(self, answer: object, gap: Gap | None = None, fails: bool = False) -> None:
        self.answer, self.gap, self.fails = answer, gap, fails
        self.asked: list[tuple[object, ...]] = []

    def read(self, *asked: object) -> object:
        self.asked.append(asked)
        if self.fails:
            raise Transient("away")
        return self.answer

    def collector(self) -> SampleCollector:
        """With the answer as the sample's GPUs."""
        return SampleCollector("accelerators", lambda sample: replace(sample, gpus=self.read()), self.gaps)

    def gaps(self) -> tuple[Gap, ...]:
        return () if self.gap is None else (self.gap,)


class Probe(Source):
    """Run delays that also tell who ran meanwhile."""

    reading = RunQueueReading(77)


@pytest.fixture
def trees(tmp_path: Path) -> CgroupTrees:
    trees = CgroupTrees(tmp_path / "cg", "v2")
    for name in ("a", "b"):
        trees.add(name)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu  1 0 1 5\ncpu0 1 0 1 5\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal: 5 kB\nMemAvailable: 2 kB\n")
    return trees


def sensor(trees: CgroupTrees, tmp_path: Path, **sources: object) -> NodeSensor:
    reader, host = CgroupReader(trees.layout), HostReader(str(tmp_path / "proc"))
    return NodeSensor(reader, host, lambda: 77, lambda: 1.5, **sources)  # type: ignore[arg-type]


def test_sources_are_joined_by_group(trees: CgroupTrees, tmp_path: Path) -> None:
    delays: Mapping[str, int] = {"a": 9}
    run_delays, cycles, gpus = Source(delays), Source({"b": (8, 4)}), Source((GPU,), Gap("gpu 1", "a driver"))
    wanted: Sequence[str] = ("a", "gone", "b")
    sample = sensor(trees, tmp_path, run_delays=run_delays, cycles=cycles, collectors=(gpus.collector(),)).sample(
        wanted
    )
    assert (sample.at_us, sample.wall_s, sample.host.cpus, sample.gpus) == (77, 1.5, 1, (GPU,))
    told = [
        (entry.group, entry.run_delay_us, entry.cycles, entry.instructions, entry.cpu_us) for entry in sample.groups
    ]
    assert told == [("a", 9, None, None, 7000), ("b", None, 8, 4, 7000)]
    assert run_delays.asked == [(wanted, 77)]
    assert Gap("gpu 1", "a driver") in sample.gaps


def test_blame_is_included_where_the_source_has_it(trees: CgroupTrees, tmp_path: Path) -> None:
    assert sensor(trees, tmp_path, run_delays=Source({})).sample(["a"]).run_queue is None
    assert sensor(trees, tmp_path, run_delays=Probe({})).sample(["a"]).run_queue == RunQueueReading(77)
    assert sensor(trees, tmp_path, run_delays=Probe({}, fails=True)).sample(["a"]).run_queue is None


def test_pressure_of_groups_is_read_when_the_machine_had_some_since(trees: CgroupTrees, tmp_path: Path) -> None:
    machine = tmp_path / "proc/pressure/io"
    machine.parent.mkdir()
    machine.write_text("some total=50\nfull total=30\n")
    node = sensor(trees, tmp_path)

    def stall(total: int) -> Stall | None:
        trees.say("a", "io.pressure", f"some total={total}\nfull total=0\n")
        return node.sample(["a"]).groups[0].pressure.io

    assert stall(1) == Stall(1, 0)
    assert stall(2) == Stall(1, 0)  # cannot be: the machine waited for nothing
    machine.write_text("some total=51\nfull total=30\n")
    assert stall(3) == Stall(3, 0)


def test_io_of_groups_is_read_when_the_disks_had_some_since(trees: CgroupTrees, tmp_path: Path) -> None:
    machine = tmp_path / "proc/diskstats"
    machine.write_text("254 0 vda 1 0 8 0 1 0 8 0 0 0 0\n")
    node = sensor(trees, tmp_path)

    def moved(read_bytes: int) -> int | None:
        trees.say("a", "io.stat", f"254:0 rbytes={read_bytes} wbytes=0\n")
        trees.say("a", "cpu.stat", f"usage_usec {read_bytes}\n")
        return node.sample(["a"]).groups[0].io_read_bytes

    assert moved(100) == 100
    assert moved(200) == 100  # cannot be: no disk moved anything
    machine.write_text("254 0 vda 1 0 9 0 1 0 8 0 0 0 0\n")
    assert moved(300) == 300


def test_a_failing_source_is_a_gap_of_this_tick(trees: CgroupTrees, tmp_path: Path) -> None:
    broken = [Source(None, fails=True) for _ in range(3)]
    node = sensor(trees, tmp_path, run_delays=broken[0], cycles=broken[1], collectors=(broken[2].collector(),))
    sample = node.sample(["a"])
    assert [entry.cpu_us for entry in sample.groups] == [7000]
    assert {gap.what for gap in sample.gaps} >= {"run delay", "cycles", "accelerators"}
    for source, answer in zip(broken, ({}, {}, ())):
        source.fails, source.answer = False, answer
    assert not {gap.what for gap in node.sample(["a"]).gaps} & {"run delay", "cycles", "accelerators"}


def test_without_the_machine_there_is_no_sample(trees: CgroupTrees, tmp_path: Path) -> None:
    (tmp_path / "proc/stat").unlink()
    with pytest.raises(Permanent):
        sensor(trees, tmp_path).sample(["a"])
