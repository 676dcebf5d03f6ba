"""What the manager's right-sizing makes of workloads over weeks: amounts requested, squeezed time, kills by lack of
memory, with its guard, beside the rules that people use.

The engine is the manager's, in `mode: act`: it learns by the hour, resizes one replica, proves, spreads and takes back.
Rivals set the same requests on all replicas at once, every twelve hours where they differ by more than a tenth: as
published, and with the setting of the least loss on the other half of the applications (bench.back_test). They see the
history by the step, ours by the hour; all have a day of it before they act, and limits of memory by the same reserve.

Workloads are applications of Alibaba's 2018 contest (Tianchi B) with their day curves of CPU and memory, settings
chosen on those whose name hashes to an even number, figures of the others. The weeks around the one recorded day are
made up, by laws drawn from the application's name that no rule knows: a level that drifts (5 % a day), weekends at 0.5
to 1 of the week's use, in three of ten a level that jumps once by 0.7 to 1.5, noise of 5 %. People asked for 1.2 to 3
times the highest value of the recorded day, memory with a limit there. A replica above its request waits for its CPU
by how far it is above, times a pressure of its node of 0 to 2; one above its limit of memory is killed.

`cpu`, `memory`: mean request, percent of what people asked for. `squeezed`: replicas' time with more CPU in use than
requested, percent. `loss`: pinball of the CPU request at a risk of 1 %, in units of the mean use, percent; `to ours`:
paired difference of it by application, with a 95 % interval. `kills`: for 1,000 days of replicas. `changes`: for a
workload and week, `taken back` of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from bench.back_test import DAY, RULES, STEP_S, HighestSoFar
from bench.lending import TRACES, is_reported
from bench.machine import show
from cotenant.engine.sizing.right_sizer import RightSizer
from cotenant.engine.sizing.scene import WriteSizing
from cotenant.model.arrays import Float
from cotenant.model.assess.history import Float32
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals, Use
from cotenant.model.sizes.container import ContainerSize, SizedContainer, SizedPod
from cotenant.model.sizes.right_sizing import RightSizing, SizingMode, SizingOutcome
from cotenant.policy.assess.predictor import Past, Predictor
from cotenant.policy.assess.rivals import BorgPeak, LastDayPeak, NSigma, VpaHistogram
from cotenant.policy.assess.rows import quantiles
from cotenant_lab.statistics import interval
from cotenant_lab.traces.folder import table_file
from cotenant_lab.traces.read import read_table

BEGIN_S = 1_799_625_600.0  # a Monday, 00:00 UTC
DAYS, REPLICAS, RISK = 21, 3, 0.01
HOUR, HALF_DAY = DAY // 24, DAY // 2
MIB = 1 << 20
ENOUGH, RESERVE = 0.10, 1.2
IDLE_WAIT = 0.02  # waited per time used without pressure


class Workload(NamedTuple):
    """One application. Use by replica and step: `[REPLICAS, steps]`, milli-CPU and MiB; what people asked for."""

    name: str
    cpu: Float32
    memory: Float32
    asked_m: int
    asked_mib: int
    pressure: float


@dataclass(frozen=True, slots=True)
class Course:
    """What a rule made of one workload: requests by step and replica, and what came of them."""

    cpu: Float32
    memory: Float32
    kills: int
    changes: int
    taken_back: int


def drawn(name: str) -> np.random.Generator:
    """The laws of one application."""
    return np.random.default_rng(list(sha256(f"right-sizing {name}".encode()).digest()[:8]))


def workload(name: str, cpu_curve: Float, memory_curve: Float, days: int) -> Workload:
    """Weeks around a recorded day; curves in cores and GiB, 15 minutes apart."""
    random = drawn(name)
    level = np.exp(np.cumsum(random.normal(0.0, 0.05, days)))
    if random.random() < 0.3:
        level[random.integers(2, days) :] *= random.uniform(0.7, 1.5)
    weekend = random.uniform(0.5, 1.0)
    level *= [weekend if day % 7 >= 5 else 1.0 for day in range(days)]
    steps = np.linspace(0.0, len(cpu_curve) - 1, DAY)

    def use(curve: Float, factor: Float, noise: float) -> Float32:
        day = np.interp(steps, np.arange(len(curve)), curve)
        whole = np.concatenate([day * of_day for of_day in factor])
        shared = np.exp(random.normal(0.0, noise, len(whole)))
        own = np.exp(random.normal(0.0, noise, (REPLICAS, len(whole))))
        return (whole * shared * own).astype(np.float32)

    cpu = use(cpu_curve * 1000.0, level, 0.05)
    memory = use(memory_curve * 1024.0, np.sqrt(level), 0.01)
    asked = random.uniform(1.2, 3.0, 2)
    return Workload(
        name,
        cpu,
        memory,
        max(10, int(asked[0] * cpu_curve.max() * 1000)),
        max(16, int(asked[1] * memory_curve.max() * 1024)),
        random.uniform(0.0, 2.0),
    )


def workloads(count: int, days: int, *, reported: bool) -> list[Workload]:
    """The first so many applications of a half that use a tenth of a core at some time."""
    path = table_file(TRACES / "alibaba2018-tianchi-containers", "app_resources")
    if path is None:
        raise SystemExit("no table app_resources in alibaba2018-tianchi-containers of COTENANT_TRACES")
    found = []
    for row in read_table("tianchi", "apps", path)[0].iter_rows(named=True):
        cpu, memory = np.asarray(row["cpu_98"], float), np.asarray(row["mem_98"], float)
        if is_reported(row["app"]) == reported and cpu.max() >= 0.1 and np.ptp(cpu) > 0.05:
            found.append(workload(row["app"], cpu, memory, days))
            if len(found) == count:
                break
    return found


class Cluster:
    """One workload under the manager's engine: a kubelet that does what is asked, and what its pods report."""

    def __init__(self, of: Workload) -> None:
        self.of = of
        self.engine = RightSizer(lambda at_s: f"{at_s:.0f}")
        self.sizing = RightSizing("ns/app", "s", 1, "Deployment", "app", mode=SizingMode.ACT)
        self.engine.owner_seen("ns", "app-1", ("Deployment", "app"))
        asked = ContainerSize(of.asked_m, None, of.asked_mib * MIB, of.asked_mib * MIB)
        self.pods = [
            SizedPod(
                *("ns", f"app-{at}", f"uid-{at}", "n", "ReplicaSet", "app-1", True, True),
                (SizedContainer("app", asked, allocated=asked),),
            )
            for at in range(REPLICAS)
        ]
        for pod in self.pods:
            self.engine.pod_seen(pod)
        self.engine.sizing_seen(self.sizing)
        self.engine.leads_now()

    def run(self) -> Course:
        """All steps. While nothing goes on the engine is asked each hour: its history is by the hour."""
        steps = self.of.cpu.shape[1]
        cpu, memory = (np.zeros((REPLICAS, steps), np.float32) for _ in range(2))
        kills = 0
        outcomes: list[SizingOutcome] = []
        for step in range(steps):
            now_s = BEGIN_S + (step + 1) * STEP_S
            for at, pod in enumerate(self.pods):
                size = pod.containers[0].size
                cpu[at, step] = size.cpu_request_m or 0
                memory[at, step] = (size.memory_request_bytes or 0) / MIB
                if self.of.memory[at, step] * MIB > (size.memory_limit_bytes or np.inf):
                    kills += 1
                    ended = replace(pod.containers[0], restarts=pod.containers[0].restarts + 1, was_oom_killed=True)
                    self._put(at, replace(pod, containers=(ended,)))
            self._report(step, now_s)
            if self.sizing.status.change is not None or step % HOUR == HOUR - 1:
                before = len(self.sizing.status.receipts), self.sizing.status.receipts[:1]
                for _ in range(2):  # what is stored is seen, and the resizes that follow from it
                    self._decide(now_s)
                if (len(self.sizing.status.receipts), self.sizing.status.receipts[:1]) != before:
                    outcomes.append(self.sizing.status.receipts[0].outcome)
        return Course(cpu, memory, kills, len(outcomes), sum(one is not SizingOutcome.DONE for one in outcomes))

    def _decide(self, now_s: float) -> None:
        for write in self.engine.decide(now_s):
            if isinstance(write, WriteSizing):
                self.sizing = replace(self.sizing, status=write.status)
                self.engine.sizing_seen(self.sizing)
            else:
                at = int(write.pod.rpartition("-")[2])
                container = replace(self.pods[at].containers[0], size=write.size, allocated=write.size)
                self._put(at, replace(self.pods[at], containers=(container,)))

    def _put(self, at: int, pod: SizedPod) -> None:
        self.pods[at] = pod
        self.engine.pod_seen(pod)

    def _report(self, step: int, now_s: float) -> None:
        pods = {}
        for at, pod in enumerate(self.pods):
            use_m = float(self.of.cpu[at, step])
            above = max(0.0, use_m / (pod.containers[0].size.cpu_request_m or 1) - 1.0)
            signals = PodSignals(wait_per_cpu=IDLE_WAIT + self.of.pressure * above)
            use = Use(int(use_m), int(float(self.of.memory[at, step]) * MIB))
            pods[pod.key] = MeasuredPod(use, signals=signals)
        self.engine.metric_seen(NodeMetric("n", 0.0, pods=pods, updated_s=now_s), now_s)


