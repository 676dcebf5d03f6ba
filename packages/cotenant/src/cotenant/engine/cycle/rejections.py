"""Which filter rejected each node, in Kubernetes' words, and the nodes that came nearest.

"Insufficient other resource" or "untolerated taint" does not say what to change, and thousands of pods may need an
explanation. Every filter and rule is evaluated for all nodes at once, in kube-scheduler's order of plugins; a node
counts under the first that rejects it, and within resource fit once for every resource it lacks, as in kube-scheduler.
Taints and resources are named by the encoder. Nodes that only one filter rejects are near misses. Results are cached
per kind of pod until the owner reports a change.
Limits: a pod with claims is evaluated each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cotenant.engine.cycle.eviction.fixed_filters import PLUGINS, fixed_filters
from cotenant.engine.cycle.eviction.required_room import demands
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.narrowing import Narrowing
from cotenant.engine.state.pod_kind import PodKind
from cotenant.model.arrays import CPU, Int, Mask
from cotenant.model.decisions.reasons import Rejection, no_node_line
from cotenant.model.resources import format_amount
from cotenant.policy.placement.cpus.amplification import INSUFFICIENT_AMPLIFIED
from cotenant.policy.placement.profiles import PlacementProfile

FIT = "NodeResourcesFit"

# kube-scheduler's order; our additional filters do not change the counts of its filters
_ORDER = (*PLUGINS, "NodePorts", FIT)


@dataclass(frozen=True, slots=True)
class NearestMiss:
    """A number of nodes that miss one thing: `amount` more of a resource (in its unit), or a reason, with figures
    if there are any.
    """

    nodes: int
    reason: str
    resource: str = ""
    amount: int = 0
    figures: str = ""

    def __str__(self) -> str:
        nodes = "1 node fits" if self.nodes == 1 else f"{self.nodes} nodes fit"
        missing = f"{format_amount(self.resource, self.amount)} {self.resource}" if self.resource else self.reason
        if self.figures:
            missing = f"{missing} ({self.figures})"
        return f"{nodes} but for {missing}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why nodes are infeasible: `rejections` over `nodes`, and the nearest miss.

    `filters`: those that rejected nodes. Where a node passes all of them by now, since pods of the same round were
    placed after this one was refused, whichever did so is not known any more: then all that the pod meets.
    """

    nodes: int
    rejections: tuple[Rejection, ...]
    nearest: NearestMiss | None
    filters: frozenset[str]

    def headline(self) -> str:
        """One line, as kube-scheduler's FitError."""
        return no_node_line(self.nodes, self.rejections)


class FilterCheck(NamedTuple):
    """The result of one filter."""

    plugin: str
    reason: str
    fails: Mask  # [N]
    resource: str = ""
    missing: Int | None = None  # [N] the missing amount of the resource, where it fails
    figures: Callable[[Mask], str] | None = None


@dataclass(frozen=True, slots=True)
class FilterChecks:
    """The results of all filters for one pod: rows with a node, the results in kube-scheduler's order, and the
    number of rejections of each row.
    """

    here: Mask  # [N]
    checks: tuple[FilterCheck, ...]
    misses: Int  # [N]

    def explanation(self) -> Explanation:
        """The counts, each node under the first filter that rejects it, and the nearest miss."""
        found: dict[tuple[str, str], int] = {}
        for check, refused in self.counted():
            times = int(refused.sum())
            if times:
                found[check.plugin, check.reason] = found.get((check.plugin, check.reason), 0) + times
        rejections = tuple(Rejection(name, reason, times) for (name, reason), times in found.items())
        nearest = self.nearest()
        passes = bool((self.here & (self.misses == 0)).any())
        filters = {check.plugin for check in self.checks} if passes else {name for name, _ in found}
        return Explanation(int(self.here.sum()), rejections, nearest[0] if nearest else None, frozenset(filters))

    def counted(self) -> Iterator[tuple[FilterCheck, Mask]]:
        """Each result with the rows that count under it."""
        left, i = self.here, 0
        while i < len(self.checks):
            end = i + 1
            while end < len(self.checks) and self.checks[end].plugin == self.checks[i].plugin == FIT:
                end += 1  # a node that lacks two resources is counted under both
            passing = left
            for check in self.checks[i:end]:
                yield check, left & check.fails
                passing = passing & ~check.fails
            left, i = passing, end

    def nearest(self) -> tuple[NearestMiss, ...]:
        """The misses of nodes that only one filter rejects."""
        near = self.here & (self.misses == 1)
        return near_misses(self.checks, near) if near.any() else ()


