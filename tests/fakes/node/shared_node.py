"""A node whose best-effort pods take turns, one of which hurts a service: what the search for antagonists is tried on.

Each best-effort pod is on and off with the same period and mean, out of phase. The service's signal is its base with
noise, and more while the guilty pod is on. No clock, no files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse
from cotenant.model.machine.run_queue import Blame

SECOND_US = 1_000_000
GUESTS = 4


def pod(name: str, qos: QoSClass, priority_class: PriorityClass = PriorityClass.NONE) -> NodePod:
    return NodePod(f"uid-{name}", "ns", name, f"pods/{name}", qos, priority_class=priority_class)


SERVICE = pod("service", QoSClass.LS)


@dataclass(frozen=True)
class SharedNode:
    """`guilty` None: nobody hurts the service. Levels are cycles per thousand instructions."""

    random: Random
    guilty: int | None
    base_milli: int = 1500
    noise: float = 0.05  # deviation of the service's signal, of its base
    harm: float = 1.0  # what the guilty pod adds while it is on, of the base
    period_s: int = 1200
    on: float = 0.3  # share of the period
    step_s: int = 10
    throttled_ppm: int = 0  # of the service

    def states(self, seconds: int, start_s: int = 0) -> Iterator[NodeState]:
        shift = self.random.uniform(0, self.period_s)
        for at_s in range(start_s + self.step_s, start_s + seconds + 1, self.step_s):
            yield self.state(at_s, [self.is_on(guest, at_s + shift) for guest in range(GUESTS)])

    def is_on(self, guest: int, at_s: float) -> bool:
        return ((at_s + guest * self.period_s / GUESTS) % self.period_s) < self.on * self.period_s

    def state(self, at_s: int, on: list[bool]) -> NodeState:
        hurt = self.harm if self.guilty is not None and on[self.guilty] else 0.0
        level = round(self.base_milli * max(0.1, 1 + hurt + self.random.gauss(0, self.noise)))
        pods = [PodUse(SERVICE, GroupUse(SERVICE.group, cpu_m=800, cpi_milli=level, throttled_ppm=self.throttled_ppm))]
        for guest, is_on in enumerate(on):
            cpu_m = max(0, round((1000 if is_on else 30) * self.random.gauss(1, 0.1)))
            guest_pod = pod(f"guest-{guest}", QoSClass.BE)
            pods.append(PodUse(guest_pod, GroupUse(guest_pod.group, cpu_m=cpu_m)))
        return NodeState(
            at_us=at_s * SECOND_US,
            interval_us=self.step_s * SECOND_US,
            host=HostUse(8, 4000, 64 << 30, 8 << 30),
            pods=tuple(pods),
            blame=tuple(
                Blame(SERVICE.group, f"pods/guest-{guest}", 200_000 if guest == self.guilty else 20_000)
                for guest, is_on in enumerate(on)
                if is_on
            ),
        )
