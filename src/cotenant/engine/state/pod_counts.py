"""Who sits where, counted per node for every rule that asks: the memory behind narrowing.

Problem: affinity between pods, spread and host ports ask how many residents of some sort each node has, and a cluster has thousands of such
questions and a hundred thousand pods. Choice: pods that rules cannot tell apart are one *kind* (a Deployment's replicas); a question
(`Selected`, `Owns`, `Ports`) is counted per node once and kept by whole steps as pods sit down and leave. A kind knows the questions it
is counted in, so a step costs as many additions; a new question looks at kinds, not pods. Kinds and questions that nobody
needs any more are forgotten. Limits: a kind whose labels are unique (a StatefulSet's pods) is a kind each.

Terminating pods count for affinity and ports, but not for spread, as in kube-scheduler (PodTopologySpread skips them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.errors import Permanent


class Role(Enum):
    """How a resident's term bears on a newcomer that it selects."""

    FORBIDS = "required anti-affinity"
    DISLIKES = "preferred anti-affinity"
    NEEDS = "required affinity"  # kube-scheduler counts it as a liking of weight hardPodAffinityWeight
    LIKES = "preferred affinity"


@dataclass(frozen=True, slots=True)
class Selected:
    """Counted: residents that all these terms of a pod of `namespace` select."""

    terms: tuple[PodTerm, ...]
    namespace: str
    living: bool = False  # terminating ones are not counted


@dataclass(frozen=True, slots=True)
class Owns:
    """Counted: how often residents of a namespace have this term."""

    term: PodTerm
    namespace: str
    role: Role


@dataclass(frozen=True, slots=True)
class Ports:
    """Counted: residents' host ports that conflict with this one."""

    port: HostPort


Question = Selected | Owns | Ports


class Count:
    """The answer to a question: `per_row` residents, `total` of them. At most `uses` rules read it."""

    __slots__ = ("per_row", "question", "total", "uses")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.per_row: Int = np.zeros(64, dtype=np.int64)
        self.total = 0
        self.uses = 0

    def add(self, row: int, change: int) -> None:
        """So many more residents of this sort on a row."""
        if row >= len(self.per_row):
            self.per_row = np.concatenate([self.per_row, np.zeros(max(row + 1, len(self.per_row)), dtype=np.int64)])
        self.per_row[row] += change
        self.total += change

    def rows(self, size: int) -> Int:
        """`int64[size]`, one a row."""
        if size > len(self.per_row):
            self.per_row = np.concatenate([self.per_row, np.zeros(size - len(self.per_row), dtype=np.int64)])
        return self.per_row[:size]


_Key = tuple[
    str,
    Labels,
    tuple[PodTerm, ...],
    tuple[PodTerm, ...],
    tuple[SpreadConstraint, ...],
    tuple[HostPort, ...],
    str | None,
]


class Kind:
    """Pods that no rule tells apart."""

    __slots__ = ("asked", "asked_at", "counted", "index", "key", "owned", "pod", "seats", "stopping", "watched")

    def __init__(self, key: _Key, index: int, pod: Pod) -> None:
        self.key = key
        self.index = index  # small; given again when the kind is gone
        self.pod = pod  # any of them
        self.watched = 0  # pods
        self.seats: Counter[int] = Counter()  # row -> residents
        self.stopping: Counter[int] = Counter()  # row -> residents that are terminating
        self.counted: dict[Count, int] = {}  # counts that its residents enter, and how often each
        self.owned: list[Count] = []  # counts of its own terms, once one has sat down
        self.asked: tuple[Count, ...] = ()  # counts of residents' terms that select it, as of `asked_at`
        self.asked_at = -1


