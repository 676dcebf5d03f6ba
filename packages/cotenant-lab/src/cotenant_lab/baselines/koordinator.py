"""Koordinator's scheduler as it is installed: kube-scheduler's resource scores over native and batch resources, with
load-aware filter and score.

Who runs Koordinator today places batch pods on resources that its manager offers, by scores that kube-scheduler has and
by what nodes use. Choice, for each waiting pod in the queue's order, services first:

    filter  requests fit (the batch resources of a batch pod); use + estimates + the pod's estimate are at most 65 % of
    CPU and 95 % of memory
    score   NodeResourcesFit (LeastAllocated over CPU, memory, and the batch resources that the pod requests) +
            NodeResourcesBalancedAllocation (pods with native requests only) + LoadAwareScheduling, each 0..100

Use is that of a node's last report; pods placed since that report count by their estimate, 85 % of their CPU and 70 %
of their memory request. A node whose report is older than 180 s is filtered, one that never reported has no score by
load and is not filtered. As in kube-scheduler, only some of the feasible nodes are scored, beginning where the last
pod's search ended, and ties are broken at random. A pod without native requests is scored as if it requested 0.1 cores
and 200 MB, as in kube-scheduler. Limits: such pods on a node do not count in its native sums; a report's use has no
pods, so a pod that ended since the report still counts until the next one; no percentile, production or aggregated
thresholds (all off by default). Source: Koordinator, LoadAwareSchedulingArgs defaults and the scheduler configuration
of its chart; kube-scheduler, noderesources.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, PODS, Float, Int, NodeArrays, Param, ReportColumn, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.policy.placement.compiled import sample_size
from cotenant.policy.placement.contract import RoundDecision, Snapshot
from cotenant_lab.baselines.fitting import occupy, working_copy
from cotenant_lab.baselines.rounds import RoundTally, decision, services_then_batch

UNASKED_CPU_M, UNASKED_BYTES = 100, 200 * 1024 * 1024  # what a pod without requests is scored by
_CPU_USED, _MEMORY_USED, _AT = int(ReportColumn.CPU_USED), int(ReportColumn.MEMORY_USED), int(ReportColumn.REPORTED_AT)


@njit
def _fits(nodes: NodeArrays, shapes: ShapeArrays, n: int, k: int) -> bool:
    """Kubernetes' filters. A resource that the pod does not request is not checked: what is lent may fall below
    what is in use.
    """
    if not nodes.ready[n] or nodes.taints[n] & ~shapes.tolerated[k]:
        return False
    for r in range(nodes.capacity.shape[1]):
        request = shapes.request[k, r]
        if request > 0 and nodes.requested[n, r] + request > nodes.capacity[n, r]:
            return False
    for word in range(nodes.labels.shape[1]):
        if shapes.selector[k, word] & ~nodes.labels[n, word]:
            return False
    group = shapes.group[k]
    return group < 0 or nodes.group_count[n, group] < shapes.group_limit[k]


@njit
def _score(nodes: NodeArrays, shapes: ShapeArrays, n: int, k: int, used: Float, estimate: Float, known: bool) -> float:
    """The sum of the three plugins' scores, whole numbers."""
    capacity, requested, request = nodes.capacity, nodes.requested, shapes.request
    worth, weights = 0, 0
    for r in range(capacity.shape[1]):
        is_native = r in (CPU, MEMORY)
        if r == PODS or capacity[n, r] == 0 or (request[k, r] == 0 and not is_native):
            continue
        asked = request[k, r]
        if asked == 0:
            asked = UNASKED_CPU_M if r == CPU else UNASKED_BYTES
        after = requested[n, r] + asked
        weights += 1
        if after <= capacity[n, r]:
            worth += (capacity[n, r] - after) * 100 // capacity[n, r]
    least = worth // weights if weights > 0 else 0
    balanced = 0.0
    if request[k, CPU] > 0 or request[k, MEMORY] > 0:
        cpu = min(1.0, (requested[n, CPU] + request[k, CPU]) / capacity[n, CPU])
        memory = min(1.0, (requested[n, MEMORY] + request[k, MEMORY]) / capacity[n, MEMORY])
        balanced = np.floor((1.0 - abs(cpu - memory) / 2.0) * 100.0)
    by_load = 0
    if known:
        for r in range(2):
            total = used[n, r] + estimate[r]
            if total <= capacity[n, r]:
                by_load += int((capacity[n, r] - total) * 100.0 / capacity[n, r])
        by_load //= 2
    return float(least) + balanced + float(by_load)


