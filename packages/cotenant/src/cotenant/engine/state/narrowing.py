"""Excludes rows by rules that are not row-local, and scores soft terms, as the cluster fills.

Affinity between pods, spread, host ports and volumes depend on other pods, so every placement changes their result.
A pod's rows are narrowed by sums over domains before the compiled filters and scores run on the rest, and soft terms
are added to the profile's score over the feasible rows. Pods without such rules, and that no resident's rule selects,
are placed in one compiled run. Which pods there are: engine/state/narrowed_pods.py.
Limits: a pod with rules costs a few NumPy passes over all nodes. The rules between pods: engine/state/term_rules.py;
volumes: engine/state/storage/volumes.py; queues: engine/cycle/runs.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import NodeRules, RuleResult
from cotenant.engine.state.narrowed_pods import NarrowedPods
from cotenant.engine.state.storage.volumes import VolumeChoice
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.cluster.demands import NO_HOLDINGS, Demands
from cotenant.model.cluster.pod import Pod
from cotenant.policy.placement import preference

EVERYWHERE: Mask = np.empty(0, dtype=np.bool_)  # no narrowing, as the compiled placement expects it


class Narrowing(NarrowedPods):
    """The pods with their assignments, and what narrows the rows of each."""

    def __init__(self, encoder: Encoder, node_rules: tuple[NodeRules, ...] = ()) -> None:
        super().__init__(encoder, node_rules)
        self._simulated: tuple[int, int, tuple[NodeRules, ...]] | None = (
            None  # number, its stand-in, node rules of that
        )

    # ---- what-if

    def expect(self, nominated: tuple[tuple[int, int], ...]) -> None:
        """From now on, place pods (engine/cycle/runs.py) as if these nominated pods (number, row) were assigned
        already.
        """
        self._expected = nominated

    @property
    def has_expected(self) -> bool:
        """Whether nominated pods are expected (`expect`)."""
        return bool(self._expected)

    @contextmanager
    def assuming(self, nominated: tuple[tuple[int, int], ...], number: int = -1) -> Iterator[None]:
        """In this context, nominated pods (number, row) count as assigned, except `number` itself."""
        added = [(pod, row) for pod, row in nominated if pod != number and pod not in self._rows]
        for pod, row in added:
            self.assign(pod, row)
        try:
            yield
        finally:
            for pod, _ in added:
                self.unassign(pod)

    @contextmanager
    def without(self, number: int) -> Iterator[None]:
        """In this context, an assigned pod does not count; its volume claims keep their volumes. Everything is
        restored on exit.
        """
        row = self._rows.get(number)
        if row is None:
            yield
            return
        kind, applying, terminating = self._pods[number][0], self.node_rules_of(number), number in self._terminating
        self.pod_counts.assign(kind, row, -1, terminating)
        for node_rules in applying:
            node_rules.unassign(number)
        try:
            yield
        finally:
            for node_rules in applying:
                node_rules.assign(number, row)
            self.pod_counts.assign(kind, row, 1, terminating)

    @contextmanager
    def simulating(self, number: int, pod: Pod, demands: Demands) -> Iterator[None]:
        """In this context, node rules evaluate the pod as if it were `pod`, a pod of its kind."""
        stand_in = self.encoder.pod_rows  # larger than every pod's number
        applying: list[NodeRules] = []
        try:
            applying.extend(rule for rule in self.node_rules if rule.add_pod(stand_in, pod, demands, NO_HOLDINGS))
            self._simulated = number, stand_in, tuple(applying)
            yield
        finally:
            self._simulated = None
            for node_rules in applying:
                node_rules.remove_pod(stand_in)

    # ---- rules

    def allowed(self, number: int) -> Mask:
        """`bool[N]`: rows that satisfy all rules for the pod; `EVERYWHERE` (empty) if no rule applies to it."""
        answer = EVERYWHERE
        for rule in self.rules(number):
            answer = rule.left if len(answer) == 0 else answer & rule.left
        return answer

    def allowed_with_expected(self, number: int) -> Mask:
        """`allowed_with` for the expected pods."""
        return self.allowed_with(number, self._expected)

    def allowed_with(self, number: int, nominated: tuple[tuple[int, int], ...]) -> Mask:
        """Rows that satisfy all rules with and without the `nominated` pods (number, row).

        kube-scheduler's two passes: rows must pass without them too, since they may be placed elsewhere after all.
        Stricter in one point: they count in their whole domain, not only on their own node.
        """
        without = self.allowed(number)
        if not nominated:
            return without
        with self.assuming(nominated, number):
            assumed = self.allowed(number)
        if len(without) == 0 or len(assumed) == 0:
            return assumed if len(without) == 0 else without
        return assumed & without

    def choices(self, number: int, row: int) -> tuple[VolumeChoice, ...]:
        """The volume that each unbound claim takes on a row; they must be bound before the pod."""
        return self.volumes.choices(number, row)

    def rules(self, number: int) -> Iterator[RuleResult]:
        """Every rule that applies to the pod, in kube-scheduler's order of plugins."""
        kind, k = self._pods[number]
        yield from self.terms.node_rules(kind)
        if number in self.volumes:
            for rule in self.volumes.rules(number, self.terms.check):
                self.terms.check()
                if rule.plugin not in kind.pod.unfiltered:
                    yield rule
        yield from self.terms.domain_rules(kind, k)
        for node_rules, known_as in self.applying(number):
            yield from node_rules.rules(known_as)

    def is_narrowed(self, number: int) -> bool:
        """Whether some rule may make a node infeasible for the pod."""
        return number in self._node_rules_of or self.has_rules(number)

    def has_rules(self, number: int) -> bool:
        """Whether a rule about other pods, its ports or its claims may make a node infeasible for the pod."""
        return number in self.volumes or self.terms.has_required(self._pods[number][0])

    def applying(self, number: int) -> Iterator[tuple[NodeRules, int]]:
        """The node rules that apply to the pod, and the number by which they know it."""
        if self._simulated is not None and self._simulated[0] == number:
            yield from ((node_rules, self._simulated[1]) for node_rules in self._simulated[2])
        else:
            yield from ((node_rules, number) for node_rules in self._node_rules_of.get(number, ()))

    # ---- preferences

    def has_preferences(self, number: int) -> bool:
        """Whether a soft term or a node rule changes the pod's scores."""
        return number in self._node_rules_of or self.has_soft_terms(number)

    def has_soft_terms(self, number: int) -> bool:
        """Whether a soft term of the pod or of a resident changes the pod's scores."""
        return self.terms.has_preferred(*self._pods[number])

    def preference_score(self, number: int, rows: Int) -> Float:
        """What soft terms and node rules add to the score of these rows, all of which must be feasible."""
        return np.sum([part.values for part in self.preferences(number, rows)], axis=0) + np.zeros(len(rows))

    def preferences(self, number: int, rows: Int) -> tuple[preference.PreferencePart, ...]:
        """The score part of each soft term and node rule, over feasible rows; none for terms that do not exist."""
        kind, k = self._pods[number]
        parts = [*self.terms.preferences(kind, k, rows)]
        for node_rules, known_as in self.applying(number):
            parts += node_rules.preferences(known_as, rows)
        return tuple(parts)
