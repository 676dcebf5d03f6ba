"""Evaluates the rules between pods, and soft terms, for one kind and shape of pods.

Spread and affinity between pods depend on the residents of whole topology domains, so no row-local filter can evaluate
them. A rule is a mask over all rows, from the counts of its query summed by domain; soft terms are score parts over the
feasible rows. Rules are read once per kind (engine/state/pod_terms.py). The formulas are in policy/placement/topology,
the weights in policy/placement/preference.py.
Limits: a few NumPy passes over all nodes for each rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.budget import LARGE, rule_elements
from cotenant.engine.framework.node_rules import RuleResult
from cotenant.engine.state.count_queries import ResidentCount, SelectedPods, TermType
from cotenant.engine.state.images import NodeImages
from cotenant.engine.state.pod_counts import PodCounts
from cotenant.engine.state.pod_kind import PodKind
from cotenant.engine.state.pod_terms import PodRules, read_rules
from cotenant.engine.state.term_index import SelectingTerm
from cotenant.engine.state.topology import Regions
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.affinity import NodeInclusionPolicy, SpreadConstraint
from cotenant.model.cluster.pod import INTER_POD_AFFINITY, NODE_PORTS, POD_TOPOLOGY_SPREAD
from cotenant.model.cluster.topology import Domains
from cotenant.policy.placement import preference
from cotenant.policy.placement.filters import node_affinity, taints
from cotenant.policy.placement.kube_scoring import USUAL, KubeScoring
from cotenant.policy.placement.scores import kube_configured
from cotenant.policy.placement.topology import pod_affinity as affinity_pods
from cotenant.policy.placement.topology import pod_antiaffinity as antiaffinity_pods
from cotenant.policy.placement.topology import spread

REASON_PORTS = "node(s) didn't have free ports for the requested pod ports"


class TermRules:
    """Rules and soft terms of all kinds of pods, over the rows of one encoder."""

    def __init__(self, encoder: Encoder, pod_counts: PodCounts, regions: Regions, images: NodeImages) -> None:
        self._images = images
        self._encoder = encoder
        self._pod_counts = pod_counts
        self._regions = regions
        self.check: Callable[[], None] = _unlimited  # called for each term; raises where judgement costs too much
        self.scorings: Mapping[str, KubeScoring] = {}  # by `Pod.scored_by`, of profiles that have one
        self._rules: dict[PodKind, PodRules] = {}
        self.large: set[PodKind] = set()  # kinds with so many rules that their counts are not kept up to date
        self._selecting: dict[PodKind, tuple[tuple[SelectingTerm, ...], int, tuple[SelectingTerm, ...]]] = {}

    def of(self, kind: PodKind) -> PodRules:
        """The kind's own rules with their counts."""
        rules = self._rules.get(kind)
        if rules is None:
            rules = self._rules[kind] = read_rules(self._pod_counts, kind.pod, self.check)
            if rule_elements(kind.pod) > LARGE:
                self.large.add(kind)
        return rules

    def release_large(self) -> None:
        """Release the counts of kinds with very many rules: else every other new pod would be compared with each of
        them for as long as these wait or run.
        """
        while self.large:
            self.drop(self.large.pop())

    def drop(self, kind: PodKind) -> None:
        """Release the counts of a kind that has no pods left."""
        self.large.discard(kind)
        self._selecting.pop(kind, None)
        rules = self._rules.pop(kind, None)
        for count in rules.counts() if rules is not None else ():
            self._pod_counts.release_count(count)

    def has_required(self, kind: PodKind) -> bool:
        """Whether a rule of the kind, or an anti-affinity term of a resident, may make a node infeasible."""
        if self.of(kind).has_required:
            return True
        return any(
            selecting_term.residents.total and _is_forbidding(selecting_term)
            for selecting_term in self._terms_selecting(kind)
        )

    def has_preferred(self, kind: PodKind, k: int) -> bool:
        """Whether a soft term of the kind, of shape k, or of a resident changes the score of a node."""
        if self.of(kind).has_preferred or self._encoder.has_preferences(k) or self._has_image_scores(kind):
            return True
        if self._scoring_of(k) is not None:
            return True
        return any(
            selecting_term.residents.total and not _is_forbidding(selecting_term)
            for selecting_term in self._terms_selecting(kind)
        )

    def is_constrained(self, kind: PodKind, k: int) -> bool:
        """Whether `has_required` or `has_preferred`, in one look."""
        rules, encoder = self.of(kind), self._encoder
        if (
            rules.has_required
            or rules.has_preferred
            or k in encoder.preferring
            or (encoder.soft_taints and encoder.has_preferences(k))
            or self._has_image_scores(kind)
            or self._scoring_of(k) is not None
        ):
            return True
        terms = self._terms_selecting(kind)
        return bool(terms) and any(term.residents.total for term in terms)

    def _terms_selecting(self, kind: PodKind) -> tuple[SelectingTerm, ...]:
        """Residents' terms that select the kind, without those whose topology key no node has: they change nothing."""
        terms = self._pod_counts.terms_selecting(kind)
        if not terms:
            return terms
        revision = self._encoder.labels_revision
        known = self._selecting.get(kind)
        if known is None or known[0] is not terms or known[1] != revision:
            is_somewhere = {
                key: bool(self._regions.domains(key).names) for key in {term.topology_key for term in terms}
            }
            known = self._selecting[kind] = (
                terms,
                revision,
                tuple(term for term in terms if is_somewhere[term.topology_key]),
            )
        return known[2]

    def selects_itself(self, kind: PodKind) -> bool:
        """Whether a kind's required affinity terms all select pods of the kind, so the first one needs no other pod."""
        count = self.of(kind).affinity
        return (
            count is not None
            and isinstance(count.query, SelectedPods)
            and self._pod_counts.selects(count.query, kind.pod)
        )

    # ---- required

    def node_rules(self, kind: PodKind) -> Iterator[RuleResult]:
        """The rules about a single node: its name and its host ports."""
        rules = self.of(kind)
        size = self._regions.size()
        if rules.pinned is not None:
            yield RuleResult("NodeAffinity", node_affinity.REASON, self._regions.only(rules.pinned), False)
        if rules.ports and (taken := [count.rows(size) for count in rules.ports if count.total]):
            yield RuleResult(NODE_PORTS, REASON_PORTS, np.add.reduce(taken) == 0, True)

    def domain_rules(self, kind: PodKind, k: int) -> Iterator[RuleResult]:
        """The rules about topology domains: spread, affinity, and anti-affinity in both directions."""
        rules = self.of(kind)
        size = self._regions.size()
        every = np.arange(size)
        for rule, _ in self.spread_rules(k, kind, rules.spread):
            yield RuleResult(POD_TOPOLOGY_SPREAD, spread.REASON_NO_KEY, spread.has_key(rule, every), False)
            yield RuleResult(POD_TOPOLOGY_SPREAD, spread.REASON, spread.mask(rule, every), True)
        if rules.affinity is not None:
            domains = [self._domains(key) for key in rules.affinity_keys]
            left = affinity_pods.mask(domains, rules.affinity.rows(size), self.selects_itself(kind))
            yield RuleResult(INTER_POD_AFFINITY, affinity_pods.REASON, left, False)
        for key, rows in _by_key(rules.anti, size) if rules.anti else ():
            self.check()
            anti = antiaffinity_pods.count_rule(self._regions.domains(key), rows)
            yield RuleResult(INTER_POD_AFFINITY, antiaffinity_pods.REASON, antiaffinity_pods.mask(anti, every), True)
        self.check()
        forbidding = list(self.forbidding_terms(kind))
        for key, rows in _by_key(forbidding, size) if forbidding else ():
            anti = antiaffinity_pods.count_rule(self._regions.domains(key), rows)
            left = antiaffinity_pods.mask(anti, every)
            yield RuleResult(INTER_POD_AFFINITY, antiaffinity_pods.REASON_RESIDENTS, left, True)

    def forbidding_terms(self, kind: PodKind) -> Iterator[tuple[str, ResidentCount]]:
        """Residents' required anti-affinity terms that select the kind: topology key and count."""
        if INTER_POD_AFFINITY in kind.pod.unfiltered:
            return
        for selecting_term in self._terms_selecting(kind):
            if _is_forbidding(selecting_term):
                yield selecting_term.topology_key, selecting_term.residents

    def spread_rules(
        self,
        k: int,
        kind: PodKind,
        constraints: tuple[tuple[SpreadConstraint, ResidentCount], ...],
        needs_keys: bool = True,
    ) -> Iterator[tuple[spread.SpreadRule, Mask]]:
        """Constraints with the counts of their eligible rows; and the mask of those rows. `needs_keys`: rows
        without a key of any are not eligible.
        """
        if not constraints:
            return
        nodes, shapes = self._encoder.nodes(), self._encoder.shapes()
        size = len(nodes.ready)
        every = np.arange(size)
        if kind.pod.unfiltered:  # a policy honours them, whether or not they are filtered by
            fits, tolerated = self._encoder.own_terms_mask(k)
        else:
            fits, tolerated = node_affinity.mask(nodes, shapes, k, every), taints.mask(nodes, shapes, k, every)
        if kind.pod.pinned is not None:
            fits &= self._regions.only(kind.pod.pinned)
        domains = {key: self._domains(key) for key in dict.fromkeys(entry.topology_key for entry, _ in constraints)}
        needed = tuple(domains.values()) if needs_keys else ()
        known: dict[tuple[NodeInclusionPolicy, NodeInclusionPolicy], Mask] = {}
        empty: dict[tuple[str, NodeInclusionPolicy, NodeInclusionPolicy], spread.SpreadRule] = {}
        for constraint, count in constraints:
            self.check()
            over, policies = (
                domains[constraint.topology_key],
                (constraint.node_affinity_policy, constraint.node_taints_policy),
            )
            eligible = known.get(policies)
            if eligible is None:
                eligible = known[policies] = spread.eligible_nodes(constraint, needed, fits, tolerated)
            itself = constraint.selects(kind.pod.labels)
            if count.total:
                yield spread.count_rule(constraint, over, count.rows(size), eligible, itself), eligible
                continue
            rule = empty.get((constraint.topology_key, *policies))
            if rule is None:
                rule = spread.count_rule(constraint, over, count.rows(size), eligible, itself)
                empty[constraint.topology_key, *policies] = rule
            yield (
                rule._replace(max_skew=constraint.max_skew, min_domains=constraint.min_domains, counts_itself=itself),
                eligible,
            )

    def _domains(self, key: str) -> Domains:
        self.check()
        return self._regions.domains(key)

    # ---- preferred

    def preferences(self, kind: PodKind, k: int, rows: Int) -> Iterator[preference.PreferencePart]:
        """The score part of each soft term over feasible rows; none for terms that do not exist."""
        rules, scoring = self.of(kind), self._scoring_of(k)
        points = USUAL.weights if scoring is None else scoring.weights
        if scoring is not None:
            yield from self._resource_scores(scoring, k, rows)
        if self._encoder.has_preferences(k):
            bits, weights = self._encoder.preferred(k)
            untolerated = self._encoder.untolerated(k)
            nodes = self._encoder.nodes()
            if len(untolerated) and points.taints:
                values = points.taints * taints.score(nodes, untolerated, rows)
                yield preference.PreferencePart("taints", values)
            if len(bits) and points.node_affinity:
                values = points.node_affinity * node_affinity.score(nodes, bits, weights, rows)
                yield preference.PreferencePart("node affinity", values)
        images = self._images.scores(kind.pod.images) if points.images else None
        if images is not None:
            yield preference.PreferencePart("images", points.images * images[rows])
        if rules.soft_spread and points.spread:
            soft = tuple(rule for rule, _ in self.spread_rules(k, kind, rules.soft_spread))
            yield preference.PreferencePart("spread", points.spread * spread.score(soft, rows))
        if rules.default_spread is not None and points.spread:
            constraints = tuple((default, rules.default_spread) for default in spread.SYSTEM_DEFAULTS)
            defaults = tuple(rule for rule, _ in self.spread_rules(k, kind, constraints, needs_keys=False))
            values = points.spread * spread.score(defaults, rows, needs_keys=False)
            yield preference.PreferencePart("default spread", values)
        if not points.pod_affinity:
            return
        total, has_terms = self._pod_affinity_weights(kind, rules, rows, scoring or USUAL)
        if has_terms:
            yield preference.PreferencePart("pod affinity", points.pod_affinity * affinity_pods.score(total))

    def _scoring_of(self, k: int) -> KubeScoring | None:
        return self.scorings.get(self._encoder.shape(k).scored_by) if self.scorings else None

    def _resource_scores(self, scoring: KubeScoring, k: int, rows: Int) -> Iterator[preference.PreferencePart]:
        columns = {name: at for at, name in enumerate(self._encoder.axis.names)}
        nodes, shapes = self._encoder.nodes(), self._encoder.shapes()
        if scoring.weights.fit:
            values = kube_configured.fit_rows(scoring, columns, nodes, shapes, k, rows)
            yield preference.PreferencePart("NodeResourcesFit", scoring.weights.fit * values)
        if scoring.weights.balanced:
            balanced = kube_configured.balanced_rows(scoring, columns, nodes, shapes, k, rows)
            if balanced is not None:
                yield preference.PreferencePart("NodeResourcesBalancedAllocation", scoring.weights.balanced * balanced)

    def _has_image_scores(self, kind: PodKind) -> bool:
        images = self._images
        return bool(kind.pod.images and images.sizes) and images.scores(kind.pod.images) is not None

    def _pod_affinity_weights(
        self, kind: PodKind, rules: PodRules, rows: Int, scoring: KubeScoring
    ) -> tuple[Int, bool]:
        """Sum of the weights of matching soft terms on each row, the pod's own and residents', and whether there
        are such terms.
        """
        size = self._regions.size()
        total = np.zeros(len(rows), dtype=np.int64)
        has_terms = bool(rules.preferred)
        if scoring.ignores_preferences_of_residents and not has_terms:
            return total, False
        weighed: dict[str, Int] = {}  # by topology key

        def weigh(key: str, count: ResidentCount, weight: int) -> None:
            here = weight * count.rows(size)
            weighed[key] = here if key not in weighed else weighed[key] + here

        for key, count, weight in rules.preferred:
            if count.total:
                self.check()
                weigh(key, count, weight)
        for selecting_term in self._terms_selecting(kind):
            if not selecting_term.residents.total or selecting_term.type is TermType.REQUIRED_ANTI_AFFINITY:
                continue
            is_required = selecting_term.type is TermType.REQUIRED_AFFINITY
            times = scoring.hard_pod_affinity_weight if is_required else 1
            if times == 0:
                continue
            weigh(selecting_term.topology_key, selecting_term.residents, times * selecting_term.weight)
            has_terms = True
        for key, matching in weighed.items():
            total += affinity_pods.preference_score(self._regions.domains(key), matching, 1, rows)
        return total, has_terms


def _unlimited() -> None:
    pass


def _is_forbidding(term: SelectingTerm) -> bool:
    return term.type is TermType.REQUIRED_ANTI_AFFINITY


def _by_key(terms: Sequence[tuple[str, ResidentCount]], size: int) -> Iterator[tuple[str, Int]]:
    """The sum of the counts of each topology key, per row; a key without residents is left out."""
    if len(terms) == 1:  # as of most pods
        if terms[0][1].total:
            yield terms[0][0], terms[0][1].rows(size)
        return
    found: dict[str, list[Int]] = {}
    for key, count in terms:
        if count.total:
            found.setdefault(key, []).append(count.rows(size))
    for key, counts in found.items():
        yield key, counts[0] if len(counts) == 1 else np.add.reduce(counts)
