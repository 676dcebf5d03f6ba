"""The verdict on a pod that no node took: what it waits for, in full or by the counts of its judgement alone."""

from __future__ import annotations

from cotenant.engine.cycle.rejections import Rejector
from cotenant.engine.framework.budget import FILTER, TOO_EXPENSIVE, OverBudget
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import PlacementVerdict
from cotenant.engine.state.assignments import Assignments
from cotenant.model.arrays import Int
from cotenant.model.decisions.reasons import Rejection
from cotenant.model.decisions.record import DecisionRecord
from cotenant.policy.placement.compiled import FILTERS, Reject

REPORTED = tuple(FILTERS[verdict] for verdict in Reject)  # in the order of an evaluation's counts
_MAX_BRIEF = 4096


class Refusals:
    """Verdicts on pods of one cluster; pods that are refused alike share the work."""

    def __init__(self, assignments: Assignments, rejector: Rejector) -> None:
        self._assignments, self._rejector = assignments, rejector
        self._brief: dict[bytes, tuple[tuple[Rejection, ...], frozenset[str]]] = {}  # by the counts of a judgement

    def full(self, entry: PodInfo, policy: str, calls: int, now_s: float) -> PlacementVerdict:
        """With names of resources and taints, as the arrays stand. `calls`: of `Placing.place` so far; verdicts are
        shared until the next or a changed row.
        """
        state = calls, int(self._assignments.verdict_cache.version.sum())
        try:
            explanation = self._rejector.explain(entry.number, state)
        except OverBudget:
            there = len(self._assignments.encoder.node_rows)
            waits = DecisionRecord(entry.seen.pod.key, now_s, there, None, waiting_because=TOO_EXPENSIVE)
            return PlacementVerdict(waits, TOO_EXPENSIVE, frozenset({FILTER}), is_held=True)
        nearest = explanation.nearest
        record = DecisionRecord(
            pod=entry.seen.pod.key,
            at_s=now_s,
            nodes=explanation.nodes,
            node=None,
            rejections=explanation.rejections,
            policy=policy,
            nearest=str(nearest or ""),
        )
        # a reason without an amount is in the headline already
        missing = record.nearest if nearest is not None and (nearest.resource or nearest.figures) else ""
        return PlacementVerdict(record, record.headline(), explanation.filters, missing)

    def brief(self, entry: PodInfo, counts: Int, policy: str, now_s: float) -> PlacementVerdict:
        """Which filters turned nodes down, by the counts of its judgement: what waking needs."""
        key = counts.tobytes()
        known = self._brief.get(key)
        if known is None:
            found = tuple(
                Rejection(plugin, reason, count)
                for count, (plugin, reason) in zip(counts[1:].tolist(), REPORTED, strict=True)
                if count
            )
            if len(self._brief) >= _MAX_BRIEF:
                self._brief.clear()
            known = self._brief[key] = found, frozenset(rejection.filter for rejection in found)
        found, filters = known
        there = len(self._assignments.encoder.node_rows)
        record = DecisionRecord(entry.seen.pod.key, now_s, there, None, found, policy=policy)
        return PlacementVerdict(record, "no node passes the filters", filters)
