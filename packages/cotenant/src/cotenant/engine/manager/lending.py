"""The amounts of one node: by formula or by the peak policy, after normalization, third parties and hysteresis.

Each resource may have a policy of its own, and an error in one tier must not take the other tier's amounts with it.
Tiers are computed one by one; what fails is reported and stays on the node as it is. Staleness and a strategy that is
off withdraw both.
Limits: amounts of the node; those of its NUMA zones follow from them (`zones.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import isnan

from cotenant.engine.manager.predicting import NodePrediction
from cotenant.engine.manager.record import Computed, NodeRecord
from cotenant.engine.manager.settings import ManagerSettings
from cotenant.model.cluster.managed import ManagedNode
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import Use
from cotenant.policy.overcommit.amplification import normalization_ratio
from cotenant.policy.overcommit.batch import BATCH_CPU, BATCH_MEMORY, LOW, BatchRules, batch_amounts
from cotenant.policy.overcommit.facts import Amount, NodeFacts, Policy
from cotenant.policy.overcommit.hysteresis import to_write
from cotenant.policy.overcommit.mid import mid_amounts
from cotenant.policy.overcommit.peak import (
    LearntPool,
    MeasuredPodUse,
    PeakHistory,
    PeakSettings,
    calibrated,
    new_history,
    new_pool,
    observe,
    peak_amount,
)
from cotenant.policy.overcommit.strategy import (
    DEFAULTS,
    ColocationConfig,
    ColocationStrategy,
    StrategyOrigin,
    batch_rules,
    is_enabled,
    merge,
    mid_rules,
    strategy_of,
)
from cotenant.policy.overcommit.writing import LENT, MID, Adjustments, adjusted, is_degraded

RESERVE_TERM = "reserve against rises"
NEVER = "its agent has written no measurement yet; the first comes a minute after the agent's start"
_AT_RISK = tuple(policy for policy in Policy if policy.is_at_risk)


class Lending:
    """Computes amounts, and keeps what the peak policy learns from all nodes together."""

    def __init__(self, settings: ManagerSettings) -> None:
        self.settings = settings
        self.pools: dict[str, LearntPool] = {}  # by resource
        self.prediction = NodePrediction()
        self.hours = 0  # node-hours judged
        self.broken = 0  # of those, node-hours in which prod + lent exceeded the capacity
        self._unjudged: dict[int, tuple[int, int]] = {}  # by hour: node-hours, broken ones

    def compute(self, record: NodeRecord, config: ColocationConfig, now_s: float) -> Computed:
        """What the node should offer now."""
        node = record.node
        assert node is not None
        view = strategy_of(config, node.labels, node.annotations)
        strategy = merge(DEFAULTS, view.strategy)
        if not is_enabled(config, strategy):
            return Computed("withdrawn", "colocation is off", view=view)
        degrade = strategy.degrade_time_minutes or 0
        if is_degraded(now_s - record.updated_s, degrade):
            is_measured = not isnan(record.updated_s)
            if is_measured and now_s - record.seen_s < min(self.settings.first_look_s, 60.0 * degrade):
                # An agent's clock may be behind: after a restart of this process its next report shows whether it is
                # measured.
                age = round(now_s - record.updated_s)
                why = (
                    f"the measurement was {age} s old when it was first seen: what is lent stays until the next is due"
                )
                return Computed("unknown", why, failed=LENT, view=view)
            why = f"no measurement for {degrade} minutes" if is_measured else NEVER
            return Computed("withdrawn", why, view=view)
        amounts: list[Amount] = []
        failed: list[str] = []
        reasons: list[str] = []
        holding: dict[str, Mapping[int, int]] = {}
        facts = record.facts()
        try:
            batch, holding = self._batch(record, facts, strategy, now_s)
            amounts += batch
        except InvalidInput as error:
            failed += [BATCH_CPU, BATCH_MEMORY]
            reasons.append(str(error))
        try:
            amounts += mid_amounts(facts, mid_rules(strategy))
        except InvalidInput as error:
            failed += MID
            reasons.append(str(error))
        state = "failed" if failed else "lent"
        return Computed(state, "; ".join(reasons), tuple(amounts), tuple(failed), view, holding)

    def learn(self, record: NodeRecord, view: StrategyOrigin, now_s: float) -> None:
        """Take in a new measurement of a node on which the peak policy is in force."""
        node = record.node
        if node is None or record.metric is None:
            return
        strategy = merge(DEFAULTS, view.strategy)
        settings = self._peak(strategy)
        per_hour = 3600.0 / (strategy.metric_report_interval_seconds or 60)
        facts = record.facts()
        for resource in peak_resources(strategy):
            pods, capacity, _ = capacity_view(resource, facts)
            history = _history(record, node, resource, capacity, settings)
            pool = self.pools.get(resource) or new_pool(settings, per_hour)
            record.history[resource], pool = observe(history, pool, pods, capacity, settings, now_s)
            self.pools[resource] = pool
            if resource in predicted_resources(strategy) or self.settings.learns_use:
                self.prediction.learn(record.name, node.labels, resource, pods, capacity, now_s)
        if peak_resources(strategy):
            self._judge(record, facts, settings, strategy, now_s)

    def _batch(
        self, record: NodeRecord, facts: NodeFacts, strategy: ColocationStrategy, now_s: float
    ) -> tuple[list[Amount], dict[str, Mapping[int, int]]]:
        node = record.node
        assert node is not None
        rules = batch_rules(strategy)
        by = Adjustments(
            normalization_ratio(node.normalization) if node.normalization else None, node.third_party or None
        )
        found = []
        holding: dict[str, Mapping[int, int]] = {}
        for amount in batch_amounts(facts, _without_peak(rules)):
            if amount.resource in peak_resources(strategy):
                predicted = None
                if amount.resource in predicted_resources(strategy):
                    predicted = self._predicted(record, facts, amount.resource, rules, strategy, now_s)
                if predicted is not None:
                    amount, ahead = predicted
                    holding[amount.resource] = {
                        hours: adjusted(amount.then("longer", left), by).value for hours, left in ahead.items()
                    }
                else:
                    amount = self._peak_amount(record, facts, amount.resource, rules, strategy)
                amount = adjusted(amount, by)
                capacity = _of(facts.capacity, amount.resource)
                held = to_write(amount.value, record.standing.get(amount.resource), capacity, self.settings.band)
                found.append(amount.then("hysteresis", held))
            else:
                found.append(adjusted(amount, by))
        return found, holding

    def _predicted(
        self,
        record: NodeRecord,
        facts: NodeFacts,
        resource: str,
        rules: BatchRules,
        strategy: ColocationStrategy,
        now_s: float,
    ) -> tuple[Amount, Mapping[int, int]] | None:
        pods, capacity, beside = capacity_view(resource, facts)
        limit = rules.cpu_limit_pct if resource == BATCH_CPU else rules.memory_limit_pct
        risk = self._peak(strategy).risk
        return self.prediction.amount(record.name, resource, pods, capacity, beside, risk, limit, now_s)

    def _peak_amount(
        self, record: NodeRecord, facts: NodeFacts, resource: str, rules: BatchRules, strategy: ColocationStrategy
    ) -> Amount:
        settings = self._peak(strategy)
        pods, capacity, beside = capacity_view(resource, facts)
        per_hour = 3600.0 / (strategy.metric_report_interval_seconds or 60)
        pool = self.pools.get(resource) or new_pool(settings, per_hour)
        assert record.node is not None
        history = _history(record, record.node, resource, capacity, settings)
        limit = rules.cpu_limit_pct if resource == BATCH_CPU else rules.memory_limit_pct
        return peak_amount(resource, history, pool, pods, capacity, beside, settings, limit)

    def _peak(self, strategy: ColocationStrategy) -> PeakSettings:
        risk, minutes = strategy.peak_risk_percent, strategy.peak_history_minutes
        settings = self.settings.peak
        if risk is not None:
            settings = replace(settings, risk=risk / 100)
        return settings if minutes is None else replace(settings, half_life_s=minutes * 60.0)

    def _judge(
        self, record: NodeRecord, facts: NodeFacts, settings: PeakSettings, strategy: ColocationStrategy, now_s: float
    ) -> None:
        """Whether prod + lent exceeded the capacity, by the hour; a past hour of all nodes corrects the level."""
        hour = int(now_s // 3600)
        if record.hour not in (-1, hour):
            hours, broken = self._unjudged.get(record.hour, (0, 0))
            self._unjudged[record.hour] = (hours + 1, broken + record.is_broken)
            record.is_broken = False
        record.hour = hour
        lent = record.node.lent if record.node is not None else {}
        for resource in peak_resources(strategy):
            pods, capacity, beside = capacity_view(resource, facts)
            used = sum(pod.use for pod in pods.values() if pod.use is not None)
            if used + beside + lent.get(resource, 0) > capacity and lent.get(resource, 0) > 0:
                record.is_broken = True
        for past in [number for number in self._unjudged if number < hour - 1]:
            hours, broken = self._unjudged.pop(past)
            self.hours += hours
            self.broken += broken
            self.pools = {name: calibrated(pool, broken, hours, settings) for name, pool in self.pools.items()}


def peak_resources(strategy: ColocationStrategy) -> tuple[str, ...]:
    """The resources whose amount is by the policies `peak` and `predicted`, which begins as `peak`."""
    found = []
    for policy, resource in _policies(strategy):
        if policy in _AT_RISK:
            found.append(resource)
    return tuple(found)


def _policies(strategy: ColocationStrategy) -> tuple[tuple[str | None, str], ...]:
    return (strategy.cpu_calculate_policy, BATCH_CPU), (strategy.memory_calculate_policy, BATCH_MEMORY)


def predicted_resources(strategy: ColocationStrategy) -> tuple[str, ...]:
    """Those whose amount is by the policy `predicted`."""
    return tuple(resource for policy, resource in _policies(strategy) if policy == Policy.PREDICTED)


def not_raised(computed: Computed, lent: Mapping[str, int], why: str) -> Computed:
    """While frozen no amount is raised; what services need back is still taken away."""
    amounts = tuple(amount.then(why, min(amount.value, lent.get(amount.resource, 0))) for amount in computed.amounts)
    return replace(computed, amounts=amounts)


def annotation_of(computed: Computed) -> str | None:
    """The node's annotation for what is written; None where nothing is lent."""
    if not computed.amounts:
        return None
    view = computed.view
    return json.dumps(
        {
            "strategy": view.source if view is not None else "",
            "amounts": {
                amount.resource: {
                    "policy": amount.policy,
                    "value": amount.value,
                    "terms": [[term.name, term.amount] for term in amount.terms],
                }
                for amount in computed.amounts
            },
            **({"holds": computed.holding} if computed.holding else {}),
        },
        separators=(",", ":"),
    )


