"""openb: pods that share GPUs arrive at a real cluster beyond its capacity; measures the allocated GPU.

Below 90 % of the GPUs all policies are equal; above that they differ by the capacity they stranded before. The
published recipe (see `lab.workloads.openb`) on the published trace, the rivals of the published table, and ours, all
work-conserving: a pod that fits on some node is placed, so no policy gains by refusing awkward sizes; acceptance by
class and the load at the first refusal show early spreading that later blocks large pods.
Limits: pods do not leave and are not retried.

Latency: decisions are timed in blocks of up to 32, the block's time divided by its pods; compilation is excluded,
filling the table of cached scores is included.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.errors import InvalidInput
from cotenant.model.results.forms import RunSeries
from cotenant.policy.placement.gpu.fragmentation import cluster_fragment_gpus
from cotenant.policy.placement.gpu.state import WHOLE_GPU_MILLI
from cotenant_lab.contract import Measures, PolicyInfo, RunResult, RunSpec, TaskExplanation
from cotenant_lab.scenarios.openb_explain import explanation, find_arrival
from cotenant_lab.scenarios.openb_world import BOUND, POLICIES, OpenbWorld, build, check_inputs
from cotenant_lab.workloads.openb_bound import allocation_bound

_BLOCK = 32  # decisions timed together
_STEP = 0.01  # of the GPUs arrived, between the points of the curves
_MAX_LOAD = 10.0
_CLASSES = {0: "cpu-only", -1: "shared GPU", 1: "1 GPU"}
_BOUND_MUST_PLACE = 0.9  # load up to which the bound must place all arrivals


class OpenbScenario:
    """GPU sharing on the openb trace. Workloads `openb` (the default list), `openb:LIST`, or the user's own pod
    list as a file.
    """

    name = "openb"
    summary = "GPU sharing on a real cluster of 6,212 GPUs, filled beyond its capacity; openb:LIST for another pod list"
    provenance = "real trace: Alibaba openb 2023 (FGD, ATC'23); needs --traces"
    default_load = 1.3
    default_policies: tuple[str, ...] = (
        "cotenant",
        "fgd",
        "fgd-all-classes",
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
        return tuple(policy.info for policy in POLICIES.values())

    def check(self, spec: RunSpec) -> None:
        """Check the specification: workload, policy, knobs, load and traces.

        Raises:
            InvalidInput: one of them is unknown, out of range or missing.
        """
        if not 0.0 < spec.load <= _MAX_LOAD:
            raise InvalidInput("load", spec.load, f"a fraction of the cluster's GPUs above 0, at most {_MAX_LOAD:g}")
        check_inputs(spec)

    def run(self, spec: RunSpec) -> RunResult:
        """Run the arrivals and measure."""
        begun = perf_counter()
        world = build(spec)
        if spec.policy == BOUND:
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
        fragmentation = np.array(fragments) * WHOLE_GPU_MILLI / gpus
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
                RunSeries(
                    "allocated", label, "allocated (% of GPUs)", x, np.concatenate([[0.0], allocated[marks - 1]]) * 100
                ),
                RunSeries("fragmentation", label, "fragment (% of GPUs)", x, fragmentation * 100),
            ),
            by_class=_by_class(world, placed, arrived),
            notes=(*world.cluster.report, *world.pods.report),
        )

    def explain(self, spec: RunSpec, task: str) -> TaskExplanation:
        """Explain the placement of a pod, or its refusal.

        `task` is a pod's name (its first arrival), `NAME/2` (its second, and so on) or `#N` (the N-th arrival, from 1).

        Raises:
            InvalidInput: as `check`, or the pod does not arrive in this run.
        """
        self.check(spec)
        if spec.policy == BOUND:
            raise InvalidInput("policy", BOUND, "a policy that decides pod by pod")
        world = build(spec)
        at = find_arrival(world, task)
        row, devices = np.full(at + 1, -1, np.int64), np.zeros(at + 1, np.int64)
        world.place(0, at, row, devices)
        return explanation(world, at, row, devices)


def _ceiling(world: OpenbWorld, spec: RunSpec, begun: float) -> RunResult:
    """Return the bound in place of a run. If the arrivals up to `_BOUND_MUST_PLACE` cannot all be placed, it may
    choose freely.
    """
    must_place = _BOUND_MUST_PLACE
    try:
        bound = allocation_bound(world.cluster, world.pods, world.pod, must_place)
    except InvalidInput:
        must_place = 0.0
        bound = allocation_bound(world.cluster, world.pods, world.pod, must_place)
    note = (
        f"bound: must place all arrivals up to {must_place:.0%} of the GPUs, then may choose; tight to {bound.gap:.2%}"
    )
    return RunResult(spec, Measures(utilisation=bound.allocated, run_s=perf_counter() - begun), notes=(note,))


def _class_of(world: OpenbWorld) -> Int:
    """Return each arrival's class as in `_CLASSES`; other classes are the number of GPUs."""
    shapes = world.pods.shapes
    shared = (shapes.gpu_count == 1) & (shapes.gpu_milli < WHOLE_GPU_MILLI)
    return np.where(shared, -1, shapes.gpu_count)[world.shape]


def _by_class(world: OpenbWorld, placed: Mask, arrived: Float) -> tuple[tuple[str, float], ...]:
    """Return the accepted share of each class that arrived, and the load at the class's first refusal if there was
    one.
    """
    kind = _class_of(world)
    figures: list[tuple[str, float]] = []
    for number in sorted(set(kind.tolist()), key=lambda c: (abs(c), c)):
        of_kind = kind == number
        name = _CLASSES.get(number, f"{number} GPUs")
        figures.append((f"accepted: {name}", float(placed[of_kind].mean())))
        refused = np.flatnonzero(of_kind & ~placed)
        if len(refused):
            figures.append((f"first refusal at load: {name}", float(arrived[refused[0]])))
    return tuple(figures)


SCENARIOS = (OpenbScenario(),)
