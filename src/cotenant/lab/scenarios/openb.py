"""openb: pods that share GPUs arrive at a real cluster until it is full and beyond; how much of the GPU gets allocated?

Problem: below 90 % of the GPUs all policies are alike; past that they differ by what they stranded on the way. Choice: the published
recipe (see `lab.workloads.openb`) on the published trace, the rivals of the published table, and ours, all work-conserving:
a pod that fits on some node is placed, so nobody gains by refusing awkward sizes; acceptance by class and the load at the
first refusal show who spreads early what big pods need later. Limits: pods do not leave and do not come again.

Latency: decisions are timed in blocks of up to 32, the block's time divided by its pods; compilation is not in it, filling the
table of kept scores is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from cotenant.engine.device_queue import KeptScores, kept_scores, place_all
from cotenant.lab.contract import Explanation, Measures, PolicyInfo, RunResult, RunSpec, Series
from cotenant.lab.workloads.openb import (
    FOLDER,
    NODE_LIST,
    Cluster,
    PodList,
    arrivals,
    pod_list_path,
    read_cluster,
    read_pods,
)
from cotenant.lab.workloads.openb_bound import allocation_bound
from cotenant.model.arrays import Float, Int
from cotenant.model.errors import InvalidInput
from cotenant.policy.baselines.fgd import TYPICAL_COVER, GpuRule, score_node
from cotenant.policy.placement.gpu_fragmentation import GpuMix, GpuWeights, cluster_fragment_gpus, mix_of, phi_parts
from cotenant.policy.placement.gpu_state import MISFIT_TEXT, GpuNodes, Misfit, misfit
from cotenant.policy.placement.gpu_tuning import weights_for

_BLOCK = 32  # decisions timed together
_STEP = 0.01  # of the GPUs arrived, between the points of the curves
_MOST_LOAD = 10.0
_CLASSES = (("cpu-only", 0), ("shared GPU", -1), ("1 GPU", 1), ("2 GPUs", 2), ("4 GPUs", 4), ("8 GPUs", 8))
_CANDIDATES = 5
_BOUND = "bound"
_BOUND_MUST_PLACE = 0.9  # of the GPUs arrived, what the bound must place before it may choose


@dataclass(frozen=True, slots=True)
class _Policy:
    info: PolicyInfo
    rule: GpuRule
    cover: float = 1.0  # share of the pods whose classes the policy knows
    small_first: bool = False  # rows in order of their GPUs, so that ties leave big nodes whole; else as listed
    without: tuple[str, ...] = ()  # weights set to 0


_POLICIES = {
    policy.info.name: policy
    for policy in (
        _Policy(
            PolicyInfo("cotenant", "lowers FGD's fragment, CPU and GPU out of balance, and the price of holes", "ours"),
            GpuRule.POTENTIAL,
            small_first=True,
        ),
        _Policy(
            PolicyInfo("cotenant-no-hole", "ours without the price of holes", "ablation"),
            GpuRule.POTENTIAL,
            small_first=True,
            without=("hole",),
        ),
        _Policy(
            PolicyInfo("cotenant-no-balance", "ours without the balance of CPU and GPU", "ablation"),
            GpuRule.POTENTIAL,
            small_first=True,
            without=("shortage", "surplus"),
        ),
        _Policy(
            PolicyInfo("fgd", "fragmentation gradient descent (ATC'23), classes of 95 % of the pods", "rival"),
            GpuRule.FGD,
            TYPICAL_COVER,
        ),
        _Policy(
            PolicyInfo("fgd-all-classes", "FGD told all classes, small nodes first on ties", "variant"),
            GpuRule.FGD,
            small_first=True,
        ),
        _Policy(PolicyInfo("best-fit", "least CPU and GPU left on the node", "rival"), GpuRule.BEST_FIT),
        _Policy(
            PolicyInfo("packing", "shared devices first, then used nodes, then idle ones", "rival"), GpuRule.PACKING
        ),
        _Policy(
            PolicyInfo("clustering", "nodes that run the same kind of GPU pods first", "rival"), GpuRule.CLUSTERING
        ),
        _Policy(
            PolicyInfo("dot-product", "least product of the pod's demand and what is free", "rival"),
            GpuRule.DOT_PRODUCT,
        ),
        _Policy(PolicyInfo("random", "any node and device that fits", "rival"), GpuRule.RANDOM),
        _Policy(PolicyInfo(_BOUND, "ceiling: linear program that knows all arrivals", "bound"), GpuRule.RANDOM),
    )
}


@dataclass(frozen=True, slots=True)
class _World:
    """A run that has not begun: nodes idle, pods in order of arrival."""

    policy: _Policy
    cluster: Cluster
    pods: PodList
    order: Int  # [N] the cluster's rows in the order of the policy
    nodes: GpuNodes
    pod: Int  # [A] indices into the list, in order of arrival
    shape: Int  # [A]
    mix: GpuMix
    published_mix: GpuMix  # by which fragmentation is reported, the same for every policy
    weights: GpuWeights
    kept: KeptScores
    draws: Float  # [A, 2] for the random policy

    def place(self, begin: int, end: int, row: Int, devices: Int) -> None:
        """Place arrivals `begin`..`end` - 1."""
        place_all(
            int(self.policy.rule), self.nodes, self.pods.shapes, self.shape, begin, end, self.mix, self.weights, self.kept, self.draws,
            row, devices,
        )  # fmt: skip


class OpenbScenario:
    """GPU sharing on the openb trace. Workloads `openb` (the default list), `openb:LIST`, or a pod list of one's own as the file."""

    name = "openb"
    summary = "GPU sharing on a real cluster of 6,212 GPUs, filled beyond its capacity; openb:LIST for another pod list"
    provenance = "real trace: Alibaba openb 2023 (FGD, ATC'23); needs --traces"
    default_load = 1.3
    default_policies: tuple[str, ...] = (
        "cotenant",
        "fgd",
        "best-fit",
        "packing",
        "clustering",
        "dot-product",
        "random",
    )
    headline: tuple[str, ...] = (
        "utilisation",
        "success",
        "fragmentation",
        "first_failure",
        "decision_p50_us",
        "decision_p99_us",
    )

    def policies(self) -> tuple[PolicyInfo, ...]:
        """Return every policy, ours first."""
        return tuple(policy.info for policy in _POLICIES.values())

    def check(self, spec: RunSpec) -> None:
        """Refuse what cannot run: unknown workload, policy or knob, absurd load, or traces that are not there.

        Raises:
            InvalidInput: as above.
        """
        if spec.policy not in _POLICIES:
            raise InvalidInput("policy", spec.policy, "one of " + ", ".join(_POLICIES))
        if not 0.0 < spec.load <= _MOST_LOAD:
            raise InvalidInput("load", spec.load, f"a fraction of the cluster's GPUs above 0, at most {_MOST_LOAD:g}")
        _weights(_POLICIES[spec.policy], spec, GpuWeights(0.0, 0.0, 0.0, 1, 0.0))
        folder = _folder(spec)
        if not (folder / NODE_LIST).is_file():
            raise InvalidInput("traces", str(folder), f"a folder with {NODE_LIST}", _HINT)
        _list_path(spec, folder)

    def run(self, spec: RunSpec) -> RunResult:
        """Run the arrivals and measure; see `Scenario.run`."""
        begun = perf_counter()
        world = _world(spec)
        if spec.policy == _BOUND:
            return _ceiling(world, spec, begun)
        count = len(world.shape)
        shapes = world.pods.shapes
        gpus = world.cluster.gpu_milli
        demand = (shapes.gpu_count * shapes.gpu_milli)[world.shape]
        arrived = np.cumsum(demand) / gpus
        row, devices = np.full(count, -1, np.int64), np.zeros(count, np.int64)
        marks = np.searchsorted(arrived, np.arange(1, int(spec.load / _STEP) + 1) * _STEP - 1e-9) + 1
        marks = np.unique(np.minimum(np.append(marks, count), count))
        fragments = [cluster_fragment_gpus(world.nodes, world.published_mix)]
        latency_us = np.empty(count)
        world.place(0, 0, row, devices)  # compiles
        begin = 0
        for mark in marks:
            while begin < mark:
                end = min(begin + _BLOCK, int(mark))
                started = perf_counter()
                world.place(begin, end, row, devices)
                latency_us[begin:end] = (perf_counter() - started) / (end - begin) * 1e6
                begin = end
            fragments.append(cluster_fragment_gpus(world.nodes, world.published_mix))
        placed = row >= 0
        allocated = np.cumsum(np.where(placed, demand, 0)) / gpus
        refused = np.flatnonzero(~placed)
        x = np.concatenate([[0.0], arrived[marks - 1]]) * 100
        fragmentation = np.array(fragments) * 1000.0 / gpus
        label = "arrived (% of GPUs)"
        return RunResult(
            spec=spec,
            measures=Measures(
                success=float(placed.mean()),
                utilisation=float(allocated[-1]),
                fragmentation=float(fragmentation[-1]),
                first_failure=float(arrived[refused[0]]) if len(refused) else float("nan"),
                decision_p50_us=float(np.quantile(latency_us, 0.5)),
                decision_p99_us=float(np.quantile(latency_us, 0.99)),
                decision_total_s=float(latency_us.sum()) / 1e6,
                run_s=perf_counter() - begun,
            ),
            series=(
                Series(
                    "allocated", label, "allocated (% of GPUs)", x, np.concatenate([[0.0], allocated[marks - 1]]) * 100
                ),
                Series("fragmentation", label, "fragment (% of GPUs)", x, fragmentation * 100),
            ),
            by_class=_by_class(world, placed, arrived),
            notes=(*world.cluster.report, *world.pods.report),
        )

    def explain(self, spec: RunSpec, task: str) -> Explanation:
        """Tell why a pod went where it went, or why nothing fitted.

        `task` is a pod's name (its first arrival), `NAME/2` (its second, and so on) or `#N` (the N-th arrival, from 1).

        Raises:
            InvalidInput: as `check`, or the pod does not arrive in this run.
        """
        self.check(spec)
        if spec.policy == _BOUND:
            raise InvalidInput("policy", _BOUND, "a policy that decides pod by pod")
        world = _world(spec)
        at = _arrival(world, task)
        row, devices = np.full(at + 1, -1, np.int64), np.zeros(at + 1, np.int64)
        world.place(0, at, row, devices)
        return _explanation(world, at, row, devices)