class Rejector:
    """Explains rejections of one cluster's pods."""

    def __init__(self, encoder: Encoder, narrowing: Narrowing | None, profile: PlacementProfile) -> None:
        """Without `narrowing`, only row-local filters are explained."""
        self._encoder = encoder
        self._narrowing = narrowing
        self._profile = profile
        self._state: Hashable = None
        self._known: dict[tuple[PodKind | None, int, Hashable], Explanation] = {}

    def explain(self, number: int, state: Hashable = None) -> Explanation:
        """Why nodes reject a pod. `state` changes whenever the cluster does; None = do not cache the result."""
        narrowing = self._narrowing
        if narrowing is None:
            return self.explain_shape(self._encoder.shape_of(number))
        k = self._encoder.shape_of(number)
        if state is None or number in narrowing.volumes or not narrowing.is_cacheable(number):
            return self.check(k, number).explanation()
        kind = narrowing.kind_of(number) if narrowing.is_narrowed(number) else None  # else its labels do not matter
        if state != self._state:
            self._known.clear()
            self._state = state
        demands_of_pod = narrowing.demands_of(number)
        known = self._known.get((kind, k, demands_of_pod))
        if known is None:
            known = self._known[kind, k, demands_of_pod] = self.check(k, number).explanation()
        return known

    def explain_shape(self, k: int, rows: Int | None = None) -> Explanation:
        """Why nodes (those of `rows`, or all) reject pods of a shape, by row-local filters."""
        return self.check(k, -1, rows).explanation()

    def check(self, k: int, number: int, rows: Int | None = None) -> FilterChecks:
        """The results of all filters on every node (those of `rows`, or all) for a pod with shape k; number -1 =
        row-local filters only.
        """
        here = np.zeros(self._encoder.all_rows, dtype=np.bool_)
        here[list(self._encoder.node_rows.values()) if rows is None else rows] = True
        checks = tuple(self._checks(k, number))
        misses = np.zeros(len(here), dtype=np.int64)
        for entry in checks:
            misses += entry.fails
        return FilterChecks(here, checks, misses)

    def _checks(self, k: int, number: int) -> Iterator[FilterCheck]:
        encoder = self._encoder
        nodes, shapes = encoder.nodes(), encoder.shapes()
        rules = list(self._narrowing.rules(number)) if self._narrowing is not None and number >= 0 else []
        for fixed_filter in fixed_filters(encoder, k):
            yield FilterCheck(*fixed_filter)
        for rule in rules:
            if rule.plugin in _ORDER:
                yield FilterCheck(rule.plugin, rule.reason, ~rule.left, figures=rule.figures)
        for demand in demands(encoder.axis.names, nodes, shapes, k, self._profile):
            missing = demand.held - demand.limit
            fails = missing > 0
            if demand.resource == CPU and (withheld_m := encoder.withheld_m()).any():
                by_others = fails & (missing <= withheld_m)  # exclusive CPUs of residents count amplified
                fails &= ~by_others
                for rule in rules:
                    if rule.reason == INSUFFICIENT_AMPLIFIED:
                        by_others &= rule.left  # else the rule says so, with its own figures
                yield FilterCheck(demand.plugin, INSUFFICIENT_AMPLIFIED, by_others, demand.name, missing)
            yield FilterCheck(demand.plugin, demand.reason, fails, demand.name, missing)
        for rule in rules:
            if rule.plugin not in _ORDER:
                yield FilterCheck(rule.plugin, rule.reason, ~rule.left, figures=rule.figures)


def near_misses(checks: tuple[FilterCheck, ...], near: Mask) -> tuple[NearestMiss, ...]:
    """Of nodes that only one check rejects: the smallest missing amount of each resource, most nodes first, then
    the other reasons likewise, those with figures first: of the rest the headline says all.
    """
    by_resource: list[tuple[int, NearestMiss]] = []
    by_reason: dict[str, int] = {}
    figures: dict[str, str] = {}  # by reason
    for check in checks:
        only = near & check.fails
        times = int(only.sum())
        if not times:
            continue
        if check.missing is None or not check.resource:
            by_reason[check.reason] = by_reason.get(check.reason, 0) + times
            if check.figures is not None:
                figures[check.reason] = check.figures(only)
            continue
        least = int(check.missing[only].min())
        nodes = int((check.missing[only] == least).sum())
        by_resource.append((times, NearestMiss(nodes, check.reason, check.resource, least)))
    by_resource.sort(key=lambda pair: -pair[0])
    others = sorted(by_reason.items(), key=lambda pair: (not figures.get(pair[0]), -pair[1]))
    return (
        *(miss for _, miss in by_resource),
        *(NearestMiss(times, reason, figures=figures.get(reason, "")) for reason, times in others),
    )
