"""The lab's step of lending offers what `cotenant manager`'s engine would write for the same measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cotenant.engine.manager.instructions import WriteAmounts
from cotenant.engine.manager.manager import Manager
from cotenant.model.cluster.managed import ManagedNode
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import Amounts
from cotenant.policy.overcommit.columns import ABSENT
from cotenant.policy.overcommit.facts import Policy
from cotenant.policy.overcommit.strategy import ColocationStrategy
from cotenant_lab.lending import BY_FORMULA, BY_PEAK, LentAmounts
from cotenant_lab.world.config import WorldConfig

NODES, PODS = 5, 40
GIB = 1 << 30
CONFIG = WorldConfig(nodes=NODES, node_cores=32, node_memory_bytes=128 * GIB)
TEXT = {
    Policy.USAGE: '{"enable": true}',
    Policy.PEAK: '{"enable": true, "cpuCalculatePolicy": "peak", "memoryCalculatePolicy": "peak"}',
}


class Both:
    """The lab's step and the manager's engine, fed alike."""

    def __init__(self, policy: Policy, rng: np.random.Generator) -> None:
        requests = rng.integers(1, 16, PODS) * 1000
        memory = rng.integers(1, 32, PODS) * GIB
        self.requests, self.memory = requests, memory
        strategy = BY_FORMULA if policy is Policy.USAGE else BY_PEAK
        self.lab = LentAmounts(strategy, np.stack([requests, memory]), CONFIG)
        self.manager = Manager()
        self.manager.config_seen({"colocation-config": TEXT[policy]})
        size = Use(CONFIG.node_cores * 1000, CONFIG.node_memory_bytes)
        self.nodes = [ManagedNode(f"n{row}", size, size, uid=f"n{row}") for row in range(NODES)]
        for node in self.nodes:
            self.manager.node_seen(node)
        self.row = np.full(PODS, -1)  # of each pod
        self.attempts = np.zeros(PODS, np.int64)
        self.reported_s = np.full(NODES, np.nan)

    def _pod(self, pod: int) -> ObservedPod:
        name = f"p{pod}-{self.attempts[pod]}"
        asked = Amounts.of({"cpu": int(self.requests[pod]), "memory": int(self.memory[pod])})
        value = Pod(name, requests=asked, priority_class=PriorityClass.PROD)
        return ObservedPod(value, name, "cotenant", 0.0, node=f"n{self.row[pod]}", phase=PodPhase.RUNNING)

    def assign(self, pod: int, row: int, now_s: float) -> None:
        self.leave(pod, now_s)
        self.row[pod] = row
        self.manager.pod_seen(self._pod(pod), now_s)

    def leave(self, pod: int, now_s: float) -> None:
        if self.row[pod] >= 0:
            self.manager.pod_gone(f"p{pod}-{self.attempts[pod]}", now_s)
            self.row[pod] = -1
            self.attempts[pod] += 1

    def minute(self, fresh: np.ndarray, measured: dict[int, tuple[float, float]], now_s: float) -> None:
        """One step of both: `fresh` nodes report what is `measured` (cores and bytes by pod) of the pods on them."""
        self.reported_s[fresh] = now_s
        pods = np.array([pod for pod in measured if fresh[self.row[pod]]], dtype=np.int64)
        use = np.array([measured[pod] for pod in pods.tolist()]).reshape(-1, 2)
        for row in np.flatnonzero(fresh).tolist():
            seen = {
                f"default/p{pod}-{self.attempts[pod]}": MeasuredPod(
                    Use(round(measured[pod][0] * 1000), round(measured[pod][1])), PriorityClass.PROD
                )
                for pod in pods.tolist()
                if self.row[pod] == row
            }
            total = Use(sum(measured_pod.use.cpu_m for measured_pod in seen.values()), 0)
            self.manager.metric_seen(NodeMetric(f"n{row}", 0.0, use=total, pods=seen, updated_s=now_s), now_s)
        there = np.flatnonzero(self.row >= 0)
        self.lab.step(
            self.reported_s,
            (self.row[pods], self.lab.key_of(pods, self.attempts[pods]), use[:, 0], use[:, 1]),
            (self.row[there], self.lab.key_of(there, self.attempts[there])),
            now_s,
        )
        for write_amounts in self.manager.decide(now_s):
            if isinstance(write_amounts, WriteAmounts):
                row = int(write_amounts.node[1:])
                node = self.nodes[row]
                lent = {
                    name: amount
                    for name, amount in {**node.lent, **write_amounts.amounts}.items()
                    if amount is not None
                }
                self.nodes[row] = replace(node, lent=lent, written=write_amounts.annotation or "")
                self.manager.node_seen(self.nodes[row])

    def compare(self) -> None:
        for row, node in enumerate(self.nodes):
            found = [node.lent.get(name, ABSENT) for name in ("batch-cpu", "batch-memory")]
            assert found == self.lab.lent[row].tolist(), f"node {row}"


def drive(policy: Policy, seed: int, minutes: int, observe: Callable[[Both, float], Any]) -> None:
    """Random minutes: pods arrive, leave and move, use changes, reports are lost, one node is silent for a while."""
    rng = np.random.default_rng(seed)
    both = Both(policy, rng)
    level = rng.uniform(0.1, 0.8, PODS)
    for minute in range(minutes):
        now_s = 60.0 * minute
        for pod in rng.integers(0, PODS, 3).tolist() if minute else range(PODS // 2):
            if both.row[pod] < 0 or rng.random() < 0.5:
                both.assign(pod, int(rng.integers(0, NODES)), now_s - 30.0)
            else:
                both.leave(pod, now_s - 30.0)
        level = np.clip(level + 0.05 * rng.standard_normal(PODS), 0.02, 1.2)
        fresh = rng.random(NODES) > 0.05
        fresh[0] &= not 100 <= minute < 130
        seen = {
            pod: (level[pod] * both.requests[pod] / 1000, 0.7 * both.memory[pod] * rng.uniform(0.9, 1.1))
            for pod in np.flatnonzero(both.row >= 0).tolist()
            if rng.random() > 0.03
        }
        both.minute(fresh, seen, now_s)
        observe(both, now_s)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [Policy.USAGE, Policy.PEAK])
def test_every_amount_equals_that_of_the_managers_engine(policy: Policy) -> None:
    states: list[int] = []

    def look(both: Both, now_s: float) -> None:
        both.compare()
        states.append(int(both.lab.lent[0, 0]))

    drive(policy, 3, 200, look)
    assert ABSENT in states[115:130]  # silent for 15 minutes: withdrawn
    assert states[0] >= 0
    assert len(set(states)) > 5


def test_no_write_of_the_formula_exceeds_its_share_less_what_services_use() -> None:
    capacity = np.array([CONFIG.node_cores * 1000, CONFIG.node_memory_bytes])
    most = capacity - capacity * (100 - np.array([60, 65])) // 100
    before = np.full((NODES, 2), ABSENT)

    def look(both: Both, now_s: float) -> None:
        written = (both.lab.lent != before).any(axis=1)
        before[:] = both.lab.lent
        for row in np.flatnonzero(written).tolist():
            node, record = both.nodes[row], both.manager.explain(f"n{row}", now_s)
            assert record is not None
            used = [0, 0]
            for amount in record.computed.amounts[:2]:
                terms = {term.name: -term.amount for term in amount.terms}
                used[amount.resource == "batch-memory"] = terms["use of prod and mid pods"]
            assert (both.lab.lent[row] <= np.maximum(0, most - used)).all(), node.name

    drive(Policy.USAGE, 5, 60, look)


def test_amounts_are_written_rarely_by_the_peak_policy_and_at_the_latest_after_five_minutes_by_the_formula() -> None:
    writes = {}
    for policy in (Policy.USAGE, Policy.PEAK):

        def look(both: Both, now_s: float, policy: Policy = policy) -> None:
            writes[policy] = both.lab.writes

        drive(policy, 9, 120, look)
    assert writes[Policy.PEAK] < writes[Policy.USAGE]


def test_equal_seeds_give_equal_amounts() -> None:
    found: list[list[list[int]]] = []
    for _ in range(2):
        seen: list[list[int]] = []
        drive(Policy.PEAK, 11, 40, lambda both, now_s, seen=seen: seen.append(both.lab.lent.ravel().tolist()))
        found.append(seen)
    assert found[0] == found[1]


def test_a_strategys_risk_is_that_of_the_peak_policy() -> None:
    lending = LentAmounts(
        ColocationStrategy(enable=True, cpu_calculate_policy="peak", peak_risk_percent=5.0, peak_history_minutes=30),
        np.array([[1000], [GIB]]),
        CONFIG,
    )
    assert (lending.settings.risk, lending.settings.half_life_s) == (0.05, 1800.0)
