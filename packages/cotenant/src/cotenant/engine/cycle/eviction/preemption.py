"""Builds the preemption problem from the cluster's state: the constraints of a pod on each node, and the candidates for
eviction.

The choice of victims (policy/placement/preemption.py) is a pure function of columns of numbers, while a node is ruled
out by requests, predicted use, ports, claims, anti-affinity in both directions and spread. Each of them becomes a
column here. For a rule over a domain the rest of the domain is subtracted from the limit, so the column is about the
node alone. Required affinity can only be lost by removals, so it is checked once, with every candidate removed. Gangs
that evictions would break come from engine/cycle/eviction/losses.py; resources that their members free on other nodes
are not considered.
Limits: as in kube-scheduler, a node on which a required neighbour has lower priority is not cleared; anti-affinity and
spread of nominated pods are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from cotenant.engine.cycle.eviction.fixed_filters import passing
from cotenant.engine.cycle.eviction.losses import NOTHING_AT_STAKE, AtStake
from cotenant.engine.cycle.eviction.required_room import demands
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import ClearingRules, Vacating
from cotenant.engine.state.count_queries import ResidentCount
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import EVERYWHERE, Narrowing
from cotenant.engine.state.pod_kind import PodKind
from cotenant.engine.state.storage import attach_limits, inline_disks
from cotenant.engine.state.storage.volumes import REASON_EXCLUSIVE
from cotenant.engine.state.term_rules import REASON_PORTS
from cotenant.model.arrays import CPU, Float, Int, Mask
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.observed import DisruptionBudget
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.topology import Domains
from cotenant.policy.placement.preemption import (
    UNLIMITED,
    Candidates,
    ConstraintColumn,
    Exact,
    Preemption,
    find_victims,
    importance,
)
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.policy.placement.reprieve import Vacate
from cotenant.policy.placement.topology import pod_affinity as affinity_pods
from cotenant.policy.placement.topology import pod_antiaffinity as antiaffinity_pods
from cotenant.policy.placement.topology import spread


class RowNominations(NamedTuple):
    """Pods of no lower priority that are nominated to a row, and the pods there that end for them."""

    pods: tuple[int, ...]
    ending: frozenset[int]


NONE_NOMINATED: Mapping[int, RowNominations] = MappingProxyType({})


class DisruptionBudgets:
    """The disruption budgets of a cluster, and which kinds of pods each covers."""

    def __init__(self, budgets: Iterable[DisruptionBudget] = ()) -> None:
        self._budgets: dict[tuple[str, str], DisruptionBudget] = {}
        self._covered: dict[tuple[str, LabelSelector], dict[PodKind, bool]] = {}
        # One preemption follows another with the same kinds of candidates.
        self._kinds: list[PodKind] = []
        self._columns: dict[tuple[str, LabelSelector], Mask] = {}  # for these kinds
        for budget in budgets:
            self.set(budget)

    def set(self, budget: DisruptionBudget) -> bool:
        """Add or update a budget. Whether anything changed."""
        before = self._budgets.get((budget.namespace, budget.name))
        self._budgets[budget.namespace, budget.name] = budget
        return before != budget

    def all(self) -> tuple[DisruptionBudget, ...]:
        """Every budget."""
        return tuple(self._budgets.values())

    def remove(self, namespace: str, name: str) -> bool:
        """Remove a deleted budget. Whether it was there."""
        return self._budgets.pop((namespace, name), None) is not None

    def is_spent(self, pod: Pod) -> bool:
        """Whether a budget that covers the pod allows no disruption now."""
        return any(budget.allowed <= 0 and budget.covers(pod) for budget in self._budgets.values())

    def bears_all(self, pods: Sequence[Pod], beside: Callable[[], Sequence[Pod]] = tuple) -> bool:
        """Whether all of these may be disrupted at once, beside others that go and that budgets do not count yet; who
        those are is asked only where a budget covers any of these.
        """
        covering = [budget for budget in self._budgets.values() if any(map(budget.covers, pods))]
        gone = (*pods, *beside()) if covering else ()
        return all(sum(map(budget.covers, gone)) <= budget.allowed for budget in covering)

    def covering(self, encoder: Encoder, narrowing: Narrowing, pods: Int) -> tuple[Int, Mask, Int]:
        """`Candidates.group`, `covered` and `bears` for these pods."""
        kinds, group = _grouped(narrowing, pods)
        if len(self._covered) > 2 * len(self._budgets) + 16:
            self._covered.clear()
            self._columns.clear()
        if kinds != self._kinds:
            self._kinds = kinds
            self._columns.clear()
        columns: list[Mask] = []
        bears: list[int] = []
        exempt: dict[int, list[int]] = {}  # pod -> budgets that count it as disrupted already
        for budget in self._budgets.values():
            covers = self._covers(budget, kinds)
            if not covers.any():
                continue
            for name in budget.disrupted:
                number = encoder.pod_numbers.get(f"{budget.namespace}/{name}")
                if number is not None:
                    exempt.setdefault(number, []).append(len(columns))
            columns.append(covers)
            bears.append(budget.allowed)
        covered = np.array(columns, dtype=np.bool_).reshape(len(columns), len(kinds)).T
        for number, budgets in exempt.items():
            for position in np.flatnonzero(pods == number).tolist():
                alone = covered[group[position]].copy()
                alone[budgets] = False
                group[position] = len(covered)
                covered = np.concatenate([covered, alone[None]])
        return group, np.ascontiguousarray(covered), np.array(bears, dtype=np.int64)

    def _covers(self, budget: DisruptionBudget, kinds: list[PodKind]) -> Mask:
        """`bool[K]`, not to be changed."""
        if budget.selector is None:
            return np.zeros(len(kinds), dtype=np.bool_)
        covers = self._columns.get((budget.namespace, budget.selector))
        if covers is not None:
            return covers
        covers = self._columns[budget.namespace, budget.selector] = np.zeros(len(kinds), dtype=np.bool_)
        known = self._covered.setdefault((budget.namespace, budget.selector), {})
        if len(known) > 4 * len(kinds) + 1024:
            known.clear()  # removed kinds
        for i, kind in enumerate(kinds):
            if kind.pod.namespace == budget.namespace:
                answer = known.get(kind)
                if answer is None:
                    answer = known[kind] = budget.selector.matches(kind.pod.labels)
                covers[i] = answer
        return covers


def _grouped(narrowing: Narrowing, pods: Int) -> tuple[list[PodKind], Int]:
    """The kinds of these pods, and which of them each pod is."""
    index = narrowing.kind_indexes(pods)
    place = np.zeros(int(index.max(initial=-1)) + 1, dtype=np.int64)
    place[index] = 1
    found = np.flatnonzero(place)
    place[found] = np.arange(len(found))
    return [narrowing.pod_counts.at(int(i)) for i in found], place[index]


def preempt(
    encoder: Encoder,
    ledger: Ledger,
    narrowing: Narrowing,
    profile: PlacementProfile,
    number: int,
    priority: int,
    priorities: Int,
    sub_priorities: Int,
    started_s: Float,
    budgets: DisruptionBudgets,
    stand_in: int = -1,
    stake: AtStake = NOTHING_AT_STAKE,
    only: Mask = EVERYWHERE,
    nominated: Mapping[int, RowNominations] = NONE_NOMINATED,
) -> Preemption:
    """The victims for the pod `number` of this priority, and their node.

    `priorities[P]`, `sub_priorities[P]` and `started_s[P]` (Unix seconds, NaN = not started) are by pod number and
    cover every resident. Priority decides which pods may be evicted; sub-priority orders victims of equal priority.
    `stake` has the jobs that it could break, `only` the rows to search. `nominated`, by row: for node rules, which hold
    nothing for nominated pods; the ledger holds their requests already.
    With a `stand_in` (engine/explain/what_if.py) the encoder and ledger are read for that number, and the narrowing for
    `number`.
    """
    shape = encoder.shape_of(number if stand_in < 0 else stand_in)
    assigned = np.flatnonzero(ledger.row >= 0)
    lower = assigned[priorities[assigned] < priority]
    if len(stake.spared):
        lower = lower[~np.isin(lower, stake.spared)]
    group, covered, bears = budgets.covering(encoder, narrowing, lower)
    job = stake.of[lower] if len(stake.of) else np.full(len(lower), -1, dtype=np.int64)
    candidates = Candidates(
        lower,
        ledger.row[lower],
        importance(priorities[lower], sub_priorities[lower]),
        started_s[lower],
        group,
        covered,
        bears,
        job,
        stake.jobs,
    )
    helpable = passing(encoder, shape)
    if len(only):
        helpable &= only
    for rule in narrowing.rules(number):
        if not rule.yields:
            helpable &= rule.left
    columns = (
        *_resource_columns(encoder, ledger, profile, shape, lower, narrowing.surplus_m(lower)),
        *_rule_columns(narrowing, number, narrowing.shape_of(number), lower, candidates.row),
    )
    return find_victims(narrowing.regions.known(), helpable, columns, candidates, _exact(narrowing, number, nominated))


def _resource_columns(
    encoder: Encoder, ledger: Ledger, profile: PlacementProfile, k: int, pods: Int, surplus_m: Int
) -> Iterator[ConstraintColumn]:
    """The profile's fit, resource by resource, then the group limit and the load limit. `surplus_m`: milli-CPU that
    a pod frees beside its request.
    """
    shapes, of_pod = ledger.shapes, ledger.shape[pods]
    for demand in demands(encoder.axis.names, ledger.nodes, shapes, k, profile):
        if demand.resource >= 0:
            weight = shapes.request[:, demand.resource][of_pod]
            if demand.resource == CPU and surplus_m.any():
                withheld_m = encoder.withheld_m()
                yield ConstraintColumn(
                    demand.reason, demand.held + withheld_m, demand.limit + withheld_m, weight + surplus_m
                )
                continue
        elif demand.estimate is not None:
            weight = ledger.added(pods, demand.estimate)
        else:
            weight = (shapes.group[of_pod] == demand.group).astype(np.int64)
        yield ConstraintColumn(demand.reason, demand.held, demand.limit, weight)


def _rule_columns(narrowing: Narrowing, number: int, k: int, pods: Int, rows: Int) -> Iterator[ConstraintColumn]:
    """Ports, exclusive claims, spread and affinity between pods, and the columns of node rules."""
    kind = narrowing.kind_of(number)
    rules = narrowing.terms.of(kind)
    size = narrowing.regions.size()
    weights = _Weights(narrowing, pods)
    if rules.ports:
        held = np.add.reduce([count.rows(size) for count in rules.ports])
        yield ConstraintColumn(REASON_PORTS, held, np.zeros(size, dtype=np.int64), weights.sum(rules.ports))
    unfiltered = kind.pod.unfiltered
    restricts = "VolumeRestrictions" not in unfiltered
    for users in narrowing.volumes.users_elsewhere(number) if restricts else ():
        user_rows = np.array([narrowing.row_of(user) for user in users], dtype=np.int64)
        held = np.bincount(user_rows, minlength=size)
        yield ConstraintColumn(REASON_EXCLUSIVE, held, held - len(users), np.isin(pods, users).astype(np.int64))
    for conflicts in narrowing.volumes.disk_conflicts(number) if restricts else ():
        held = np.bincount(np.array([row for _, row in conflicts], dtype=np.int64), minlength=size)
        weight = np.isin(pods, [user for user, _ in conflicts]).astype(np.int64)
        yield ConstraintColumn(inline_disks.REASON, held, np.zeros(size, dtype=np.int64), weight)
    for total, freed in narrowing.volumes.attach_totals(number, pods) if attach_limits.PLUGIN not in unfiltered else ():
        yield ConstraintColumn(attach_limits.REASON, total.held, total.limit, freed)
    constraints = narrowing.terms.spread_rules(k, kind, rules.spread)
    for (rule, eligible), (_, count) in zip(constraints, rules.spread, strict=True):
        weight = np.where(narrowing.is_terminating(pods), 0, weights.of(count))
        yield _spread_column(rule, eligible, count.rows(size), weight, rows)
    if rules.affinity is not None:
        domains = [narrowing.regions.domains(key) for key in rules.affinity_keys]
        yield _affinity_column(
            domains, rules.affinity, narrowing.terms.selects_itself(kind), weights.of(rules.affinity), rows
        )
    for reason, terms in (
        (antiaffinity_pods.REASON, rules.anti),
        (antiaffinity_pods.REASON_RESIDENTS, narrowing.terms.forbidding_terms(kind)),
    ):
        by_key: dict[str, list[ResidentCount]] = {}
        for key, count in terms:
            by_key.setdefault(key, []).append(count)
        for key, counts in by_key.items():
            held = np.add.reduce([count.rows(size) for count in counts])
            yield _anti_column(reason, narrowing.regions.domains(key), held, weights.sum(counts))
    for node_rules, known_as in narrowing.applying(number):
        if isinstance(node_rules, ClearingRules):
            yield from node_rules.columns(known_as, pods, rows)


def _exact(narrowing: Narrowing, number: int, nominated: Mapping[int, RowNominations]) -> Exact | None:
    """What node rules answer on a row; None if no such rule applies to the pod."""
    vacating = [
        (node_rules, known_as)
        for node_rules, known_as in narrowing.applying(number)
        if isinstance(node_rules, Vacating)
    ]

    def on_row(row: int) -> Vacate | None:
        pods, ending = nominated.get(row, _NOBODY)
        found = [vacate for entry, known_as in vacating if (vacate := entry.vacate(known_as, row, pods)) is not None]
        return _Together(found, ending) if found else None

    return on_row if vacating else None


_NOBODY = RowNominations((), frozenset())


class _Together:
    """The answers of all node rules together."""

    def __init__(self, parts: list[Vacate], ending: frozenset[int]) -> None:
        """`ending`: pods that leave in any case."""
        self._parts = parts
        self._ending = ending
        self.reason = parts[0].reason
        sizes: dict[int, int] = {}
        for vacate in parts:
            for pod, size in vacate.sizes.items():
                sizes[pod] = sizes.get(pod, 0) + size
        self.sizes: Mapping[int, int] = sizes

    def fits(self, removed: frozenset[int]) -> bool:
        for vacate in self._parts:
            if not vacate.fits(removed | self._ending):
                self.reason = vacate.reason
                return False
        return True


class _Weights:
    """How often each candidate enters a count, by kind."""

    def __init__(self, narrowing: Narrowing, pods: Int) -> None:
        self._kinds, self._where = _grouped(narrowing, pods)

    def of(self, count: ResidentCount) -> Int:
        """`int64[V]`."""
        return np.array([kind.counted.get(count, 0) for kind in self._kinds], dtype=np.int64)[self._where]

    def sum(self, counts: Sequence[ResidentCount]) -> Int:
        """`int64[V]`: how often each candidate enters any of these."""
        wanted = Counter(counts)
        found = [
            sum(times * wanted[count] for count, times in kind.counted.items() if count in wanted)
            if len(kind.counted) < len(wanted)
            else sum(kind.counted.get(count, 0) * times for count, times in wanted.items())
            for kind in self._kinds
        ]
        return np.array(found, dtype=np.int64)[self._where]


def _anti_column(reason: str, domains: Domains, held: Int, weight: Int) -> ConstraintColumn:
    """No matching pod may remain in the domain, neither on the node nor elsewhere."""
    elsewhere = domains.spread_out(domains.total(held)) - held
    return ConstraintColumn(reason, held, np.where(domains.of_node >= 0, -elsewhere, UNLIMITED), weight)


def _spread_column(rule: spread.SpreadRule, eligible: Mask, held: Int, weight: Int, rows: Int) -> ConstraintColumn:
    """The number of pods on the node that keeps its domain within the skew over the current smallest domain.

    Removals can lower the smallest count only in the node's own domain, where this rule does not need them.
    """
    known = rule.pods[rule.eligible]
    smallest = 0 if len(known) < max(1, rule.min_domains) else int(known.min())
    elsewhere = rule.domains.spread_out(rule.pods) - np.where(eligible, held, 0)
    most = smallest + rule.max_skew - int(rule.counts_itself)
    limit = np.where(rule.domains.of_node >= 0, most - elsewhere, -UNLIMITED)
    return ConstraintColumn(spread.REASON, np.where(eligible, held, 0), limit, np.where(eligible[rows], weight, 0))


def _affinity_column(
    domains: list[Domains], count: ResidentCount, itself: bool, weight: Int, rows: Int
) -> ConstraintColumn:
    """0 or 1: whether a row lacks the required co-located pods once all its candidates are removed."""
    size = len(domains[0].of_node)
    held = count.rows(size)
    removed = np.bincount(rows, weights=weight, minlength=size).astype(np.int64)
    satisfied = np.ones(size, dtype=np.bool_)
    with_keys = satisfied.copy()
    any_match = np.zeros(size, dtype=np.bool_)
    for over in domains:
        has_key = over.of_node >= 0
        totals = over.total(held)
        satisfied &= has_key & (over.spread_out(totals) - removed > 0)
        with_keys &= has_key
        any_match |= int(totals.sum()) - np.where(has_key, removed, 0) > 0
    fails = ~np.where(any_match | (not itself), satisfied, with_keys)
    no_weight = np.zeros(len(rows), dtype=np.int64)
    return ConstraintColumn(affinity_pods.REASON, fails.astype(np.int64), np.zeros(size, dtype=np.int64), no_weight)
