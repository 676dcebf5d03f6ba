"""A node on which a service gets into trouble for a known cause: what attribution and the recovery ladder are tried on.

One core is shared by a service and best-effort pods that are active in bursts at random times. The service waits behind
the guilty pod while that one is active; its latency is a queue's at its load, with noise. No clock, no files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.knob_values import parse_cpu_max, parse_io_max
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import PPM, GroupUse, HostUse, NodeState, PodUse, ServiceHealth
from cotenant.model.machine.run_queue import Blame
from cotenant.model.machine.verdict import PolicyVerdict

SECOND_US = 1_000_000
OBJECTIVE_US = 10_000


def service_pod(name: str = "web") -> NodePod:
    return NodePod(
        f"uid-{name}",
        "shop",
        name,
        f"pods/{name}",
        QoSClass.LS,
        priority_class=PriorityClass.PROD,
        objective_p99_us=OBJECTIVE_US,
        labels={"app": name},
    )


def batch_pod(name: str, **fields: Any) -> NodePod:
    return NodePod(f"uid-{name}", "batch", name, f"batch/{name}", QoSClass.BE, **fields)


@dataclass
class TroubledNode:
    """`guilty`: the pod that delays the service, None for none. From `from_s` on the trouble is planted."""

    random: Random
    guilty: str | None = None
    suspects: tuple[str, ...] = ("a", "b", "c", "d")
    from_s: int = 20
    harm: float = 1.5  # seconds waited behind the guilty pod per second of its CPU time and of the service's
    load_growth: float = 1.0  # of the service's requests
    throttled_ppm: int = 0  # of the service
    callee_slow: float = 1.0  # factor of the time in a service that it calls
    together: Mapping[str, str] = field(default_factory=dict)  # innocent pods that are active with another one
    together_share: float = 0.8  # of the time
    always_on: bool = False  # innocent pods run all the time
    probe: bool = True
    latency: bool = True
    spans: bool = False
    cache: bool = False  # the harm is in cycles per instruction, not in waiting
    fellows: int = 0  # services that are slowed with it, by `cache`, and whose users hardly notice
    disk_bps: int = 0  # the harm is in waiting for a disk: what the guilty pod writes while it is active
    presses: bool = True  # whether the machine's waiting for disks shows it
    knows_stalls: bool = True  # whether groups' own waiting for disks is known, which it is not on cgroup v1
    service: str = "web"
    at_s: int = 0
    activity: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)  # CPUs, by group
    disk_limits: dict[str, int] = field(default_factory=dict)  # bytes per second, by group
    gone: set[str] = field(default_factory=set)
    stays_slow: bool = False  # whatever is done

    def states(self, seconds: int) -> Iterator[NodeState]:
        for _ in range(seconds):
            yield self.second()

    def obey(self, verdict: PolicyVerdict) -> None:
        """Apply the verdict's knobs, and evict its pods."""
        self.limits = {
            wish.target.group: (parse_cpu_max(wish.value).quota_us or PPM) / 100_000
            for wish in verdict.knobs
            if wish.target.knob is Knob.CPU_MAX
        }
        self.disk_limits = {
            wish.target.group: parse_io_max(wish.value)[0].wbps or self.disk_bps
            for wish in verdict.knobs
            if wish.target.knob is Knob.IO_MAX
        }
        for wish in verdict.knobs:
            if wish.target.knob is Knob.CGROUP_FREEZE and wish.value == "1":
                self.limits[wish.target.group] = 0.0
            if wish.target.knob is Knob.CPU_IDLE and wish.value == "1":
                self.limits[wish.target.group] = min(0.02, self.limits.get(wish.target.group, 1.0))
        for eviction in verdict.evictions:
            self.gone.add(eviction.uid)

    def second(self) -> NodeState:
        self.at_s += 1
        planted = self.at_s > self.from_s
        for name in self.suspects:
            if name not in self.together:
                self.activity[name] = self._burst(name, planted)
        for name, leader in self.together.items():
            follows = self.random.random() < self.together_share
            self.activity[name] = self.activity[leader] if follows else self._burst(name, planted)
        limited = {name: self._limited(name) for name in self.suspects}
        load = 0.3 * (self.load_growth if planted else 1.0) * self.random.gauss(1, 0.05)
        on = limited.get(self.guilty or "", 0.0) if planted else 0.0
        written = self._written(on)
        if self.disk_bps:
            on = written / self.disk_bps
        hurt = self.harm * on if not self.stays_slow else self.harm
        busy = min(0.97, load * (1 + hurt * (0.6 if not self.cache else 1.0)))
        own_ms = (2.0 / (1 - busy) + 10 * hurt) * self.random.lognormvariate(0, 0.08)
        called_ms = 2.0 * (self.callee_slow if planted else 1.0) * self.random.lognormvariate(0, 0.08)
        if planted and self.throttled_ppm:
            own_ms += 60.0
        p99_us = round((own_ms + called_ms) * 1000)
        requests = round(200 * (self.load_growth if planted else 1.0) * self.random.gauss(1, 0.05))
        late = 0.004 if p99_us <= OBJECTIVE_US else min(1.0, 0.03 * p99_us / OBJECTIVE_US)
        waiting = hurt if not self.cache and not self.disk_bps else 0.0
        itself = max(0.0, load - 0.5)
        delay = 0.03 + waiting + itself + (0.5 if planted and self.throttled_ppm else 0.0)
        use = GroupUse(
            f"pods/{self.service}",
            cpu_m=round(load * 1000 * (1 + (hurt if self.cache else 0.0))),
            throttled_ppm=self.throttled_ppm if planted else 0,
            run_delay_ppm=round(delay * load * PPM),
            cpu_stall_ppm=min(PPM, round(delay * load * 0.9 * PPM)),
            io_stall_ppm=min(PPM, round((0.01 + 0.3 * hurt) * PPM)) if self.disk_bps and self.knows_stalls else None,
            cpi_milli=round(1500 * (1 + (hurt if self.cache else 0.0)) * self.random.gauss(1, 0.03)),
        )
        health = ServiceHealth(
            window_us=SECOND_US,
            requests=requests,
            p99_us=p99_us,
            over_objective=round(requests * late),
            age_us=0,
            self_p99_us=round(own_ms * 1000) if self.spans else None,
        )
        pods = [PodUse(service_pod(self.service), use, health=health if self.latency else None)]
        pods += [self._fellow(f"fellow-{i}", hurt) for i in range(self.fellows)]
        for name in self.suspects:
            if f"uid-{name}" not in self.gone:
                pod = batch_pod(name)
                moved = written if name == self.guilty else self.disk_bps // 50
                use = GroupUse(pod.group, cpu_m=round(limited[name] * 1000), io_read_bps=0, io_written_bps=moved)
                pods.append(PodUse(pod, use))
        pressure = round((0.05 + 0.8 * on) * PPM) if self.disk_bps and self.presses else None
        return NodeState(
            at_us=self.at_s * SECOND_US,
            interval_us=SECOND_US,
            host=HostUse(2, 1000, 8 << 30, 4 << 30, io_stall_ppm=pressure, disks=("8:0",)),
            pods=tuple(pods),
            best_effort_group="batch",
            blame=self._blame(limited, load, waiting, itself) if self.probe else None,
        )

    def _fellow(self, name: str, hurt: float) -> PodUse:
        """A service that takes more CPU time for the same requests while it is slowed."""
        slowdown = 1 + 0.8 * hurt
        pod = replace(service_pod(name), objective_p99_us=100 * OBJECTIVE_US)
        cpi = round(1200 * slowdown * self.random.gauss(1, 0.01))
        use = GroupUse(pod.group, cpu_m=round(500 * slowdown * self.random.gauss(1, 0.01)), cpi_milli=cpi)
        return PodUse(pod, use, health=ServiceHealth(SECOND_US, 200, round(OBJECTIVE_US * slowdown), 0, 0))

    def _written(self, on: float) -> int:
        """What the guilty pod writes: as active as it is, up to its limit."""
        wanted = round(self.disk_bps * min(1.0, on / 0.9))
        return min(wanted, self.disk_limits.get(f"batch/{self.guilty}", wanted))

    def _burst(self, name: str, planted: bool) -> float:
        """Innocent pods burst all the time, the guilty one from the time on at which the trouble begins."""
        if name == self.guilty and not planted:
            return 0.0
        if self.always_on and name != self.guilty:
            return 0.5
        before = self.activity.get(name, 0.0)
        stays = self.random.random() < 0.75
        if stays and self.at_s > 1 and not (name == self.guilty and self.at_s == self.from_s + 1):
            return before
        if name == self.guilty:
            return 0.9 if self.random.random() < 0.8 else 0.0
        return 0.6 if self.random.random() < 0.4 else 0.02

    def _limited(self, name: str) -> float:
        if f"uid-{name}" in self.gone:
            return 0.0
        own, shared = self.limits.get(f"batch/{name}", 9.0), self.limits.get("batch", 9.0)
        return min(self.activity[name], own, shared / max(1, len(self.suspects)))

    def _blame(self, limited: Mapping[str, float], load: float, waiting: float, itself: float) -> tuple[Blame, ...]:
        victim = f"pods/{self.service}"
        found = [Blame(victim, victim, round(itself * load * PPM)), Blame(victim, "system", round(0.02 * load * PPM))]
        for name, amount in limited.items():
            share = waiting if name == self.guilty else 0.03 * amount
            if share:
                found.append(Blame(victim, f"batch/{name}", round(share * load * PPM)))
        return tuple(found)
