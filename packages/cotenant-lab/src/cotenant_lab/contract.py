"""The contract of the lab's parts: a run's specification, its result, and a scenario that turns one into the other.

A scenario is a workload with a world to run it in (founding, colocation, openb, tianchi, dag, training, takeover). The
experiment runner depends only on this file: it crosses policies with seeds and loads, runs each specification in a
process of its own, and reports the results. Equal specifications give equal results: the seed fixes the workload, the
failures and every tie.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cotenant.model.identical_fields import identical
from cotenant.model.results.forms import MachineFrames, RunSeries


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run. `load` is the fraction of the cluster's CPU (openb: GPU) that the workload asks for."""

    workload: str
    policy: str
    seed: int
    load: float
    interference: float = 1.0  # scales the world's contention: 0 = none, 1 = calibrated, 2 = twice
    pressure_law: str = "linear"  # of the co-located world: linear, knee, queueing, or mixed (drawn from the seed)
    estimate_error: float = 0.2  # log-normal sd of the estimates every scheduler is shown; 0 = true values
    # whether schedulers are shown estimates of sensitivity, pressure and tolerance; no = none, as in a cluster
    declared_profiles: bool = True
    node_qos: bool = True  # whether the nodes protect services from batch
    failures: bool = True  # whether nodes fail and recover
    traces: Path | None = None  # folder of real traces, for the workloads that need them
    file: Path | None = None  # the YAML file of a user's own workload
    overrides: tuple[tuple[str, float], ...] = ()  # knobs of the policy, by name: ablations and tuning


@dataclass(frozen=True, slots=True)
class Measures:
    """One number per metric; NaN where a workload does not define it. `cotenant_lab/metrics.py` has the
    definitions. Fractions are 0..1.
    """

    success: float = nan
    utilisation: float = nan  # requested CPU (openb: allocated GPU)
    utilisation_used: float = nan  # used CPU
    utilisation_memory: float = nan  # requested memory
    utilisation_memory_used: float = nan
    fragmentation: float = nan
    violation: float = nan
    violation_service: float = nan
    violation_batch: float = nan
    violation_count: float = nan  # by number of pods instead of core-hours
    task_fairness: float = nan
    dominant_fairness: float = nan
    granted_fairness: float = nan  # Jain over tenants of granted / demanded
    slowdown_p50: float = nan
    slowdown_p95: float = nan
    slowdown_p99: float = nan
    wait_p99_s: float = nan
    wait_mean_s: float = nan
    wait_p50_s: float = nan
    completion_mean_s: float = nan  # of jobs, from arrival to end
    completion_p50_s: float = nan
    completion_p99_s: float = nan
    held_idle: float = nan  # share of held resources that belong to jobs that do not run
    guarantee_missed: float = nan  # share of what teams were entitled to and requested
    racks_crossed: float = nan  # share of runs of multi-pod jobs that one rack could have held
    evictions: float = nan  # count
    preemptions: float = nan  # count
    violation_before: float = nan  # of services, before the policy took over
    violation_recovered: float = nan  # of services, when it had time to repair
    violation_fresh: float = nan  # of services at the same hour, had it placed everything
    moved_recovery: float = nan  # of replicas, in the first half hour
    moved_hourly: float = nan  # of replicas, an hour, in a cluster that the policy placed
    moved_again: float = nan  # count, within an hour of the move before
    first_failure: float = nan  # load at the first pod that found no node
    decision_p50_us: float = nan
    decision_p99_us: float = nan
    decision_total_s: float = nan
    run_s: float = nan  # wall time of the run

    def __eq__(self, other: object) -> bool:
        """Metric by metric; one that both lack (NaN) is equal."""
        return identical(self, other)


@dataclass(frozen=True, slots=True)
class MachineMap:
    """The assignment of pods to machines at one instant. Aligned columns, one entry per resident."""

    at: str  # e.g. "at 3.0 h"
    machine: NDArray[np.int64]
    owner: tuple[str, ...]  # tenant or class, one per resident
    cpu_share: NDArray[np.float64]  # of the machine's CPU
    is_service: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run."""

    spec: RunSpec
    measures: Measures
    series: tuple[RunSeries, ...] = ()
    slowdowns: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # a sample, at most 2,000, sorted
    machine_map: MachineMap | None = None
    by_class: tuple[tuple[str, float], ...] = ()  # further named figures of this scenario, e.g. acceptance by class
    notes: tuple[str, ...] = ()
    machine_frames: MachineFrames | None = None


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """A policy a scenario can run. `role`: ours, rival, variant (of a rival: more informed, other knobs), bound,
    ablation.
    """

    name: str
    summary: str
    role: str


@dataclass(frozen=True, slots=True)
class TaskExplanation:
    """Why a task was placed on its node, or was not placed: one decision of a run, as text."""

    task: str
    outcome: str
    lines: tuple[str, ...]
    rejected: tuple[tuple[str, int], ...] = ()  # nodes rejected, by filter and reason
    candidates: tuple[tuple[str, float, tuple[tuple[str, float], ...]], ...] = ()  # node, score, its parts


class Scenario(Protocol):
    """A workload and its world."""

    @property
    def name(self) -> str:
        """The value of `--workload`."""
        ...

    @property
    def summary(self) -> str:
        """One line for `cotenant lab workloads`."""
        ...

    @property
    def provenance(self) -> str:
        """Synthetic (calibrated to what) or which trace, and whether it needs --traces."""
        ...

    @property
    def default_load(self) -> float:
        """The load used when none is given."""
        ...

    @property
    def default_policies(self) -> tuple[str, ...]:
        """The policies run when none are given."""
        ...

    @property
    def headline(self) -> tuple[str, ...]:
        """Fields of `Measures` shown as columns."""
        ...

    def policies(self) -> tuple[PolicyInfo, ...]:
        """Every policy that can run here, in display order."""
        ...

    def check(self, spec: RunSpec) -> None:
        """Raise `cotenant.model.errors.InvalidInput` where the specification cannot run (unknown policy, traces
        absent, absurd load).
        """
        ...

    def run(self, spec: RunSpec) -> RunResult:
        """Run it. Pure in `spec`."""
        ...

    def explain(self, spec: RunSpec, task: str) -> TaskExplanation:
        """Run it again with recording on, and return the task's decision."""
        ...
