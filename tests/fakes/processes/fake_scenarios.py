"""Workloads that cost nothing: figures drawn from the seed, shaped like the real ones. Named by COTENANT_SCENARIOS in
tests.

`fake` has a clock, both classes and every kind of picture; `fake-packing` has neither violations nor a clock. Some of
its policies fail on purpose: `raises`, `refuses`, `absurd`, `dies`, whose process is killed until the file named by
FAKE_MARKER exists, and `interrupts`, which presses Ctrl-C in the process that started it. `reads` takes its figure from
the workload's file.
"""

from __future__ import annotations

import os
import signal
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotenant.model.errors import InvalidInput
from cotenant.model.results.forms import RunSeries
from cotenant_lab.contract import MachineMap, Measures, PolicyInfo, RunResult, RunSpec, TaskExplanation

# name, role, load it carries, fragmentation, decision time (us)
_POLICIES = (
    ("cotenant", "ours", 0.90, 0.0044, 18.0),
    ("cotenant-no-interference", "ablation", 0.78, 0.006, 14.0),
    ("edf-paragon", "rival", 0.85, 0.0068, 25.0),
    ("edf-paragon-overcommit", "rival", 0.86, 0.0066, 27.0),
    ("edf-least-allocated", "rival", 0.83, 0.0047, 9.0),
    ("least-allocated", "rival", 0.80, 0.0047, 8.0),
    ("kube-default", "rival", 0.79, 0.005, 30.0),
    ("firmament-spreading", "rival", 0.77, 0.006, 900.0),
    ("founding", "rival", 0.74, 0.0075, 22.0),
    ("tetris", "rival", 0.68, 0.0067, 120.0),
    ("random", "rival", 0.735, 0.009, 3.0),
    ("first-fit", "rival", 0.66, 0.0624, 4.0),
    ("best-fit", "rival", 0.65, 0.061, 6.0),
    ("drf-best-fit", "rival", 0.65, 0.0613, 11.0),
    ("true-values", "bound", 0.93, 0.0046, 18.0),
)
_FAULTY = ("raises", "refuses", "absurd", "dies", "interrupts")