def ours(of: Sequence[Workload]) -> list[Course]:
    """The engine on each."""
    return [Cluster(one).run() for one in of]


def by_rule(of: Sequence[Workload], rule: Predictor) -> list[Course]:
    """A rule without a guard on all."""
    steps = of[0].cpu.shape[1]
    worst = {
        "cpu": np.array([one.cpu.max(axis=0) for one in of]),
        "memory": np.array([one.memory.max(axis=0) for one in of]),
    }
    asked = {"cpu": np.array([one.asked_m for one in of]), "memory": np.array([one.asked_mib for one in of])}
    said: dict[str, Float] = {}
    changed = np.zeros((len(of), steps), bool)
    for resource, use in worst.items():
        unknown = np.full(len(of), np.nan)
        past = Past(use, STEP_S, unknown, unknown)
        origins = range(DAY, steps, HALF_DAY)
        stands = asked[resource].astype(float)
        course = np.repeat(stands[:, None], steps, axis=1)
        for origin, below in zip(origins, rule.below_each(past, origins, DAY, RISK), strict=True):
            size = quantiles(below, 1.0)
            moves = ~np.isnan(size) & (np.abs(size - stands) > ENOUGH * stands)
            stands = np.where(moves, size, stands)
            course[:, origin:] = stands[:, None]
            changed[:, origin] |= moves
        said[resource] = course
    highest = np.maximum.accumulate(worst["memory"], axis=1)
    limit = np.maximum(said["memory"], RESERVE * np.concatenate([highest[:, :1], highest[:, :-1]], axis=1))
    limit[:, :DAY] = asked["memory"][:, None]
    return [
        Course(
            np.repeat(said["cpu"][at][None], REPLICAS, axis=0).astype(np.float32),
            np.repeat(said["memory"][at][None], REPLICAS, axis=0).astype(np.float32),
            int((one.memory > limit[at]).sum()),
            int(changed[at].sum()),
            0,
        )
        for at, one in enumerate(of)
    ]