@njit
def _place(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    order: Int,
    shape: Int,
    used: Float,
    known: np.ndarray,
    closed: np.ndarray,
    thresholds: Float,
    estimates: Float,
    draws: Float,
    sample: int,
    cursor: int,
    row: Int,
    out: Int,
    placed: int,
) -> tuple[int, int]:
    """Place the pods `order` one after the other; returns how many are placed in all, and where sampling continues."""
    count = nodes.capacity.shape[0]
    found = np.empty(count, np.int64)
    refused = np.full(shapes.request.shape[0], -1)  # shapes that fitted nowhere, at this number of placed pods
    for i in range(order.shape[0]):
        pod = order[i]
        k = shape[pod]
        if refused[k] >= 0:
            continue  # nothing leaves within a round
        estimate = estimates[k]
        kept = 0
        for n in range(count):
            fits = not closed[n] and _fits(nodes, shapes, n, k)
            for r in range(2):
                if known[n] and used[n, r] + estimate[r] > thresholds[r] * nodes.capacity[n, r]:
                    fits = False
            if fits:
                found[kept] = n
                kept += 1
        if kept == 0:
            refused[k] = placed
            continue
        start = 0
        while start < kept and found[start] < cursor:
            start += 1
        scored = min(kept, sample) if sample > 0 else kept
        best, highest, ties = -1, -1.0, 0
        for j in range(scored):
            n = found[(start + j) % kept]
            score = _score(nodes, shapes, n, k, used, estimate, known[n])
            if score > highest:
                best, highest, ties = n, score, 1
            elif score == highest:
                ties += 1
        if ties > 1:
            pick = int(draws[i] * ties)
            for j in range(scored):
                n = found[(start + j) % kept]
                if _score(nodes, shapes, n, k, used, estimate, known[n]) == highest:
                    if pick == 0:
                        best = n
                        break
                    pick -= 1
        cursor = (found[(start + scored - 1) % kept] + 1) % count
        occupy(nodes, shapes, best, k)
        for r in range(2):
            used[best, r] += estimate[r]
        row[pod] = best
        out[placed] = pod
        placed += 1
    return placed, cursor


@dataclass(slots=True)
class Koordinator:
    """The default plugins of Koordinator's scheduler that concern CPU and memory. Keeps what it placed since the
    last report of each node.
    """

    cpu_threshold: float = 0.65
    memory_threshold: float = 0.95
    cpu_scaling: float = 0.85
    memory_scaling: float = 0.70
    expires_s: float = 180.0
    name: str = field(default="koordinator", init=False)
    _cursor: int = field(default=0, init=False)
    _since: Float = field(
        default_factory=lambda: np.zeros((0, 2)), init=False
    )  # estimates of pods placed since the report
    _at_s: Float = field(default_factory=lambda: np.zeros(0), init=False)  # time of that report

    def decide(self, snapshot: Snapshot, now_s: float, rng: np.random.Generator) -> RoundDecision:
        """One round: services, then batch, each in order of arrival."""
        nodes = working_copy(snapshot.nodes)
        shapes, pending = snapshot.shapes, snapshot.pending
        used, known, closed = self._use(nodes, now_s)
        before = used.copy()
        scaling = np.array([self.cpu_scaling, self.memory_scaling])
        lent = shapes.params[:, [Param.LENT_CPU, Param.LENT_MEMORY]] * np.array([1000.0, 1.0])
        asked = shapes.request[:, [CPU, MEMORY]] + lent
        tally = RoundTally.empty(pending.shape.shape[0])
        for indices in services_then_batch(pending):
            tally.placed, self._cursor = _place(
                nodes,
                shapes,
                indices,
                pending.shape,
                used,
                known,
                closed,
                np.array([self.cpu_threshold, self.memory_threshold]),
                asked * scaling,
                rng.random(len(indices)),
                sample_size(nodes.capacity.shape[0]),
                self._cursor,
                tally.row,
                tally.order,
                tally.placed,
            )
        self._since += used - before
        return decision(snapshot, nodes, tally)

    def _use(self, nodes: NodeArrays, now_s: float) -> tuple[Float, np.ndarray, np.ndarray]:
        """Use by the last reports and the estimates since; whether a report is known, and whether it has expired."""
        report = nodes.report
        at_s = report[:, _AT]
        if len(self._since) != len(at_s):
            self._since = np.zeros((len(at_s), 2))
            self._at_s = np.full(len(at_s), np.nan)
            self._cursor = 0
        changed = (at_s != self._at_s) & ~np.isnan(at_s)
        self._since[changed] = 0.0
        self._at_s[changed] = at_s[changed]
        known = ~np.isnan(at_s)
        share = np.where(known[:, None], report[:, [_CPU_USED, _MEMORY_USED]], 0.0)
        used = share * nodes.capacity[:, [CPU, MEMORY]] + self._since
        return used, known, known & (now_s - at_s > self.expires_s)
