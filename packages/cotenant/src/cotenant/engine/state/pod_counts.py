"""Number of residents per node for each query that a rule between pods needs.

Affinity between pods, spread and host ports need the number of residents of some sort on each node, and a cluster has
thousands of such queries and a hundred thousand pods. Pods that rules cannot distinguish form one *kind* (a
Deployment's replicas); a query (engine/state/count_queries.py) is counted once per node and kept up to date as pods are
assigned and unassigned. A kind knows the counts it enters, so a change costs as many additions; a new query is
evaluated on kinds, not on pods. Kinds and queries that are no longer used are dropped. One pod may have ten thousand
terms or ports, so nothing here looks at every term of a kind for every other: terms, ports and kinds are looked up in
indexes.
Limits: pods with unique labels (a StatefulSet's) are one kind each.

Terminating pods count for affinity and ports, but not for spread, as in kube-scheduler (PodTopologySpread skips them).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from cotenant.engine.state.count_queries import (
    ControllerReplicas,
    PodsOfManyTerms,
    PodsWithTerm,
    PortConflicts,
    Query,
    ResidentCount,
    SelectedPods,
    skips_terminating,
    term_queries,
)
from cotenant.engine.state.pod_kind import KindKey, PodKind
from cotenant.engine.state.term_index import (
    LabelledIndex,
    ManyTerms,
    NamespacedTerms,
    SelectingTerm,
    take_out,
    weight_of,
)
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import Permanent

_MANY_NAMESPACES = 64
_MANY_VALUES = 1_000_000  # a label of any value is looked up last


class PodCounts:
    """Kinds of pods, and counts of the residents of each row by query."""

    def __init__(self) -> None:
        self._kinds: dict[KindKey, PodKind] = {}
        self._by_index: list[PodKind | None] = []
        self._free: list[int] = []
        self._kinds_in: dict[str, LabelledIndex[PodKind]] = {}  # by namespace
        self._kinds_with: dict[PodsWithTerm, dict[PodKind, None]] = {}  # by their own terms
        self._kinds_at: dict[tuple[int, str], dict[PodKind, None]] = {}  # by port and protocol
        self._kinds_of: dict[str, dict[PodKind, None]] = {}  # by controller
        self._counts: dict[Query, ResidentCount] = {}
        self._selected: NamespacedTerms[ResidentCount] = NamespacedTerms()  # `SelectedPods`
        self._terms: NamespacedTerms[ResidentCount] = NamespacedTerms()  # `PodsWithTerm`
        self._many: dict[PodKind, ResidentCount] = {}  # `PodsOfManyTerms`
        self._ports: dict[tuple[int, str], dict[ResidentCount, None]] = {}
        self._replicas: dict[tuple[str, str], ResidentCount] = {}  # by controller and namespace
        self._namespaces: dict[str, Labels] = {}
        self._held: dict[PodKind, None] | None = None  # kinds without pods that are kept, while kinds are held
        self._version = 0  # of the terms that residents have, and of namespaces' labels

    @property
    def kinds(self) -> int:
        """How many kinds of pods are known."""
        return len(self._kinds)

    @property
    def counts(self) -> int:
        """How many queries are counted."""
        return len(self._counts)

    # ---- kinds

    def acquire_kind(self, pod: Pod) -> PodKind:
        """The kind of a pod, which then has one pod more."""
        key = (
            pod.namespace,
            pod.labels,
            pod.affinity,
            pod.anti_affinity,
            pod.spread,
            pod.host_ports,
            None if pod.node_affinity is None else pod.pinned,
            pod.is_daemon,
            pod.images,
            pod.replica_of,
            pod.default_selector,
            pod.unfiltered,
        )
        kind = self._kinds.get(key)
        if kind is None:
            index = self._free.pop() if self._free else len(self._by_index)
            kind = self._kinds[key] = PodKind(key, index, pod)
            self._by_index[index : index + 1] = [kind]
            self._kinds_in.setdefault(pod.namespace, LabelledIndex()).add(pod.labels, kind)
            if pod.replica_of:
                self._kinds_of.setdefault(pod.replica_of, {})[kind] = None
            for term in kind.term_times:
                self._kinds_with.setdefault(term, {})[kind] = None
            for place in kind.ports:
                self._kinds_at.setdefault(place, {})[kind] = None
            for count in self._candidates(kind):
                self._include(kind, count, self._times(count.query, kind))
        kind.pods += 1
        return kind

    def at(self, index: int) -> PodKind:
        """The kind that currently has an index."""
        kind = self._by_index[index]
        if kind is None:
            raise Permanent(f"no kind of pods has index {index}")
        return kind

    def release_kind(self, kind: PodKind) -> bool:
        """Remove an unassigned pod of the kind. Whether it was the last one."""
        kind.pods -= 1
        if kind.pods:
            return False
        if self._held is not None:
            self._held[kind] = None
            return False
        self._drop(kind)
        return True

    def hold_kinds(self) -> None:
        """Keep the kinds that lose their last pod, until `let_go`: their pods may come back, and the queue refers
        to them.
        """
        self._held = {}

    def let_go(self) -> tuple[PodKind, ...]:
        """Drop the kinds that have lost their last pod since `hold_kinds`, and return them."""
        dropped = tuple(kind for kind in self._held or () if not kind.pods)
        self._held = None
        for kind in dropped:
            self._drop(kind)
        return dropped

    def _drop(self, kind: PodKind) -> None:
        del self._kinds[kind.key]
        self._by_index[kind.index] = None
        self._free.append(kind.index)
        self._kinds_in[kind.pod.namespace].remove(kind.pod.labels, kind)
        if not self._kinds_in[kind.pod.namespace]:
            del self._kinds_in[kind.pod.namespace]
        if kind.pod.replica_of:
            take_out(self._kinds_of, kind.pod.replica_of, kind)
        for term in kind.term_times:
            take_out(self._kinds_with, term, kind)
        for place in kind.ports:
            take_out(self._kinds_at, place, kind)
        for count in kind.own_terms:
            self.release_count(count)

    def assign(self, kind: PodKind, row: int, change: int = 1, terminating: bool = False) -> None:
        """A pod of the kind was assigned to a row (`change` 1) or unassigned from it (-1)."""
        if not kind.own_terms and kind.term_times:
            kind.own_terms = [self.acquire_count(query) for query in kind.term_times]
        elif not kind.own_terms and (kind.pod.affinity or kind.pod.anti_affinity):
            kind.many = ManyTerms(Counter(term_queries(kind.pod)))
            kind.own_terms = [self.acquire_count(PodsOfManyTerms(kind))]
        _increment(kind.residents, row, change)
        if terminating:
            _increment(kind.terminating, row, change)
        for count, times in kind.counted.items():
            if not (terminating and skips_terminating(count.query)):
                count.add(row, change * times)

    def assign_all(self, kind: PodKind, rows: Sequence[int], change: int) -> None:
        """`assign` for several pods of the kind, none of which is terminating."""
        if len(rows) == 0:
            return
        self.assign(kind, rows[0], change)  # creates the counts of the kind's own terms
        others = rows[1:]
        if change > 0:
            kind.residents.update(others)
        else:
            for row in others:
                _increment(kind.residents, row, change)
        for count, times in kind.counted.items():
            for row in others:
                count.add(row, change * times)

    def set_terminating(self, kind: PodKind, row: int) -> None:
        """One of the kind's residents on a row started to terminate."""
        _increment(kind.terminating, row, 1)
        for count, times in kind.counted.items():
            if skips_terminating(count.query):
                count.add(row, -times)

    # ---- queries

    def acquire_count(self, query: Query, check: Callable[[], None] = lambda: None) -> ResidentCount:
        """The count of a query, kept until it is released as often as acquired. A new one is computed from all kinds.

        `check` is called for each of these; where it raises, nothing is changed.
        """
        count = self._counts.get(query)
        if count is None:
            times: list[tuple[PodKind, int]] = []
            for kind in self._kinds_for(query):
                check()
                times.append((kind, self._times(query, kind)))
            count = self._counts[query] = ResidentCount(query)
            if isinstance(query, ControllerReplicas):
                self._replicas[query.controller, query.namespace] = count
            self._file(count)
            for kind, number in times:
                self._include(kind, count, number)
        count.uses += 1
        return count

    def release_count(self, count: ResidentCount) -> None:
        """Give up one use of a count (`acquire_count`); a count without uses is dropped."""
        count.uses -= 1
        if count.uses:
            return
        del self._counts[count.query]
        if isinstance(count.query, ControllerReplicas):
            del self._replicas[count.query.controller, count.query.namespace]
        self._take_out_of_files(count)
        for kind in self._kinds_for(count.query):
            kind.counted.pop(count, None)

    def terms_selecting(self, kind: PodKind) -> tuple[SelectingTerm, ...]:
        """Residents' terms that select pods of this kind, of any type."""
        if kind.terms_version != self._version:
            pod, labels = kind.pod, self.namespace_labels(kind.pod.namespace)
            found: list[SelectingTerm] = []
            for count in self._terms.candidates(pod.namespace, pod.labels):
                query = count.query
                assert isinstance(query, PodsWithTerm)
                if query.term.selects(query.namespace, pod.namespace, pod.labels, labels):
                    found.append(SelectingTerm(query.type, query.term.topology_key, weight_of(query), count))
            for owner, count in self._many.items():
                assert owner.many is not None
                found += (SelectingTerm(*entry, count) for entry in owner.many.selecting(kind, pod, labels))
            kind.selecting_terms = tuple(found)
            kind.terms_version = self._version
        return kind.selecting_terms

    def selects(self, query: SelectedPods, pod: Pod) -> bool:
        """Whether such a pod would be counted."""
        labels = self.namespace_labels(pod.namespace)
        return all(term.selects(query.namespace, pod.namespace, pod.labels, labels) for term in query.terms)

    # ---- namespaces

    def namespace_labels(self, name: str) -> Labels:
        """A namespace's labels, none if they are not known."""
        return self._namespaces.get(name, NO_LABELS)

    def set_namespace(self, name: str, labels: Labels) -> None:
        """Set a namespace's labels; queries that select namespaces are counted again for the kinds in it."""
        if self.namespace_labels(name) == labels:
            return
        if labels:
            self._namespaces[name] = labels
        else:
            del self._namespaces[name]
        self._version += 1
        for kind in self._kinds_in.get(name, ()):
            for count in tuple(self._selected.candidates(name, kind.pod.labels)):
                self._exclude(kind, count)
                self._include(kind, count, self._times(count.query, kind))

    # ---- indexes

    def _file(self, count: ResidentCount) -> None:
        """Put a new count where it is looked up."""
        query = count.query
        match query:
            case PortConflicts(port):
                self._ports.setdefault((port.port, port.protocol), {})[count] = None
            case PodsWithTerm(term, namespace, _):
                self._version += 1
                self._terms.add(term, _fixed_namespaces((term,), namespace), count)
            case PodsOfManyTerms(kind):
                self._version += 1
                self._many[kind] = count
            case SelectedPods(terms, namespace, _):
                self._selected.add(_rarest(terms), _fixed_namespaces(terms, namespace), count)

    def _take_out_of_files(self, count: ResidentCount) -> None:
        query = count.query
        match query:
            case PortConflicts(port):
                take_out(self._ports, (port.port, port.protocol), count)
            case PodsWithTerm(term, namespace, _):
                self._version += 1
                self._terms.remove(term, _fixed_namespaces((term,), namespace), count)
            case PodsOfManyTerms(kind):
                self._version += 1
                del self._many[kind]
            case SelectedPods(terms, namespace, _):
                self._selected.remove(_rarest(terms), _fixed_namespaces(terms, namespace), count)

    def _candidates(self, kind: PodKind) -> Iterable[ResidentCount]:
        """Counts that a new kind may enter."""
        pod = kind.pod
        yield from self._selected.candidates(pod.namespace, pod.labels)
        for place in kind.ports:
            yield from self._ports.get(place, ())
        for query in kind.term_times:
            if query in self._counts:
                yield self._counts[query]
        if (pod.replica_of, pod.namespace) in self._replicas:
            yield self._replicas[pod.replica_of, pod.namespace]

    def _kinds_for(self, query: Query) -> Iterable[PodKind]:
        """Kinds that may enter a query's count."""
        match query:
            case PortConflicts(port):
                return tuple(self._kinds_at.get((port.port, port.protocol), ()))
            case PodsWithTerm():
                return tuple(self._kinds_with.get(query, ()))
            case PodsOfManyTerms(kind):
                return (kind,)
            case ControllerReplicas(controller):
                return tuple(self._kinds_of.get(controller, ()))
            case SelectedPods(terms, namespace, _):
                names = _fixed_namespaces(terms, namespace)
                needed = _rarest(terms).needed_label()
                return tuple(
                    kind
                    for name in (self._kinds_in if names is None else names)
                    if name in self._kinds_in
                    for kind in self._kinds_in[name].candidates(needed)
                )

    def _include(self, kind: PodKind, count: ResidentCount, times: int) -> None:
        """Count a kind's residents, each so often."""
        if times == 0 or count in kind.counted:
            return
        kind.counted[count] = times
        self._add_residents(kind, count, times)

    def _exclude(self, kind: PodKind, count: ResidentCount) -> None:
        """Stop counting a kind's residents."""
        times = kind.counted.pop(count, 0)
        if times:
            self._add_residents(kind, count, -times)

    @staticmethod
    def _add_residents(kind: PodKind, count: ResidentCount, times: int) -> None:
        for row, residents in kind.residents.items():
            counted = residents - kind.terminating[row] if skips_terminating(count.query) else residents
            if counted:
                count.add(row, counted * times)

    def _times(self, query: Query, kind: PodKind) -> int:
        """How often a resident of this kind is counted."""
        match query:
            case PortConflicts(port):
                return sum(other.conflicts(port) for other in kind.ports.get((port.port, port.protocol), ()))
            case PodsWithTerm():
                return kind.term_times.get(query, 0)
            case PodsOfManyTerms(owner):
                return int(kind is owner)
            case SelectedPods():
                return int(self.selects(query, kind.pod))
            case ControllerReplicas(controller, namespace):
                return int(kind.pod.replica_of == controller and kind.pod.namespace == namespace)


def _fixed_namespaces(terms: tuple[PodTerm, ...], namespace: str) -> Iterable[str] | None:
    """The namespaces of the pods that all these terms of a pod in `namespace` can select; None = any."""
    fixed = next((term for term in terms if term.namespace_selector is None), None)
    if fixed is None or len(fixed.namespaces) > _MANY_NAMESPACES:
        return None
    return dict.fromkeys(fixed.namespaces or (namespace,))


def _rarest(terms: tuple[PodTerm, ...]) -> PodTerm:
    """Of terms that must all select a pod, the one by whose needed label fewest pods are found."""

    def values(term: PodTerm) -> float:
        needed = term.needed_label()
        return math.inf if needed is None else len(needed.values) or _MANY_VALUES

    return min(terms, key=values)


def _increment(counter: Counter[int], row: int, change: int) -> None:
    count = counter[row] + change
    if count:
        counter[row] = count
    else:
        counter.pop(row, None)