def targets(record: NodeRecord) -> dict[str, int | None]:
    """What should stand on the node, by short name; None = not. A resource that failed is left out, so that it
    stays.
    """
    computed = record.computed
    found: dict[str, int | None] = dict.fromkeys(LENT)
    found.update(computed.wanted)
    return {name: amount for name, amount in found.items() if name not in computed.failed}


def _without_peak(rules: BatchRules) -> BatchRules:
    def plain(policy: Policy) -> Policy:
        return Policy.USAGE if policy.is_at_risk else policy

    return replace(rules, cpu_policy=plain(rules.cpu_policy), memory_policy=plain(rules.memory_policy))


def _of(use: Use, resource: str) -> int:
    return use.cpu_m if resource == BATCH_CPU else use.memory_bytes


def capacity_view(resource: str, facts: NodeFacts) -> tuple[dict[str, MeasuredPodUse], int, int]:
    """High-priority pods, capacity, and what is beside pods, of one resource."""
    pods: dict[str, MeasuredPodUse] = {}
    for pod in facts.pods:
        if pod.priority_class in LOW:
            continue
        sample = facts.measured.get(pod.key)
        used = None if sample is None else _of(sample.use, resource)
        pods[pod.key] = MeasuredPodUse(pod.priority_class, _of(pod.request, resource), used)
    known = {pod.key for pod in facts.pods}
    for key, measured in facts.measured.items():
        if key not in known and measured.priority_class not in LOW:
            pods[key] = MeasuredPodUse(measured.priority_class, 0, _of(measured.use, resource))
    system = _of(facts.system, resource) + sum(
        _of(application.use, resource)
        for application in facts.host_applications
        if application.priority_class not in LOW
    )
    return pods, _of(facts.capacity, resource), max(system, _of(facts.reserved, resource))


def _history(
    record: NodeRecord, node: ManagedNode, resource: str, capacity: int, settings: PeakSettings
) -> PeakHistory:
    return record.history.get(resource) or new_history(settings, _seeded(node.written, resource, capacity))


def _seeded(written: str, resource: str, capacity: int) -> float | None:
    """The reserve in a predecessor's annotation, as a share of the capacity; None where there is none that can be
    read.
    """
    if not written or capacity <= 0:
        return None
    try:
        terms: Mapping[str, object] = json.loads(written)["amounts"][resource]
        for name, amount in terms["terms"]:  # type: ignore[attr-defined]
            if str(name).startswith(RESERVE_TERM):
                return max(0.0, -float(amount) / capacity)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return None