def _ceiling(world: _World, spec: RunSpec, begun: float) -> RunResult:
    """Return the ceiling in place of a run. Where not even `_BOUND_MUST_PLACE` of the arrivals can be placed, it may choose freely."""
    must_place = _BOUND_MUST_PLACE
    try:
        bound = allocation_bound(world.cluster, world.pods, world.pod, must_place)
    except InvalidInput:
        must_place = 0.0
        bound = allocation_bound(world.cluster, world.pods, world.pod, must_place)
    note = (
        f"bound: must place all that arrive up to {must_place:.0%} of the GPUs, then chooses; tight to {bound.gap:.2%}"
    )
    return RunResult(spec, Measures(utilisation=bound.allocated, run_s=perf_counter() - begun), notes=(note,))


_HINT = f"give --traces DIR, where DIR holds {FOLDER}/"


def _folder(spec: RunSpec) -> Path:
    if spec.traces is None:
        raise InvalidInput("traces", "none given", f"the folder that holds {FOLDER}/", _HINT)
    return spec.traces / FOLDER


def _list_path(spec: RunSpec, folder: Path) -> Path:
    """Return the pod list: the user's own file, else the list that the workload names."""
    if spec.file is not None:
        if not spec.file.is_file():
            raise InvalidInput("file", str(spec.file), "a pod list that exists")
        return spec.file
    base, _, name = spec.workload.partition(":")
    if base != "openb" or (":" in spec.workload and not name):
        raise InvalidInput("workload", spec.workload, "openb or openb:LIST")
    return pod_list_path(folder, name or "default")


