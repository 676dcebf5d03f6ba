"""Placement by a round policy: all pods of a batch are placed at once (min-cost flow, offers, machine-driven packing).

Some published policies place the whole queue together, and must run in the same engine as profiles for a fair
comparison. The same contract as `Placing`: a round policy gets a snapshot of the ledger and the batch as columns, its
answer is checked against the rules that it does not know (affinity between pods, ports, volumes, node rules), and valid
placements are written to the same ledger. A pod that the policy leaves out stays pending, and is tried again after any
event.
Limits: a round policy ignores preferences; if the pod's rules reject its row, the pod waits for another round; its
decision records name the policy and no scores, because the choice depends on the whole round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.engine.cycle.ordering import pending_arrays
from cotenant.engine.cycle.placing import CLOSED, Placing, PodJudgement
from cotenant.engine.framework.events import EVERYTHING
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import PlacementVerdict
from cotenant.engine.state.assignments import Assignments
from cotenant.engine.state.narrowing import EVERYWHERE
from cotenant.engine.state.verdict_cache import unevaluated
from cotenant.model.arrays import Int, Mask, ResidentArrays
from cotenant.model.decisions.record import DecisionRecord
from cotenant.policy.placement.contract import RoundPolicy, Snapshot
from cotenant.policy.placement.profiles import PlacementProfile

_WHATEVER_HAPPENS = frozenset({EVERYTHING})


def of_round_policy(policy: RoundPolicy) -> PlacementProfile:
    """The profile that stands beside a round policy: by arrival, requests must fit. It orders the queue and
    explains what fits nowhere.
    """
    return PlacementProfile(policy.name, "judges all waiting pods at once", random_ties=True)


class RoundPlacing(Placing):
    """One round policy over one cluster's nodes."""

    def __init__(
        self, assignments: Assignments, profile: PlacementProfile, rng: np.random.Generator, policy: RoundPolicy
    ) -> None:
        super().__init__(assignments, profile, rng)
        self._policy = policy
        self._why = ""  # why pods wait after the last round, in words
        self._reasons: dict[str, int] = {}  # of the last round: why pods wait

    def place(self, pods: Sequence[PodInfo], now_s: float, only: Mask = EVERYWHERE) -> list[PodJudgement]:
        """See `Placing.place`; the policy may place the pods in another order than they are given in."""
        assignments = self._assignments
        self._calls += 1
        ledger, narrowing = assignments.ledger, assignments.narrowing
        pending = pending_arrays(pods, ledger.shapes)
        nodes = ledger.nodes if len(only) == 0 else ledger.nodes._replace(ready=ledger.nodes.ready & only)
        snapshot = Snapshot(nodes, ledger.shapes, pending, ledger.tenants, ResidentArrays(ledger.row, ledger.shape))
        answer = self._policy.decide(snapshot, now_s, self._rng)
        self._reasons = dict(answer.reasons)
        evaluation = unevaluated(len(pods))
        evaluation.counts[:] = 0  # every pod was judged
        order = answer.order
        if not narrowing.is_unconstrained(pending.pod.tolist()):
            order = self._permitted(pending.pod, answer.row, order)
        else:
            self._commit(pending.pod[order], answer.row[order], pending.shape[order])
        evaluation.rows[order] = answer.row[order]
        return [PodJudgement(row, evaluation, at, -1) for at, row in enumerate(evaluation.rows.tolist())]

    def _permitted(self, numbers: Int, rows: Int, order: Int) -> Int:
        """Write those of the answer that the pods' rules allow, one after the other; their positions."""
        narrowing, kept = self._assignments.narrowing, []
        shapes = np.array([narrowing.shape_of(number) for number in numbers.tolist()], dtype=np.int64)
        for at in order.tolist():
            allowed = (
                narrowing.allowed_with_expected(int(numbers[at]))
                if narrowing.is_narrowed(int(numbers[at]))
                else EVERYWHERE
            )
            if len(allowed) and not allowed[rows[at]]:
                self._reasons["the policy's node does not suit the pod's rules"] = (
                    self._reasons.get("the policy's node does not suit the pod's rules", 0) + 1
                )
                continue
            self._commit(numbers[at : at + 1], rows[at : at + 1], shapes[at : at + 1])
            kept.append(at)
        return np.array(kept, dtype=np.int64)

    def _commit(self, numbers: Int, rows: Int, shapes: Int) -> None:
        assignments = self._assignments
        assignments.ledger.place(numbers, rows, shapes)
        assignments.verdict_cache.changed(rows)
        assignments.narrowing.place_all(numbers.tolist(), rows.tolist())

    def record(self, entry: PodInfo, judgement: PodJudgement, now_s: float) -> DecisionRecord:
        """The record of a pod that was placed: the policy and the node."""
        node = self._assignments.names[judgement.row]
        there = len(self._assignments.encoder.node_rows)
        return DecisionRecord(entry.seen.pod.key, now_s, there, node, policy=self.profile.name)

    def verdict(self, entry: PodInfo, now_s: float, judgement: PodJudgement = CLOSED) -> PlacementVerdict:
        """Why a pod waits, in the policy's own words. Whatever happens next may help it: what the policy would
        choose then is not known.
        """
        record = DecisionRecord(
            pod=entry.seen.pod.key,
            at_s=now_s,
            nodes=len(self._assignments.encoder.node_rows),
            node=None,
            waiting_because=self._why,
            policy=self.profile.name,
        )
        return PlacementVerdict(record, f"waits: {self._why}", _WHATEVER_HAPPENS)
