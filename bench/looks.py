"""Looks between two ticks: what they take of a core, by the number of groups that they read. Goal: 0.5 % at most.

Best-effort groups are real, below a group of their own in the tree that has the CPU time, and stay idle, so that no
look asks for a sample. `common`: all pods are in one group, as on a kubelet's node; `separate`: each is looked at, 64
at most. What the event loop takes to wake up as often without looking is subtracted, and shown. Needs root.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from bench.machine import show
from cotenant.drivers.cgroup.cpu_time import CpuTimes
from cotenant.drivers.cgroup.layout import CgroupLayout, detect
from cotenant.engine.node.bursts import BurstSettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse
from cotenant.services.agent.loop.looks import Looks

DEFAULT_PODS = (1, 50, 200)
ROUNDS = 5


@contextmanager
def groups_of(layout: CgroupLayout, pods: int) -> Iterator[list[str]]:
    """So many groups below one of our own."""
    tree = layout.by_controller.get("cpuacct") or layout.unified
    if tree is None:
        raise SystemExit("this machine has no tree of groups with CPU time")
    top = Path(tree.path) / f"cotenant-bench-{os.getpid()}"
    made = [top, *(top / f"p{number}" for number in range(pods))]
    try:
        for folder in made:
            folder.mkdir()
        yield [f"{top.name}/p{number}" for number in range(pods)]
    finally:
        for folder in reversed(made):
            if folder.exists():
                folder.rmdir()


def state_of(groups: list[str], common: str | None) -> NodeState:
    """A node with these best-effort pods."""
    uses = tuple(
        PodUse(NodePod(f"uid-{group}", "batch", group, group, QoSClass.BE), GroupUse(group, cpu_m=0))
        for group in groups
    )
    return NodeState(1, 1, HostUse(2, 0, 1 << 30, 0), uses, best_effort_group=common)


async def taken_s(looks: Looks | None, seconds: float, look_s: float) -> float:
    """CPU time of looks, or of as many wake-ups."""
    began = process_time()
    for _ in range(round(seconds / look_s)):
        await asyncio.sleep(look_s)
        if looks is not None:
            await looks.check_bursts()
    return process_time() - began


def a_row(layout: CgroupLayout, pods: int, where: str, seconds: float) -> dict[str, Any]:
    """Medians over rounds that alternate with empty ones."""
    settings = BurstSettings()
    look_s = settings.look_us / 1e6
    with groups_of(layout, pods) as groups, closing(CpuTimes(layout)) as times:
        state = state_of(groups, groups[0].partition("/")[0] if where == "common" else None)

        async def no_sample() -> bool:
            raise AssertionError("idle groups ask for nothing")

        at_us = 0

        def now_us() -> int:
            nonlocal at_us
            at_us += settings.look_us
            return at_us

        looks = Looks(settings, 2, state=lambda: state, read=times.read, sample=no_sample, now_us=now_us)
        with_looks, empty = [], []
        for _ in range(ROUNDS):
            with_looks.append(asyncio.run(taken_s(looks, seconds, look_s)))
            empty.append(asyncio.run(taken_s(None, seconds, look_s)))
    looked_s = median(with_looks) - median(empty)
    return {
        "pods": pods,
        "groups": where,
        "looks_per_s": round(1 / look_s, 1),
        "us_a_look": round(looked_s * 1e6 / (seconds / look_s), 1),
        "percent_of_a_core": round(100 * looked_s / seconds, 3),
        "wake_ups_percent": round(100 * median(empty) / seconds, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.looks", description=__doc__)
    parser.add_argument("--pods", type=int, nargs="*", default=DEFAULT_PODS)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each round")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    layout = detect()
    rows = [a_row(layout, pods, where, given.seconds) for pods in given.pods for where in ("common", "separate")]
    show(rows, given.json, ("CPU time of one core.",))


if __name__ == "__main__":
    main()
