"""The pods that rules count, their kinds, and where they are.

Residents are counted per node for every query that a rule needs (engine/state/pod_counts.py), and node rules hear of
every pod to which they apply. What a rule makes of it: engine/state/narrowing.py. Pods found on nodes are added in the
same way as new ones: `add_pod`, then `assign`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import NodeRules, Repeating, Surplus, Widening, introduce
from cotenant.engine.state.images import NodeImages
from cotenant.engine.state.pod_counts import PodCounts
from cotenant.engine.state.pod_kind import PodKind
from cotenant.engine.state.storage.volumes import Volumes
from cotenant.engine.state.term_rules import TermRules
from cotenant.engine.state.topology import Regions
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.demands import NO_DEMANDS, NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.observed import NamespaceFacts, VolumeNeed
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import Permanent
from cotenant.model.resources import Amounts

_MAX_ASKED = 8192


class NarrowedPods:
    """The pods with their assignments. Numbers, shapes and rows are the encoder's."""

    def __init__(self, encoder: Encoder, node_rules: tuple[NodeRules, ...] = ()) -> None:
        self.encoder = encoder
        self.node_rules = node_rules
        for rule in node_rules:
            rule.attach(encoder)
        introduce(node_rules)
        self.pod_counts = PodCounts()
        self.regions = Regions(encoder)
        self.images = NodeImages(encoder)
        self.terms = TermRules(encoder, self.pod_counts, self.regions, self.images)
        self.volumes = Volumes(encoder, self.regions)
        self._repeating = {rule.name: rule for rule in node_rules if isinstance(rule, Repeating)}
        self._widening = tuple(rule for rule in node_rules if isinstance(rule, Widening))
        self._node_rules_of: dict[int, tuple[NodeRules, ...]] = {}  # number -> node rules that apply to the pod
        self._asked: dict[tuple[PodKind, int, QoSClass], tuple[NodeRules, ...]] = {}  # alike -> rules that apply
        self._demands_of: dict[int, tuple[Demands, Amounts]] = {}  # of these pods
        self._pods: dict[int, tuple[PodKind, int]] = {}  # number -> kind, shape's row
        self._rows: dict[int, int] = {}  # number -> node's row
        self._terminating: set[int] = set()
        self._kind_indexes: Int = np.full(64, -1, dtype=np.int64)  # by number
        self._expected: tuple[tuple[int, int], ...] = ()  # see `Narrowing.expect`

    # ---- pods

    def add_pod(
        self,
        number: int,
        pod: Pod,
        shape: int,
        volumes: tuple[VolumeNeed, ...] = (),
        demands: Demands = NO_DEMANDS,
        holds: Holdings = NO_HOLDINGS,
    ) -> PodKind:
        """Add a pod that is not assigned, and return its kind; number and shape are the encoder's
        (`Encoder.add_pod`).
        """
        if number in self._pods:
            raise Permanent(f"pod {number} was added already")
        kind = self.pod_counts.acquire_kind(pod)
        self._set_kind(number, kind, shape)
        if volumes:
            self.volumes.set(number, volumes)
        is_plain = demands == NO_DEMANDS and holds == NO_HOLDINGS
        asked = self._asked.get((kind, shape, pod.qos), self.node_rules) if is_plain else self.node_rules
        if not asked:
            return kind
        applying = tuple([node_rules for node_rules in asked if node_rules.add_pod(number, pod, demands, holds)])
        if is_plain and asked is self.node_rules:
            if len(self._asked) >= _MAX_ASKED:
                self._asked.clear()
            self._asked[kind, shape, pod.qos] = applying
        if applying:
            self._node_rules_of[number] = applying
            self._demands_of[number] = (demands, pod.limits)
        return kind

    def forget_alike(self) -> None:
        """Ask all node rules again, whether they apply to pods that are alike."""
        self._asked.clear()

    def widened(self) -> tuple[NodeRules, ...]:
        """Node rules that now apply to more pods; each pod must be offered to them (`offer`)."""
        found = tuple([entry for entry in self._widening if entry.may_widen and entry.widened()])
        if found:
            self.forget_alike()
        return found

    def offer(self, rule: NodeRules, number: int, pod: Pod, demands: Demands, holds: Holdings) -> None:
        """Add a pod to a node rule that did not apply to it before."""
        applying = self._node_rules_of.get(number, ())
        if number not in self._pods or rule in applying or not rule.add_pod(number, pod, demands, holds):
            return
        self._node_rules_of[number] = tuple(
            node_rules for node_rules in self.node_rules if node_rules is rule or node_rules in applying
        )
        self._demands_of[number] = (demands, pod.limits)
        if number in self._rows:
            rule.assign(number, self._rows[number])

    def surplus_m(self, numbers: Int) -> Int:
        """`int64[V]`: milli-CPU that these pods take of their nodes beside their requests."""
        found = np.zeros(len(numbers), dtype=np.int64)
        for rule in self.node_rules:
            if isinstance(rule, Surplus):
                found += rule.surplus_m(numbers)
        return found

    def update_volumes(self, number: int, volumes: tuple[VolumeNeed, ...]) -> None:
        """A pod's claims changed: one was bound, or another volume appeared."""
        self.volumes.set(number, volumes)

    def set_holdings(self, number: int, holds: Holdings) -> None:
        """Set what a pod holds of its node, as reported again."""
        for node_rules in self._node_rules_of.get(number, ()):
            node_rules.set_holdings(number, holds)

    def set_terminating(self, number: int) -> None:
        """A pod started to terminate: spread no longer counts it; all other rules do until it is unassigned."""
        if number in self._terminating:
            return
        self._terminating.add(number)
        if number in self._rows:
            self.pod_counts.set_terminating(self._pods[number][0], self._rows[number])

    def remove_pod(self, number: int) -> None:
        """Remove a pod for good."""
        if number in self._rows:
            self.unassign(number)
        for node_rules in self._node_rules_of.pop(number, ()):
            node_rules.remove_pod(number)
        self._demands_of.pop(number, None)
        self._terminating.discard(number)
        self.volumes.forget(number)
        kind = self._pods.pop(number)[0]
        if self.pod_counts.release_kind(kind):
            self.terms.drop(kind)

    def hold_kinds(self) -> None:
        """Keep the kinds that lose their last pod, until `let_go`."""
        self.pod_counts.hold_kinds()

    def let_go(self) -> None:
        """Drop the kinds that have lost their last pod since `hold_kinds`."""
        for kind in self.pod_counts.let_go():
            self.terms.drop(kind)

    def set_namespace(self, facts: NamespaceFacts) -> None:
        """Set a namespace's labels; no labels for one that was deleted."""
        self.pod_counts.set_namespace(facts.name, facts.labels)

    def kind_of(self, number: int) -> PodKind:
        """The kind of a pod."""
        return self._pods[number][0]

    def shape_of(self, number: int) -> int:
        """The shape's row of a pod."""
        return self._pods[number][1]

    def kind_indexes(self, numbers: Int) -> Int:
        """The indexes of pods' kinds (`PodCounts.at`)."""
        return self._kind_indexes[numbers]

    def is_terminating(self, numbers: Int) -> Mask:
        """Which of these pods are terminating."""
        return np.isin(numbers, list(self._terminating))

    def node_rules_of(self, number: int) -> tuple[NodeRules, ...]:
        """The node rules that apply to a pod."""
        return self._node_rules_of.get(number, ())

    def demands_of(self, number: int) -> tuple[Demands, Amounts] | None:
        """What node rules may evaluate besides a pod's kind and shape: demands and limits; None if no node rule
        applies to it.
        """
        return self._demands_of.get(number)

    def is_cacheable(self, number: int) -> bool:
        """Whether nodes evaluate all pods with this pod's kind, shape and demands alike, so one result is valid for
        all of them.
        """
        return all(node_rules.name in self._repeating for node_rules in self._node_rules_of.get(number, ()))

    def repeating_rules(self, number: int) -> tuple[Repeating, ...] | None:
        """The node rules that apply to a pod, if all of them can evaluate runs of equal pods; else None."""
        repeating = [self._repeating.get(node_rules.name) for node_rules in self._node_rules_of.get(number, ())]
        return None if None in repeating else tuple(entry for entry in repeating if entry is not None)

    # ---- assignments

    def assign(self, number: int, row: int) -> None:
        """Assign a pod with the holdings that it has. Raises `Permanent` if it is assigned already."""
        self._assign(number, row)
        for node_rules in self._node_rules_of.get(number, ()):
            node_rules.assign(number, row)

    def place(self, number: int, row: int) -> None:
        """Assign a pod that was placed on a feasible row; node rules allocate what it needs there."""
        self._assign(number, row)
        for node_rules in self._node_rules_of.get(number, ()):
            node_rules.allocate(number, row)

    def place_all(self, numbers: list[int], rows: list[int]) -> None:
        """`place` for several pods, in order."""
        for kind, those in self._countable(numbers, rows, self.place).items():
            if not self._rows.keys().isdisjoint(those):
                raise Permanent(f"some of pods {list(those)} are assigned already")
            self.pod_counts.assign_all(kind, list(those.values()), 1)
            self._rows.update(those)

    def unassign(self, number: int) -> None:
        """Remove a pod from its row; it may be assigned again."""
        self.pod_counts.assign(self._pods[number][0], self._rows.pop(number), -1, number in self._terminating)
        self.volumes.unassign(number)
        for node_rules in self._node_rules_of.get(number, ()):
            node_rules.unassign(number)

    def unassign_all(self, numbers: list[int]) -> None:
        """`unassign` for several pods, in order."""
        rows = [self._rows[number] for number in numbers]
        for kind, those in self._countable(numbers, rows, lambda number, row: self.unassign(number)).items():
            self.pod_counts.assign_all(kind, list(map(self._rows.pop, those)), -1)

    def row_of(self, number: int) -> int:
        """The row that a pod is assigned to, -1 = none."""
        return self._rows.get(number, -1)

    def holdings(self, number: int) -> Holdings:
        """What an assigned pod holds of its node."""
        holds = NO_HOLDINGS
        for node_rules in self._node_rules_of.get(number, ()):
            holds = node_rules.holdings(number, holds)
        return holds

    def _assign(self, number: int, row: int) -> None:
        if number in self._rows:
            raise Permanent(f"pod {number} is already assigned to row {self._rows[number]}")
        self._rows[number] = row
        self.pod_counts.assign(self._pods[number][0], row, 1, number in self._terminating)
        if number in self.volumes:
            self.volumes.assign(number, row)

    def _countable(
        self, numbers: list[int], rows: list[int], singly: Callable[[int, int], None]
    ) -> dict[PodKind, dict[int, int]]:
        """Pods for which only the pod counts change, by kind; `singly` is called for each of the others."""
        with_rules, terminating = self._node_rules_of, self._terminating
        separate = {entry for entry in numbers if entry in with_rules or entry in terminating}
        separate |= self.volumes.needs.keys() & numbers
        found: dict[PodKind, dict[int, int]] = {}
        for number, row in zip(numbers, rows, strict=True):
            if number in separate:
                singly(number, row)
            else:
                found.setdefault(self._pods[number][0], {})[number] = row
        return found

    def _set_kind(self, number: int, kind: PodKind, shape: int) -> None:
        self._pods[number] = (kind, shape)
        if number >= len(self._kind_indexes):
            more = np.full(max(number + 1, len(self._kind_indexes)), -1, dtype=np.int64)
            self._kind_indexes = np.concatenate([self._kind_indexes, more])
        self._kind_indexes[number] = kind.index

    # ---- what applies to them

    def is_unconstrained(self, numbers: list[int]) -> bool:
        """Whether no rule and no soft term applies to any of these pods, as is usual."""
        if self._expected or not self._node_rules_of.keys().isdisjoint(numbers):
            return False
        if not self.volumes.needs.keys().isdisjoint(numbers):
            return False
        kinds = {self._pods[number] for number in numbers}
        return not any(self.terms.is_constrained(kind, k) for kind, k in kinds)