class PodCounts:
    """Counts the residents that it is told of."""

    def __init__(self) -> None:
        self._kinds: dict[_Key, Kind] = {}
        self._by_index: list[Kind | None] = []
        self._free: list[int] = []
        self._kinds_in: dict[str, dict[Kind, None]] = {}  # by namespace
        self._counts: dict[Question, Count] = {}
        self._selected_in: dict[str, dict[Count, None]] = {}  # `Selected` by namespace, where that is fixed
        self._selected_anywhere: dict[Count, None] = {}
        self._owns_in: dict[str, dict[Count, None]] = {}  # `Owns` by the namespaces that the term is about
        self._owns_anywhere: dict[Count, None] = {}
        self._ports: dict[tuple[int, str], dict[Count, None]] = {}
        self._namespaces: dict[str, Labels] = {}
        self._version = 0  # of who owns which terms, and of namespaces' labels

    @property
    def kinds(self) -> int:
        """How many kinds of pods are known."""
        return len(self._kinds)

    @property
    def counts(self) -> int:
        """How many questions are counted."""
        return len(self._counts)

    # ---- kinds

    def kind(self, pod: Pod) -> Kind:
        """The kind of a pod, watched once more."""
        key = (pod.namespace, pod.labels, pod.affinity, pod.anti_affinity, pod.spread, pod.host_ports, pod.pinned)
        kind = self._kinds.get(key)
        if kind is None:
            index = self._free.pop() if self._free else len(self._by_index)
            kind = self._kinds[key] = Kind(key, index, pod)
            self._by_index[index : index + 1] = [kind]
            self._kinds_in.setdefault(pod.namespace, {})[kind] = None
            for count in self._candidates(pod):
                self._enlist(kind, count)
        kind.watched += 1
        return kind

    def at(self, index: int) -> Kind:
        """The kind that has an index now."""
        kind = self._by_index[index]
        if kind is None:
            raise Permanent(f"no kind of pods has index {index}")
        return kind

    def release(self, kind: Kind) -> bool:
        """One pod of the kind is gone for good; it sits nowhere. Whether it was the last."""
        kind.watched -= 1
        if kind.watched:
            return False
        del self._kinds[kind.key]
        self._by_index[kind.index] = None
        self._free.append(kind.index)
        mates = self._kinds_in[kind.pod.namespace]
        del mates[kind]
        if not mates:
            del self._kinds_in[kind.pod.namespace]
        for count in kind.owned:
            self.discount(count)
        return True

    def assign(self, kind: Kind, row: int, change: int = 1, stopping: bool = False) -> None:
        """One of the kind sat down on a row (`change` 1) or left it (-1)."""
        if not kind.owned and (kind.pod.affinity or kind.pod.anti_affinity):
            kind.owned = [self.count(owns) for owns in _owned(kind.pod)]
        _step(kind.seats, row, change)
        if stopping:
            _step(kind.stopping, row, change)
        for count, times in kind.counted.items():
            if not (stopping and _living(count.question)):
                count.add(row, change * times)

    def seat_all(self, kind: Kind, rows: Sequence[int], change: int) -> None:
        """As `seat`, for several of the kind, none of which terminates."""
        if len(rows) == 0:
            return
        self.assign(kind, rows[0], change)  # its terms are known from here on
        rest = rows[1:]
        if change > 0:
            kind.seats.update(rest)
        else:
            for row in rest:
                _step(kind.seats, row, change)
        for count, times in kind.counted.items():
            for row in rest:
                count.add(row, change * times)

    def stop(self, kind: Kind, row: int) -> None:
        """One of the kind's residents on a row began to terminate."""
        _step(kind.stopping, row, 1)
        for count, times in kind.counted.items():
            if _living(count.question):
                count.add(row, -times)

    # ---- questions

    def count(self, question: Question) -> Count:
        """The answer to a question, kept until it is released as often as asked for. Counted over the kinds when it is new."""
        count = self._counts.get(question)
        if count is None:
            count = self._counts[question] = Count(question)
            for home in self._homes(count):
                home[count] = None
            if isinstance(question, Owns):
                self._version += 1
            for kind in self._kinds_about(question):
                self._enlist(kind, count)
        count.uses += 1
        return count

    def discount(self, count: Count) -> None:
        """Somebody who asked (`count`) needs the answer no more."""
        count.uses -= 1
        if count.uses:
            return
        del self._counts[count.question]
        for home in self._homes(count):
            del home[count]
        if isinstance(count.question, Owns):
            self._version += 1
        for kind in self._kinds_about(count.question):
            kind.counted.pop(count, None)

    def owners_about(self, kind: Kind) -> tuple[Count, ...]:
        """Counts of the residents whose terms select pods of this kind, whatever the role."""
        if kind.asked_at != self._version:
            pod, labels = kind.pod, self.namespace_labels(kind.pod.namespace)
            near = (*self._owns_in.get(pod.namespace, ()), *self._owns_anywhere)
            kind.asked = tuple(
                count
                for count in near
                if isinstance(count.question, Owns)
                and count.question.term.selects(count.question.namespace, pod.namespace, pod.labels, labels)
            )
            kind.asked_at = self._version
        return kind.asked

    def selects_all(self, selected: Selected, pod: Pod) -> bool:
        """Whether such a pod would be counted."""
        labels = self.namespace_labels(pod.namespace)
        return all(term.selects(selected.namespace, pod.namespace, pod.labels, labels) for term in selected.terms)

    # ---- namespaces

    def namespace_labels(self, name: str) -> Labels:
        """A namespace's labels, none where they are not known."""
        return self._namespaces.get(name, NO_LABELS)

    def set_namespace(self, name: str, labels: Labels) -> None:
        """A namespace's labels now: what selects namespaces is counted anew over the kinds in it."""
        if self.namespace_labels(name) == labels:
            return
        if labels:
            self._namespaces[name] = labels
        else:
            del self._namespaces[name]
        self._version += 1
        for kind in self._kinds_in.get(name, ()):
            for count in (*self._selected_in.get(name, ()), *self._selected_anywhere):
                self._expel(kind, count)
                self._enlist(kind, count)

    # ---- inside

    def _homes(self, count: Count) -> Iterator[dict[Count, None]]:
        """The indexes in which a count stands."""
        question = count.question
        match question:
            case Ports(port):
                yield self._ports.setdefault((port.port, port.protocol), {})
            case Owns(term, namespace, _):
                yield from self._named(self._owns_in, self._owns_anywhere, (term,), namespace)
            case Selected(terms, namespace, _):
                yield from self._named(self._selected_in, self._selected_anywhere, terms, namespace)

    @staticmethod
    def _named(
        near: dict[str, dict[Count, None]], anywhere: dict[Count, None], terms: tuple[PodTerm, ...], namespace: str
    ) -> Iterator[dict[Count, None]]:
        fixed = [term for term in terms if term.namespace_selector is None]
        if not fixed:
            yield anywhere
            return
        for name in dict.fromkeys(fixed[0].namespaces or (namespace,)):
            yield near.setdefault(name, {})

    def _candidates(self, pod: Pod) -> Iterable[Count]:
        """Counts that a kind of such pods may enter."""
        yield from self._selected_in.get(pod.namespace, ())
        yield from self._selected_anywhere
        for port in pod.host_ports:
            yield from self._ports.get((port.port, port.protocol), ())
        for owns in _owned(pod):
            if owns in self._counts:
                yield self._counts[owns]

    def _kinds_about(self, question: Question) -> Iterable[Kind]:
        match question:
            case Ports():
                return tuple(self._kinds.values())
            case Owns(_, namespace, _):
                return tuple(self._kinds_in.get(namespace, ()))
            case Selected(terms, namespace, _):
                fixed = next((term for term in terms if term.namespace_selector is None), None)
                if fixed is None:
                    return tuple(self._kinds.values())
                names = dict.fromkeys(fixed.namespaces or (namespace,))
                return tuple(kind for name in names for kind in self._kinds_in.get(name, ()))

    def _enlist(self, kind: Kind, count: Count) -> None:
        times = self._times(count.question, kind.pod)
        if times == 0 or count in kind.counted:
            return
        kind.counted[count] = times
        for row, residents in kind.seats.items():
            left = residents - kind.stopping[row] if _living(count.question) else residents
            if left:
                count.add(row, left * times)

    def _expel(self, kind: Kind, count: Count) -> None:
        times = kind.counted.pop(count, 0)
        if times == 0:
            return
        for row, residents in kind.seats.items():
            left = residents - kind.stopping[row] if _living(count.question) else residents
            if left:
                count.add(row, -left * times)

    def _times(self, question: Question, pod: Pod) -> int:
        """How often a resident like this pod is counted."""
        match question:
            case Ports(port):
                return sum(other.conflicts(port) for other in pod.host_ports)
            case Owns():
                return sum(owns == question for owns in _owned(pod))
            case Selected():
                return int(self.selects_all(question, pod))


def _owned(pod: Pod) -> Iterator[Owns]:
    """What a pod's terms say about others."""
    for term in pod.anti_affinity:
        yield Owns(term, pod.namespace, Role.FORBIDS if term.weight is None else Role.DISLIKES)
    for term in pod.affinity:
        yield Owns(term, pod.namespace, Role.NEEDS if term.weight is None else Role.LIKES)


def _living(question: Question) -> bool:
    return isinstance(question, Selected) and question.living


def _step(counter: Counter[int], row: int, change: int) -> None:
    count = counter[row] + change
    if count:
        counter[row] = count
    else:
        counter.pop(row, None)