def _weights(policy: _Policy, spec: RunSpec, weights: GpuWeights) -> GpuWeights:
    """Return the weights with the ablation's and the user's changes."""
    known = GpuWeights._fields if policy.rule == GpuRule.POTENTIAL else ()
    changes: dict[str, float] = dict.fromkeys(policy.without, 0.0)
    for knob, value in spec.overrides:
        if knob not in known:
            raise InvalidInput("override", knob, f"a knob of {spec.policy}: " + (", ".join(known) or "it has none"))
        low, high = (1.0, 1000.0) if knob == "unit" else (0.0, 1e6)
        if not low <= value <= high:
            raise InvalidInput(f"override {knob}", value, f"{low:g}..{high:g}")
        changes[knob] = value
    changed = weights._asdict() | changes
    return GpuWeights(**(changed | {"unit": int(changed["unit"])}))


def _world(spec: RunSpec) -> _World:
    policy = _POLICIES[spec.policy]
    folder = _folder(spec)
    cluster = read_cluster(folder / NODE_LIST)
    pods = read_pods(_list_path(spec, folder), cluster.models)
    listed = np.arange(len(cluster.names))
    order = np.lexsort((listed, cluster.nodes.gpu_count)) if policy.small_first else listed
    nodes = GpuNodes(*(np.ascontiguousarray(column[order]) for column in cluster.nodes))
    pod = arrivals(pods, round(spec.load * cluster.gpu_milli), np.random.default_rng(spec.seed))
    usual = pods.usual
    models, most = len(cluster.models), nodes.gpu_free.shape[1]
    mix = mix_of(pods.shapes, usual, models, most, policy.cover)
    weights = _weights(policy, spec, weights_for(nodes, pods.shapes, usual))
    return _World(
        policy=policy,
        cluster=cluster,
        pods=pods,
        order=order,
        nodes=nodes,
        pod=pod,
        shape=pods.shape[pod],
        mix=mix,
        published_mix=mix_of(pods.shapes, usual, models, most, TYPICAL_COVER),
        weights=weights,
        kept=kept_scores(len(pods.shapes.cpu), nodes, int(policy.rule), mix, weights, len(pod)),
        draws=np.random.default_rng([spec.seed, 1]).random((len(pod), 2)),
    )