@dataclass(frozen=True)
class FakeScenario:
    """A scenario whose figures follow a formula."""

    name: str = "fake"
    summary: str = "figures from a formula"
    provenance: str = "synthetic: no world behind it"
    default_load: float = 0.77
    default_policies: tuple[str, ...] = tuple(policy[0] for policy in _POLICIES)
    headline: tuple[str, ...] = (
        "success",
        "utilisation",
        "utilisation_used",
        "fragmentation",
        "violation",
        "violation_service",
        "violation_batch",
        "task_fairness",
        "dominant_fairness",
        "slowdown_p99",
    )

    def policies(self) -> tuple[PolicyInfo, ...]:
        told = [PolicyInfo(name, f"fits by formula ({name})", role) for name, role, *_ in _POLICIES]
        told.append(PolicyInfo("reads", "its success is the content of the workload's file", "rival"))
        return (*told, *(PolicyInfo(name, "fails on purpose", "rival") for name in _FAULTY))

    def check(self, spec: RunSpec) -> None:
        if spec.load > 1.5:
            raise InvalidInput("--load", spec.load, "at most 1.5")
        for knob, _ in spec.overrides:
            if knob not in ("spread", "packing_weight"):
                raise InvalidInput("--set", f"{spec.policy}.{knob}", "a knob of that policy: spread, packing_weight")

    def run(self, spec: RunSpec) -> RunResult:
        match spec.policy:
            case "raises":
                raise RuntimeError("it was asked to fail")
            case "refuses":
                raise InvalidInput("machine_meta.csv: line 7", "x", "a number")
            case "absurd":
                return RunResult(spec, Measures(success=7.0))
            case "reads" if spec.file is not None:
                return RunResult(spec, Measures(success=float(spec.file.read_text())))
            case "interrupts":
                os.kill(os.getppid(), signal.SIGINT)
            case "dies" if not Path(os.environ["FAKE_MARKER"]).exists():
                os.kill(os.getpid(), signal.SIGKILL)
        return self._figures(spec)

    def _figures(self, spec: RunSpec) -> RunResult:
        _, _, carries, fragment, cost = next((policy for policy in _POLICIES if policy[0] == spec.policy), _POLICIES[0])
        carries += 0.1 * (dict(spec.overrides).get("packing_weight", 0.29) - 0.29)  # what a search can find
        shared = np.random.default_rng([spec.seed, 1])  # the workload's luck, the same for every policy
        own = np.random.default_rng([spec.seed, zlib.crc32(spec.policy.encode())])
        luck = shared.normal(0, 0.25)
        excess = spec.load - carries
        service = 0.01 * np.exp(9 * excess + 0.6 * luck + own.normal(0, 0.15)) * spec.interference
        batch = 0.01 * np.exp(11 * excess + luck + own.normal(0, 0.15))
        slow = np.sort(1 + own.gamma(1.2, 0.1 + 0.3 * max(0.0, 0.3 + excess), 2_000))
        hours = np.arange(0, 6.01, 1 / 12)
        wave = fragment * (1 + 0.3 * np.sin(hours * 2 + luck)) * (1 - np.exp(-hours * 2)) + own.normal(
            0, 3e-5, hours.size
        )
        measures = Measures(
            success=float(1 - 0.4 * max(0.0, excess) ** 1.5),
            utilisation=min(1.0, spec.load + float(0.05 * max(0.0, excess))),
            utilisation_used=0.57 * spec.load,
            utilisation_memory=0.88 * spec.load,
            utilisation_memory_used=0.63 * spec.load,
            fragmentation=float(wave.mean()),
            violation=float(0.45 * service + 0.55 * batch),
            violation_service=float(service),
            violation_batch=float(batch),
            violation_count=float(0.5 * batch),
            task_fairness=float(1 - 0.2 * (slow.mean() - 1)),
            dominant_fairness=float(0.134 + 0.01 * luck),
            granted_fairness=float(1 - 0.01 * max(0.0, excess)),
            slowdown_p50=float(np.quantile(slow, 0.5)),
            slowdown_p95=float(np.quantile(slow, 0.95)),
            slowdown_p99=float(np.quantile(slow, 0.99)),
            wait_p99_s=float(30 + 600 * max(0.0, excess)),
            evictions=float(own.poisson(3)),
            preemptions=0.0,
            decision_p50_us=cost,
            decision_p99_us=cost * 4.2,
            decision_total_s=cost * 0.02,
        )
        machines = np.repeat(np.arange(120), 12)
        owner = shared.zipf(1.6, machines.size) % 9
        is_service = shared.random(machines.size) < 0.4
        share = shared.random(machines.size) * 2 * min(1.0, spec.load) / 12
        return RunResult(
            spec,
            measures,
            series=(
                RunSeries(
                    "fragmentation", "time (h)", "fragmentation (% of capacity)", hours, np.maximum(wave, 0) * 100
                ),
            ),
            slowdowns=slow,
            machine_map=MachineMap("at 3.0 h", machines, tuple(f"tenant {i}" for i in owner), share, is_service),
            by_class=(("services placed", 1.0), ("batch finished", float(1 - 0.1 * max(0.0, excess)))),
            notes=("Durations are stretched by about 79 times against the real ones.",),
        )

    def explain(self, spec: RunSpec, task: str) -> TaskExplanation:
        if task != "pod-7":
            raise InvalidInput("TASK", task, "a task of this run, pod-0 to pod-19999")
        parts = (("free", 12.0), ("violations", -3.5))
        return TaskExplanation(
            task,
            f"placed on node-3 by {spec.policy}",
            ("ready at 12.0 s, decided at 15.0 s", "asks 2 cores and 4 GiB"),
            (("fit: too little CPU", 31), ("not ready", 2)),
            (("node-3", 8.5, parts), ("node-9", 8.1, parts)),
        )


@dataclass(frozen=True)
class PackingScenario(FakeScenario):
    """Arrivals without departures, so neither violations nor a sustained load."""

    name: str = "fake-packing"
    headline: tuple[str, ...] = ("success", "fragmentation", "first_failure", "decision_p50_us")

    def run(self, spec: RunSpec) -> RunResult:
        own = np.random.default_rng([spec.seed, zlib.crc32(spec.policy.encode())])
        _, _, carries, fragment, cost = next(policy for policy in _POLICIES if policy[0] == spec.policy)
        measures = Measures(
            success=float(carries),
            fragmentation=fragment,
            first_failure=float(carries + own.normal(0, 0.004)),
            decision_p50_us=cost,
        )
        return RunResult(spec, measures)


SCENARIOS = (FakeScenario(), PackingScenario())
