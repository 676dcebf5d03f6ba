"""Services and batch on shared machines: `founding` at one load, `colocation` over a sweep of loads.

The founding table compared policies at one load, at which random placement passes every target. The same world twice:
once as in the founding table (figures that are properties of the trace are marked as such), once over a sweep, where
the largest load that each policy sustains distinguishes them.
Limits: a synthetic workload calibrated on published figures, durations stretched about 79 times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from time import perf_counter

import numpy as np

from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.arrays import Float
from cotenant.model.errors import InvalidInput
from cotenant.model.results.forms import RunSeries
from cotenant_lab.bridge import Bridge
from cotenant_lab.contract import Measures, PolicyInfo, RunResult, RunSpec, Scenario, TaskExplanation
from cotenant_lab.lending import lending_of
from cotenant_lab.scenarios.ceiling import max_held
from cotenant_lab.scenarios.competitors import BOUND, COMPETITORS, competitor
from cotenant_lab.workload_file import read_workload_file
from cotenant_lab.workloads.colocation import generate
from cotenant_lab.workloads.replayed import Replayed
from cotenant_lab.world.accounting import RunMetrics
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.laws import describe, drawn
from cotenant_lab.world.offer import Offer, without_profiles
from cotenant_lab.world.truth import Truth
from cotenant_lab.world.world import World

REPLAY = "replay"
_STRETCHED = (
    "Real v2018 instances last 35 s: 20,000 of them would fill 249 nodes for half a minute. Durations are "
    "stretched about 79 times."
)
_SAMPLE = 2000  # slowdowns kept per run
_PLAIN = (  # in the founding table by default, beside ours
    "cotenant", "random", "first-fit", "best-fit", "kube-default", "drf-best-fit", "mesos-offers", "tetris",
    "firmament-quincy", "firmament-load-spreading", "firmament-coco", "founding", "edf-best-fit", "edf-least-allocated",
    "edf-paragon", "bound",
)  # fmt: skip


def configuration(spec: RunSpec) -> WorldConfig:
    """The world of a specification, with the values of a user's file applied; a mixed law is drawn from its seed.
    Raises `InvalidInput`.
    """
    config = WorldConfig(interference=spec.interference, node_qos=spec.node_qos, failures=spec.failures)
    config = drawn(config, spec.pressure_law, spec.seed)
    replayed = _replayed(spec)
    if replayed is not None:
        config = replayed.configured(config)
    if spec.file is None:
        return config
    own = read_workload_file(spec.file)
    if own.nodes is not None:
        config = replace(config, nodes=own.nodes, pods=max(1, round(config.pods * own.nodes / config.nodes)))
    if own.service_share is not None:
        config = replace(config, service_share=own.service_share)
    if own.node_guard is not None:
        config = replace(config, node_guard=own.node_guard)
    if own.horizon_h is not None:
        config = replace(config, horizon_s=own.horizon_h * 3600.0)
    return config


def workload(spec: RunSpec, config: WorldConfig, error: float) -> tuple[Truth, Offer, tuple[str, ...]]:
    """The workload of a specification, drawn or replayed from a trace, with notes on where it comes from. Raises
    `InvalidInput`.
    """
    replayed = _replayed(spec)
    truth, offer = generate(config, spec.seed, spec.load, error, given=replayed)
    return truth, offer, replayed.notes() if replayed is not None else (_STRETCHED,)


def _replayed(spec: RunSpec) -> Replayed | None:
    if spec.workload != REPLAY:
        return None
    if spec.traces is None:
        raise InvalidInput("traces", "not given", "a folder that `cotenant lab import` wrote, or the published files")
    from cotenant_lab.workloads.imported import read_imported  # loads polars

    return Replayed(read_imported(spec.traces))


@dataclass(frozen=True, slots=True)
class CoLocation:
    """Both scenarios: they differ in load and default policies."""

    name: str
    summary: str
    default_load: float
    default_policies: tuple[str, ...]
    headline: tuple[str, ...]
    provenance: str = (
        "synthetic, calibrated on Alibaba 2018 and Tianchi 2018 figures; 20,000 pods on 249 nodes unless a file says "
        "otherwise, batch durations stretched about 79 times"
    )

    def policies(self) -> tuple[PolicyInfo, ...]:
        """All policies."""
        return tuple(e.info for e in COMPETITORS)

    def check(self, spec: RunSpec) -> None:
        """Raise `InvalidInput` for a specification that cannot run."""
        config = configuration(spec)
        if not (isfinite(spec.load) and config.service_share < spec.load <= 1.5):
            raise InvalidInput(
                "--load", spec.load, f"a fraction of CPU between {config.service_share} (the services alone) and 1.5"
            )
        competitor(spec.policy).build(spec.overrides)

    def run(self, spec: RunSpec) -> RunResult:
        """One run."""
        started = perf_counter()
        if spec.policy == BOUND:
            return self._bound(spec)
        bridge, notes = self.built(spec)
        bridge.run()
        return result(spec, bridge, notes, perf_counter() - started)

    def explain(self, spec: RunSpec, task: str) -> TaskExplanation:
        """Run it again and record the decisions about one pod."""
        self.check(spec)
        if spec.policy == BOUND:
            raise InvalidInput("--policy", BOUND, "a policy", "a bound places nothing, so there is nothing to explain")
        bridge = self._bridge(spec)
        pods = len(bridge.offer.shape)
        number = task.removeprefix("pod").strip()
        if not number.isdigit() or int(number) >= pods:
            raise InvalidInput("TASK", task, f"a pod's number, 0..{pods - 1}")
        pod = int(number)
        bridge = self._bridge(spec, pod)
        bridge.run()
        shape = int(bridge.offer.shape[pod])
        kind = "service replica" if bridge.offer.is_service[shape] else f"batch pod of job {bridge.offer.job[shape]}"
        lines = [
            f"{kind}, tenant {bridge.offer.tenant[shape]}, requests {bridge.offer.cpu_milli[shape] / 1000:g} cores and "
            f"{bridge.offer.memory_bytes[shape] / 2**30:.1f} GiB",
            f"estimated: {bridge.offer.est_use_cores[shape]:.2f} cores in use, sensitivity "
            f"{bridge.offer.est_sensitivity[shape]:.2f}, "
            f"pressure {bridge.offer.est_pressure[shape]:.2f}",
            bridge.world.story(pod),
        ]
        learned = bridge.learned(pod)
        if learned is not None:
            lines.append(f"learned of its application by the end of the run: {learned.words()}")
        record = bridge.record
        if record is None:
            lines.append("a round policy places all pods together and records no single decision")
            return TaskExplanation(task, bridge.world.story(pod), tuple(lines))
        return TaskExplanation(
            task,
            record.headline(),
            tuple(lines),
            tuple((r.reason, r.nodes) for r in record.rejections),
            tuple((c.node, c.score, tuple((p.name, p.value) for p in c.parts)) for c in record.candidates),
        )

    def _bound(self, spec: RunSpec) -> RunResult:
        """The upper bound of what could be held at once, every ten minutes of the averaging window, if every job
        ran alone on arrival.
        """
        config = configuration(spec)
        _, offer, _ = workload(spec, config, 0.0)
        times = np.arange(config.averages_from_s, config.horizon_s, 600.0)
        held, demanded = max_held(offer, config, times)
        return RunResult(
            spec=spec,
            measures=Measures(utilisation=float((held * demanded).mean()), run_s=0.0),
            by_class=(
                ("largest share of the demand that can be held, worst time", float(held.min())),
                ("demand, time mean", float(demanded.mean())),
            ),
            notes=(
                "The bound assumes fluid pods that run alone from their arrival: real runs take longer, so they "
                "demand more at once.",
            ),
        )

    def _bridge(self, spec: RunSpec, watched: int = -1) -> Bridge:
        return self.built(spec, watched)[0]

    def built(
        self, spec: RunSpec, watched: int = -1, packed_by: str = "", rebalancing: RebalancerSettings | None = None
    ) -> tuple[Bridge, tuple[str, ...]]:
        """The bridge of a run, and what its notes say of the workload. `packed_by`: the policy to start with, given
        what `spec.policy` is given. `rebalancing`: of a rebalancer that the policy does not have itself.
        """
        config = configuration(spec)
        chosen = competitor(spec.policy)
        error = 0.0 if chosen.true_values else spec.estimate_error
        truth, offer, notes = workload(spec, config, error)
        if not (spec.declared_profiles or chosen.true_values):
            offer = without_profiles(offer)
        world = World(truth, config, spec.seed)
        policy = competitor(packed_by).build() if packed_by else chosen.build(spec.overrides)
        lending = lending_of(chosen.lends, offer, config)
        rebalancing = rebalancing or (None if packed_by else chosen.rebalances)
        rng = np.random.default_rng([spec.seed, 7])
        return Bridge(world, offer, config, policy, rng, watched, lending, rebalancing), notes


def result(spec: RunSpec, bridge: Bridge, notes: tuple[str, ...], run_s: float) -> RunResult:
    """The figures of a run that has ended. `run_s`: its wall time."""
    account = bridge.world.account()
    return RunResult(
        spec=spec,
        measures=_measures(account, bridge, run_s),
        series=_series(account),
        slowdowns=_sample(account.slowdown),
        machine_map=account.machine_map,
        machine_frames=account.machine_frames,
        by_class=(
            ("violation by unplaced", account.violation_unplaced),
            ("violation by queueing", account.violation_queued),
            ("violation by restarts", account.violation_restarted),
            ("violation by slowdown", account.violation_slowed),
            ("unfinished batch pods", float(account.unfinished)),
        ),
        notes=(*notes, describe(bridge.config)),
    )


def _measures(account: RunMetrics, bridge: Bridge, run_s: float) -> Measures:
    slowdown = np.sort(account.slowdown)

    def at(q: float) -> float:
        return float(slowdown[min(len(slowdown) - 1, int(q * len(slowdown)))])

    waits = np.sort(account.wait_s)
    return Measures(
        success=account.success,
        utilisation=account.requested_cpu,
        utilisation_used=account.used_cpu,
        utilisation_memory=account.requested_memory,
        utilisation_memory_used=account.used_memory,
        fragmentation=account.fragmentation,
        violation=account.violation,
        violation_service=account.violation_service,
        violation_batch=account.violation_batch,
        violation_count=account.violation_count,
        task_fairness=account.task_fairness,
        dominant_fairness=account.dominant_fairness,
        granted_fairness=account.granted_fairness,
        slowdown_p50=at(0.50),
        slowdown_p95=at(0.95),
        slowdown_p99=at(0.99),
        wait_p99_s=float(waits[int(0.99 * (len(waits) - 1))]),
        evictions=float(account.evictions_memory + account.evictions_failure),
        preemptions=float(account.evictions_asked),
        decision_p50_us=bridge.timing.quantile_us(0.50),
        decision_p99_us=bridge.timing.quantile_us(0.99),
        decision_total_s=bridge.timing.total_s,
        run_s=run_s,
    )


def _series(account: RunMetrics) -> tuple[RunSeries, ...]:
    line = account.timeline
    hours = line.time_s / 3600.0

    def series(name: str, label: str, values: Float) -> RunSeries:
        taken = ~np.isnan(values)
        return RunSeries(name, "time (h)", label, hours[taken], values[taken])

    return (
        series("fragmentation", "idle CPU that pods cannot use, fraction of the cluster", line.fragmentation),
        series("requested", "CPU requested, fraction of the cluster", line.requested_cpu),
        series("used", "CPU used, fraction of the cluster", line.used_cpu),
        series("service violation", "replicas missing their objective, by cores", line.service_violation),
        series("queued", "pods waiting", line.queued_pods),
    )


def _sample(slowdown: Float) -> Float:
    """At most `_SAMPLE` order statistics, evenly spaced, unfinished ones last as inf."""
    ordered = np.sort(slowdown)
    if len(ordered) <= _SAMPLE:
        return ordered
    return ordered[np.linspace(0, len(ordered) - 1, _SAMPLE).astype(np.int64)]


SCENARIOS: tuple[Scenario, ...] = (
    CoLocation(
        name="founding",
        summary="20,000 pods, services and batch, on 249 nodes at 77 % of CPU requested: the founding comparison",
        default_load=0.77,
        default_policies=_PLAIN,
        headline=(
            "success", "utilisation", "fragmentation", "violation", "violation_service", "violation_batch",
            "task_fairness",
            "dominant_fairness",
        ),
    ),
    CoLocation(
        name="colocation",
        summary="the same world over a sweep of loads: the largest load of each policy at <= 1 % violation of either "
            "class",
        default_load=0.85,
        default_policies=("cotenant", "founding", "kube-default", "edf-least-allocated", "edf-paragon",
            "edf-paragon-overcommit", "edf-paragon-measured"),
        headline=(
            "success", "utilisation", "violation", "violation_service", "violation_batch", "slowdown_p99",
            "fragmentation",
        ),
    ),
    CoLocation(
        name=REPLAY,
        summary="an imported trace in the co-located world: its arrivals, sizes and usage; what it does not record is "
            "drawn",
        default_load=0.85,
        default_policies=("cotenant", "cotenant-requests", "founding", "kube-default", "edf-best-fit",
            "edf-least-allocated", "edf-paragon"),
        headline=(
            "success", "utilisation", "violation", "violation_service", "violation_batch", "slowdown_p99",
            "fragmentation",
        ),
        provenance="the trace in --traces (pai2020, azure-vm, alibaba2017, swim, dlrm2025, google2019 or generic); "
            "the notes say what of it is used",
    ),
)  # fmt: skip