def as_asked(of: Sequence[Workload]) -> list[Course]:
    """Nothing is changed."""
    return [
        Course(
            np.full_like(one.cpu, one.asked_m),
            np.full_like(one.memory, one.asked_mib),
            int((one.memory > one.asked_mib).sum()),
            0,
            0,
        )
        for one in of
    ]


def losses(of: Sequence[Workload], courses: Sequence[Course]) -> Float:
    """By workload, percent, after the day without history."""
    found = []
    for one, course in zip(of, courses, strict=True):
        miss = (one.cpu - course.cpu)[:, DAY:]
        loss = np.where(miss > 0, (1.0 - RISK) * miss, -RISK * miss).mean()
        found.append(100 * float(loss) / float(one.cpu[:, DAY:].mean()))
    return np.array(found)


def rivals(tuned: Sequence[Workload]) -> Iterator[tuple[str, Predictor]]:
    """Each rule as published, and with the setting of the least loss on these."""
    published: list[Predictor] = [HighestSoFar(), LastDayPeak(), NSigma(), BorgPeak(), VpaHistogram()]
    for rule in published:
        yield f"{rule.name}, published", rule
    for name, settings in RULES.items():
        yield f"{name}, tuned", min(settings, key=lambda rule: float(losses(tuned, by_rule(tuned, rule)).mean()))


def row(name: str, of: Sequence[Workload], courses: Sequence[Course], own: Float) -> dict[str, Any]:
    """One line of the table."""
    loss = losses(of, courses)
    apart = interval(loss - own)
    days = len(of) * of[0].cpu.shape[1] / DAY
    both = [*zip(of, courses, strict=True)]
    squeezed = interval([100 * float((one.cpu > course.cpu)[:, DAY:].mean()) for one, course in both])
    return {
        "rule": name,
        "cpu": round(100 * float(np.mean([course.cpu[:, DAY:].mean() / one.asked_m for one, course in both])), 1),
        "memory": round(
            100 * float(np.mean([course.memory[:, DAY:].mean() / one.asked_mib for one, course in both])), 1
        ),
        "squeezed": f"{squeezed.mean:.2f} ±{squeezed.half_width:.2f}",
        "loss": f"{loss.mean():.3f}",
        "to ours": f"{apart.mean:+.3f} ±{apart.half_width:.3f}" if (loss != own).any() else "",
        "kills": round(1000 * sum(course.kills for course in courses) / (days * REPLICAS), 1),
        "changes": round(7 * sum(course.changes for course in courses) / days, 2),
        "taken back": sum(course.taken_back for course in courses),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """A row a rule."""
    parser = argparse.ArgumentParser(prog="python -m bench.right_sizing", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workloads", type=int, default=60, help="of each half")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    of = workloads(asked.workloads, asked.days, reported=True)
    engine = ours(of)
    own = losses(of, engine)
    rows = [row("RightSizing (ours)", of, engine, own), row("as people asked", of, as_asked(of), own)]
    tuned = workloads(asked.workloads, asked.days, reported=False)
    rows += [row(name, of, by_rule(of, rule), own) for name, rule in rivals(tuned)]
    show(rows, asked.json, [f"{len(of)} applications, {asked.days} days, {REPLICAS} replicas each"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
