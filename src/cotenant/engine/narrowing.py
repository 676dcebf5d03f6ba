"""Which rows topology spread and anti-affinity between pods leave to a pod, as the cluster fills.

Problem: these rules ask who else sits in a zone, so they are not row-local, and every placement changes their answer. Choice: count the
residents that a rule is about per node, updated when a pod sits down or leaves; a pod's rows are then narrowed by indexed sums over
domains before the compiled filters and scores look at what remains. Pods without such rules, and that no resident's rule is about, are
placed in one compiled run as before. Limits: one count per distinct selector and namespace is kept for good; a pod with rules costs a
few NumPy passes over all nodes. The rules themselves: policy/placement/spread.py and antiaffinity_pods.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from cotenant.engine.encoding import Encoder
from cotenant.model.affinity import PodTerm
from cotenant.model.arrays import Int, Mask
from cotenant.model.errors import Permanent
from cotenant.model.labels import Labels, LabelSelector
from cotenant.model.pod import Pod
from cotenant.model.reasons import Rejection
from cotenant.model.topology import Domains
from cotenant.policy.placement import antiaffinity_pods, node_affinity, spread, taints

EVERYWHERE: Mask = np.empty(0, dtype=np.bool_)  # what the compiled placement takes for "no narrowing"


@dataclass(frozen=True, slots=True)
class _Selected:
    """Counted: residents of these namespaces that the selector selects."""

    selector: LabelSelector
    namespaces: tuple[str, ...]

    def about(self, pod: Pod) -> bool:
        return pod.namespace in self.namespaces and self.selector.matches(pod.labels)


@dataclass(frozen=True, slots=True)
class _Owns:
    """Counted: residents of a namespace that have this required anti-affinity term."""

    term: PodTerm
    namespace: str

    def about(self, pod: Pod) -> bool:
        return pod.namespace == self.namespace and self.term in pod.anti_affinity

    def forbids(self, pod: Pod) -> bool:
        return self.term.selects(self.namespace, pod.namespace, pod.labels)


class Narrowing:
    """Counts residents for the rules of the pods it was told of."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._pods: dict[int, tuple[Pod, int]] = {}  # number -> pod, shape's row
        self._seats: dict[int, int] = {}  # number -> node's row
        self._counts: dict[_Selected | _Owns, Int] = {}
        self._owned: list[_Owns] = []
        self._forbidding: dict[tuple[str, Labels], tuple[_Owns, ...]] = {}
        self._domains: dict[str, Domains] = {}
        self._revision = -1

    def watch(self, number: int, pod: Pod, shape: int) -> None:
        """Tell of a pod before it is placed; number and shape are the encoder's (`Encoder.add_pod`)."""
        self._pods[number] = (pod, shape)
        for term in pod.anti_affinity:
            if term.weight is None:
                owns = _Owns(term, pod.namespace)
                if owns not in self._counts:
                    self._owned.append(owns)
                    self._forbidding.clear()
                    self._count(owns)

    def forget(self, number: int) -> None:
        """A pod is gone for good."""
        if number in self._seats:
            self.leave(number)
        del self._pods[number]

    def seat(self, number: int, row: int) -> None:
        """A pod was placed. Raises `Permanent` if it already sits somewhere."""
        if number in self._seats:
            raise Permanent(f"pod {number} already sits on node {self._seats[number]}")
        self._seats[number] = row
        self._add(number, row, 1)

    def leave(self, number: int) -> None:
        """A pod left its node but may come back."""
        self._add(number, self._seats.pop(number), -1)

    def allowed(self, number: int) -> Mask:
        """`bool[N]`: rows that the rules leave to the pod; `EVERYWHERE` (empty) where no rule is about it."""
        answer = EVERYWHERE
        for _, left in self._filters(number):
            answer = left if len(answer) == 0 else answer & left
        return answer

    def rejections(self, number: int) -> tuple[Rejection, ...]:
        """How many rows each rule turned down, each row counted once under the first rule that did."""
        found: dict[tuple[str, str], int] = {}
        before = self._here()
        for (name, reason), left in self._filters(number):
            turned_down = int((before & ~left).sum())
            before = before & left
            if turned_down:
                found[name, reason] = found.get((name, reason), 0) + turned_down
        return tuple(Rejection(name, reason, count) for (name, reason), count in found.items())

    def place(self, numbers: Int, compiled: Callable[[Int, Mask], Int]) -> Int:
        """Place pods in this order; `int64` rows, -1 = waits. Those placed are seated.

        `compiled(positions, allowed)` places the pods at these positions of `numbers` on the allowed rows and returns their rows.
        """
        rows = np.full(len(numbers), -1, dtype=np.int64)
        start = 0
        for position, number in enumerate(numbers.tolist()):
            if not self._is_narrowed(number):
                continue
            self._run(numbers, rows, np.arange(start, position), EVERYWHERE, compiled)
            self._run(numbers, rows, np.array([position]), self.allowed(number), compiled)
            start = position + 1
        self._run(numbers, rows, np.arange(start, len(numbers)), EVERYWHERE, compiled)
        return rows

    def _run(
        self, numbers: Int, rows: Int, positions: Int, allowed: Mask, compiled: Callable[[Int, Mask], Int]
    ) -> None:
        if len(positions) == 0:
            return
        found = compiled(positions, allowed)
        rows[positions] = found
        for position, row in zip(positions.tolist(), found.tolist(), strict=True):
            if row >= 0:
                self.seat(int(numbers[position]), row)

    def _is_narrowed(self, number: int) -> bool:
        pod, _ = self._pods[number]
        if any(constraint.forbids for constraint in pod.spread) or bool(self._forbidders(pod)):
            return True
        return any(term.weight is None for term in pod.anti_affinity)

    def _filters(self, number: int) -> Iterator[tuple[tuple[str, str], Mask]]:
        """Each rule's plugin and reason, and the rows that it leaves."""
        pod, k = self._pods[number]
        rows = np.arange(len(self._encoder.nodes().ready))
        forbidding = [constraint for constraint in pod.spread if constraint.forbids]
        if forbidding:
            nodes, shapes = self._encoder.nodes(), self._encoder.shapes()
            affinity = node_affinity.mask(nodes, shapes, k, rows)
            tolerated = taints.mask(nodes, shapes, k, rows)
            domains = [self._domains_of(constraint.topology_key) for constraint in forbidding]
            for constraint, over in zip(forbidding, domains, strict=True):
                eligible = spread.eligible_nodes(constraint, domains, affinity, tolerated)
                if constraint.selector is None:
                    matching = np.zeros(len(rows), dtype=np.int64)
                else:
                    matching = self._count(_Selected(constraint.selector, (pod.namespace,)))
                rule = spread.count_rule(constraint, over, matching, eligible, constraint.selects(pod.labels))
                yield ("PodTopologySpread", spread.REASON_NO_KEY), spread.has_key(rule, rows)
                yield ("PodTopologySpread", spread.REASON), spread.mask(rule, rows)
        for term in pod.anti_affinity:
            if term.weight is None and term.selector is not None:
                conflicting = self._count(_Selected(term.selector, term.namespaces or (pod.namespace,)))
                anti = antiaffinity_pods.count_rule(self._domains_of(term.topology_key), conflicting)
                yield ("InterPodAffinity", antiaffinity_pods.REASON), antiaffinity_pods.mask(anti, rows)
        for owns in self._forbidders(pod):
            anti = antiaffinity_pods.count_rule(self._domains_of(owns.term.topology_key), self._count(owns))
            yield ("InterPodAffinity", antiaffinity_pods.REASON_RESIDENTS), antiaffinity_pods.mask(anti, rows)

    def _forbidders(self, pod: Pod) -> tuple[_Owns, ...]:
        """Terms of known pods that keep this pod away from where their owners sit."""
        key = (pod.namespace, pod.labels)
        found = self._forbidding.get(key)
        if found is None:
            found = self._forbidding[key] = tuple(owns for owns in self._owned if owns.forbids(pod))
        return found

    def _here(self) -> Mask:
        """`bool[N]`: rows that have a node."""
        here = np.zeros(len(self._encoder.nodes().ready), dtype=np.bool_)
        here[list(self._encoder.node_rows.values())] = True
        return here

    def _domains_of(self, key: str) -> Domains:
        if self._revision != self._encoder.revision:
            self._domains.clear()
            self._revision = self._encoder.revision
        if key not in self._domains:
            self._domains[key] = self._encoder.domains(key)
        return self._domains[key]

    def _count(self, what: _Selected | _Owns) -> Int:
        """`int64[N]`: the residents of each row that are counted; counted in full when first asked for."""
        size = len(self._encoder.nodes().ready)
        count = self._counts.get(what)
        if count is None:
            count = np.zeros(size, dtype=np.int64)
            for number, row in self._seats.items():
                if what.about(self._pods[number][0]):
                    count[row] += 1
            self._counts[what] = count
        elif len(count) < size:
            count = self._counts[what] = np.concatenate([count, np.zeros(size - len(count), dtype=np.int64)])
        return count

    def _add(self, number: int, row: int, change: int) -> None:
        pod, _ = self._pods[number]
        for what in self._counts:
            if what.about(pod):
                self._count(what)[row] += change
