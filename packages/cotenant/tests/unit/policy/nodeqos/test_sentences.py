"""What node policies say of each tick, word for word: users read these sentences where nothing is done, too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.node_pods import GB, SECOND, node, pod, using

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.machine.node_state import Alarm, GroupUse, NodeState
from cotenant.policy.nodeqos.burst.config import BurstConfig, BurstPolicy
from cotenant.policy.nodeqos.burst.policy import BurstMemory
from cotenant.policy.nodeqos.burst.policy import decide as burst
from cotenant.policy.nodeqos.eviction.goals import BestEffortMemoryTrigger, EvictionTrigger, UsedTrigger
from cotenant.policy.nodeqos.eviction.memory import MemoryEvictionConfig, MemoryEvictionMemory
from cotenant.policy.nodeqos.eviction.memory import decide as evict_by_memory
from cotenant.policy.nodeqos.eviction.memory_pressure import MemoryPressureConfig, MemoryPressureMemory
from cotenant.policy.nodeqos.eviction.memory_pressure import decide as evict_by_pressure
from cotenant.policy.nodeqos.io.disk import IoConfig, IoMemory
from cotenant.policy.nodeqos.io.disk import decide as limit_disk
from cotenant.policy.nodeqos.io.disk_limits import BlockDevice
from cotenant.policy.nodeqos.memory.reclaim import ReclaimConfig, ReclaimMemory
from cotenant.policy.nodeqos.memory.reclaim import decide as reclaim
from cotenant.policy.nodeqos.wording import cpu, percent, rate, seconds, size

MB = 10**6


@pytest.mark.parametrize("unit", [(10**3, "k"), (10**6, "M"), (10**9, "G"), (10**12, "T")])
def test_an_amount_is_in_the_largest_unit_from_one_on(unit: tuple[int, str]) -> None:
    factor, name = unit
    assert size(factor) == f"1.0 {name}B"
    assert size(-factor) == f"-1.0 {name}B"
    assert not size(factor - 1).endswith(f" {name}B")
    if name != "T":
        assert rate(factor) == f"1.0 {name}bit/s"
        assert rate(-factor) == f"-1.0 {name}bit/s"
        assert not rate(factor - 1).endswith(f" {name}bit/s")


def test_small_and_whole_amounts() -> None:
    assert (size(1), size(0), rate(1), rate(0)) == ("1 B", "0 B", "1 bit/s", "0 bit/s")
    assert (cpu(100_000), cpu(0), percent(1_000_000), seconds(100_000)) == ("100 CPU", "0 CPU", "100.0 %", "0.1 s")


# ---- disks

FOLLOW = IoConfig(
    devices=(BlockDevice("8:0"),),
    follow_services=True,
    stall_ppm=100_000,
    calm_ppm=20_000,
    cut_percent=50,
    grow_percent=10,
    lift_percent=150,
    min_bps=10 * MB,
    dwell_us=5 * SECOND,
    calm_for_us=3 * SECOND,
)


def stalled(second: int, stall_ppm: int | None, read: int | None = 5 * MB, written: int | None = 100 * MB) -> NodeState:
    return node(
        [using(pod("s", QoSClass.LS), io_stall_ppm=stall_ppm), using(pod("b", group="be/b"))],
        at_us=second * SECOND,
        best_effort=GroupUse("be", io_read_bps=read, io_written_bps=written),
        best_effort_group="be",
    )


def test_the_disk_limit_explains_each_tick() -> None:
    memory = IoMemory()
    waits = "a service stalls on I/O {} of the time"
    for state, said, limit in (
        (stalled(1, None), "no service's I/O stall is known: unchanged", None),
        (stalled(2, 50_000), f"{waits.format('5.0 %')}: best effort is not limited", None),
        (stalled(3, 100_000), f"{waits.format('10.0 %')}: best effort is not limited", None),
        (stalled(4, 100_001, written=None), f"{waits.format('10.0 %')}; best effort's throughput is not known", None),
        (stalled(4, 100_001, read=None), f"{waits.format('10.0 %')}; best effort's throughput is not known", None),
        (
            stalled(5, 200_000, written=10 * MB),
            f"{waits.format('20.0 %')}; best effort is not the cause: it moves 10.0 MB/s",
            None,
        ),
        (
            stalled(6, 200_000),
            f"{waits.format('20.0 %')}, over 10.0 %: best effort from 100.0 MB/s to 50.0 MB/s",
            50 * MB,
        ),
        (stalled(10, 200_000), f"{waits.format('20.0 %')}; waiting for the effect of the last cut", 50 * MB),
        (
            stalled(11, 200_000, read=None),
            f"{waits.format('20.0 %')}, over 10.0 %: best effort from 50.0 MB/s to 25.0 MB/s",
            25 * MB,
        ),
        (stalled(16, 20_001), f"{waits.format('2.0 %')}: the limit stays at 25.0 MB/s", 25 * MB),
        (
            stalled(17, 20_000),
            f"{waits.format('2.0 %')}, not long enough: the limit stays at 25.0 MB/s",
            25 * MB,
        ),
        (
            stalled(19, 0),
            f"{waits.format('0.0 %')}, not long enough: the limit stays at 25.0 MB/s",
            25 * MB,
        ),
        (stalled(20, 0), f"{waits.format('0.0 %')}: best effort from 25.0 MB/s to 27.5 MB/s", 27_500_000),
    ):
        verdict, memory = limit_disk(state, FOLLOW, memory)
        assert verdict.reasons[0].text == said
        assert memory.limit_bps == limit
    changes = [(term.name, term.value) for term in verdict.reasons[0].terms]
    assert changes == [("before", 25 * MB), ("grown", 2_500_000)]
    high = replace(memory, limit_bps=140 * MB)
    verdict, memory = limit_disk(stalled(23, 0), FOLLOW, high)
    assert verdict.reasons[0].text.endswith(
        "0.0 % of the time: the limit is far above best effort's throughput and is removed"
    )
    assert memory == IoMemory()
    off, memory = limit_disk(stalled(24, 900_000), replace(FOLLOW, follow_services=False), high)
    assert off.reasons[0].text == "best effort's limit does not follow services: switched off"
    assert memory == IoMemory()


# ---- memory


def test_memory_eviction_says_why_nobody_goes() -> None:
    both = MemoryEvictionConfig(best_effort=BestEffortMemoryTrigger(), used=UsedTrigger(80, 5999))
    state = node([using(pod("a"), working_set_bytes=GB)], memory_used_bytes=60 * GB)
    verdict, _ = evict_by_memory(state, both, MemoryEvictionMemory())
    assert [(reason.rule, reason.text) for reason in verdict.reasons] == [
        (f"evict:{EvictionTrigger.MEMORY_BEST_EFFORT}", "60.0 GB of 100.0 GB in use, below 70 %"),
        (f"evict:{EvictionTrigger.MEMORY_USED}", "60.0 GB of 100.0 GB in use, below 80 %"),
    ]
    unknown = replace(state, host=replace(state.host, memory_total_bytes=0))
    verdict, _ = evict_by_memory(unknown, both, MemoryEvictionMemory())
    assert {reason.text for reason in verdict.reasons} == {"the node's memory is not known"}
    verdict, _ = evict_by_memory(state, MemoryEvictionConfig(), MemoryEvictionMemory())
    assert not verdict.evictions


def test_reclaim_says_what_it_does_not_know() -> None:
    config, fresh = ReclaimConfig(), ReclaimMemory()

    def said(state: NodeState, memory: ReclaimMemory = fresh) -> list[str]:
        return [reason.text for reason in reclaim(state, config, memory)[0].reasons]

    web = using(pod("web", QoSClass.LS), memory_bytes=GB, memory_stall_ppm=0)
    known = using(pod("a"), memory_bytes=GB, memory_stall_ppm=0)
    assert said(node([web])) == ["no best-effort work on this node"]
    alarmed = replace(node([known]), alarms=(Alarm(1, "", "memory"),))
    assert said(alarmed) == ["no new reading"]
    assert said(node([known])) == ["start from the current use, 1.0 GB"]
    for use in ({"memory_bytes": GB}, {"memory_stall_ppm": 0}):
        assert said(node([known, using(pod("b"), **use)])) == [
            "start from the current use, 1.0 GB",
            "memory or its stall is not known for 1 best-effort pods",
        ]
    over = using(replace(pod("c"), phase=NodePodPhase.OVER))
    assert said(node([over, known, using(replace(pod("d"), group=""))])) == ["start from the current use, 1.0 GB"]
    _, memory = reclaim(node([known]), config, fresh)
    verdict, again = reclaim(node([using(pod("a"))]), config, memory)
    assert again == memory
    assert [knob.reason.text for knob in verdict.knobs] == ["no new reading of its use: the limit is kept"]


def test_burst_says_where_no_quota_differs() -> None:
    verdict, _ = burst(node([]), BurstConfig(), BurstMemory())
    assert [reason.text for reason in verdict.reasons] == ["no quota differs from its limit"]
    verdict, _ = burst(node([]), BurstConfig(policy=BurstPolicy.AUTO), BurstMemory())
    first, last = (reason.text for reason in verdict.reasons)
    assert first.startswith("load of the shared CPUs: ")
    assert last == "no quota differs from its limit"


def test_who_goes_under_pressure_and_why() -> None:
    def victim(*gigabytes: int, averages: tuple[tuple[str, int], ...] = (), **fields: int) -> tuple[str, str]:
        pods = [
            using(pod(name), working_set_bytes=amount * GB, **{"memory_stall_ppm": 1, **fields})
            for name, amount in zip("abcde", gigabytes, strict=False)
        ]
        state = node(pods, at_us=1000 * SECOND, best_effort=GroupUse("be", memory_full_stall_ppm=900_000))
        memory = MemoryPressureMemory(best_effort_since_us=0, reclaimed_at_us=1000 * SECOND, averages=averages)
        verdict, _ = evict_by_pressure(state, MemoryPressureConfig(), memory)
        (eviction,) = verdict.evictions
        return eviction.key, eviction.reason.text

    key, said = victim(9, 5)
    assert key == "test/a"
    assert said.endswith("has 9.0 GB of the 14.0 GB that best effort has beyond its guarantees")
    assert "best effort has stalled on memory over" in said
    key, said = victim(3, 4, 3, 3, 3)
    assert key == "test/b"
    assert said.endswith("is the largest with 4.0 GB beyond its guarantee")
    key, said = victim(4, 4, 4, 4, 4, averages=(("uid-a", 2 * GB), ("uid-b", 1 * GB), ("uid-e", 1)))
    assert said.endswith(" % of its average")