def _class_of(world: _World) -> Int:
    """Return each arrival's class as in `_CLASSES`; other counts of GPUs keep their count."""
    shapes = world.pods.shapes
    shared = (shapes.gpu_count == 1) & (shapes.gpu_milli < 1000)
    return np.where(shared, -1, shapes.gpu_count)[world.shape]


def _by_class(world: _World, placed: np.ndarray, arrived: Float) -> tuple[tuple[str, float], ...]:
    """Return the accepted share of each class that arrived, and the load at the class's first refusal where there was one."""
    kind = _class_of(world)
    named = {number: name for name, number in _CLASSES}
    figures: list[tuple[str, float]] = []
    for number in sorted(set(kind.tolist()), key=lambda c: (abs(c), c)):
        of_kind = kind == number
        name = named.get(number, f"{number} GPUs")
        figures.append((f"accepted: {name}", float(placed[of_kind].mean())))
        refused = np.flatnonzero(of_kind & ~placed)
        if len(refused):
            figures.append((f"first refusal at load: {name}", float(arrived[refused[0]])))
    return tuple(figures)


def _arrival(world: _World, task: str) -> int:
    """Return the position in the arrivals that `task` names."""
    if task.startswith("#") and task[1:].isdigit() and 1 <= int(task[1:]) <= len(world.pod):
        return int(task[1:]) - 1
    name, _, nth = task.partition("/")
    if name in world.pods.names and (not nth or nth.isdigit()):
        times = np.flatnonzero(world.pod == world.pods.names.index(name))
        if 1 <= int(nth or 1) <= len(times):
            return int(times[int(nth or 1) - 1])
        raise InvalidInput("task", task, f"an arrival of this run; {name} arrives {len(times)} time(s)")
    raise InvalidInput("task", task, f"a pod's name, NAME/2 for its second arrival, or #1..#{len(world.pod)}")


