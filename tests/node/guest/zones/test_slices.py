"""What a service waits when it wakes beside hogs of the least weight: up to a slice of theirs, and next to nothing once their slices are the longest."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.cgroup.slices import TaskSlices
from cotenant.services.experiments.site.task_group import TaskGroup

CGROUPS, CPU = Path("/sys/fs/cgroup"), 0
SETTLE, WAKES = 50, 250
HOGS = 4


def made(path: str, weight: str, below: bool) -> TaskGroup:
    group = TaskGroup(CGROUPS / path, CPU)
    group.set("cpu.weight", weight)
    if below:
        group.set("cgroup.subtree_control", "+cpu")
    return group


def p99(delays: list[float]) -> float:
    return delays[len(delays) * 99 // 100]


def test_hogs_with_the_longest_slice_yield_to_whoever_wakes_and_lose_nothing() -> None:
    (CGROUPS / "cgroup.subtree_control").write_text("+cpu")
    parents = [made("pods", "100", True), made("pods/burstable", "20", True), made("pods/besteffort", "1", True)]
    service = made("pods/burstable/web", "20", False)
    pods = [made(f"pods/besteffort/{number}", "1", False) for number in range(HOGS)]
    slices = TaskSlices(detect(), 100_000)
    assert slices.gap is None
    with ExitStack() as running:
        for pod in pods:
            pod.set("cpu.idle", "1")  # as the agent holds pods, whose common group is the kubelet's
            running.enter_context(pod.burning(1))
        used = parents[2].used_us()
        waited_ms = service.delays_ms(SETTLE, WAKES)
        between = parents[2].used_us()
        assert slices.follow(["pods/besteffort"]) == HOGS
        sliced_ms = service.delays_ms(SETTLE, WAKES)
        assert parents[2].used_us() - between > 0.95 * (between - used)
        assert slices.follow([]) == HOGS
    slices.close()
    for group in (*pods, service, *reversed(parents)):
        group.remove()
    # The guest's clock counts instructions: a busy host does not change them.
    assert p99(waited_ms) > 0.5, p99(sliced_ms)  # the kernel's slice is 0.7 ms on one CPU
    assert p99(sliced_ms) < 0.3