def _explanation(world: _World, at: int, row: Int, devices: Int) -> Explanation:
    """Judge every node for arrival `at` afresh, let the policy decide, and tell both."""
    nodes, shapes, k = world.nodes, world.pods.shapes, int(world.shape[at])
    rule, mix, w = int(world.policy.rule), world.mix, world.weights
    reasons = [Misfit(misfit(nodes, n, shapes, k)) for n in range(len(world.order))]
    fitting = [n for n, reason in enumerate(reasons) if reason == Misfit.FITS]
    judged = []
    for n in fitting:
        score, mask = score_node(rule, nodes, n, world.kept.kinds[n], shapes, k, mix, w, world.kept.term[n])
        parts: tuple[tuple[str, float], ...] = ()
        if world.policy.rule == GpuRule.POTENTIAL:
            before = phi_parts(nodes, n, nodes.cpu_free[n], 0, 0, mix, w)
            after = phi_parts(nodes, n, nodes.cpu_free[n] - shapes.cpu[k], mask, shapes.gpu_milli[k], mix, w)
            parts = tuple((name, float(b - a)) for name, b, a in zip(before._fields, before, after, strict=True))
        judged.append((float(score), n, int(mask), parts))
    judged.sort(key=lambda candidate: (-candidate[0], candidate[1]))
    free_before = nodes.gpu_free.copy()
    world.place(at, at + 1, row, devices)
    name = world.pods.names[world.pod[at]]
    cpu, memory, count, milli, _ = (int(column[k]) for column in shapes)
    lines = [
        f"arrival {at + 1} of {len(world.pod)}; asks for {cpu / 1000:g} cores, {memory / 2**30:g} GiB, "
        + (f"{count} x {milli / 1000:g} GPU" if count else "no GPU"),
        f"{len(fitting)} of {len(world.order)} nodes fit",
    ]
    n = int(row[at])
    if n < 0:
        outcome = "refused: it fits on no node"
    else:
        outcome = f"placed on {_node(world, n)}" + (f", GPU {_devices(int(devices[at]))}" if count else "")
        lines.append(
            f"left on its GPUs before: {', '.join(f'{free / 1000:g}' for free in free_before[n, : nodes.gpu_count[n]])}"
        )
        if world.policy.rule == GpuRule.RANDOM:
            lines.append("drawn among the nodes that fit")
        else:
            equals = sum(1 for score, *_ in judged if score == judged[0][0])
            lines.append(
                f"highest score {judged[0][0]:g}, shared by {equals} node(s); the first in the policy's order is taken"
            )
        if world.policy.rule == GpuRule.POTENTIAL:
            lines.append(
                f"score = sum of the parts / {w.quantum:g} GPU, rounded; a part is how far the move lowers that term, in GPUs"
            )
    return Explanation(
        task=name,
        outcome=outcome,
        lines=tuple(lines),
        rejected=tuple((text, reasons.count(reason)) for reason, text in MISFIT_TEXT.items() if reason in reasons),
        candidates=tuple((_node(world, n), score, parts) for score, n, _, parts in judged[:_CANDIDATES]),
    )


def _node(world: _World, n: int) -> str:
    return world.cluster.names[int(world.order[n])]


def _devices(mask: int) -> str:
    return ", ".join(str(i) for i in range(mask.bit_length()) if mask >> i & 1)


SCENARIOS = (OpenbScenario(),)
