"""Terms, looked up by the labels of a pod; kinds of pods, looked up by a term; and the terms of a pod that has very
many of them.

Every new kind of pods must know which residents' terms select it, a cluster has thousands of terms, and one pod may
have ten thousand. A term is filed under a label that the pods which it selects must have (`PodTerm.needed_label`), so
that a kind evaluates only the terms filed under its own labels, and those that require none. A pod with very many terms
has one count instead of one for each, and for each kind that asks it keeps the sum of what its terms say.
Limits: a term with several such requirements is filed under the one with the fewest values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from cotenant.engine.state.count_queries import PodsWithTerm, ResidentCount, TermType
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import Labels, Requirement
from cotenant.model.cluster.pod import Pod
from cotenant.policy.placement.topology.pod_affinity import HARD_WEIGHT

_T = TypeVar("_T")
_K = TypeVar("_K")


class SelectingTerm(NamedTuple):
    """A term of residents that selects some kind of pods, and the count of the residents that have it."""

    type: TermType
    topology_key: str
    weight: int  # what it adds to a score, or takes off; of a required term, that of one
    residents: ResidentCount


class LabelledIndex(Generic[_T]):
    """Things with labels, all of one namespace, looked up by a label that they must have."""

    def __init__(self) -> None:
        self._all: dict[_T, None] = {}
        self._by_value: dict[tuple[str, str], dict[_T, None]] = {}
        self._by_key: dict[str, dict[_T, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def __iter__(self) -> Iterator[_T]:
        return iter(self._all)

    def add(self, labels: Labels, filed: _T) -> None:
        """File a thing under its labels."""
        self._all[filed] = None
        for pair in labels:
            self._by_value.setdefault(pair, {})[filed] = None
            self._by_key.setdefault(pair[0], {})[filed] = None

    def remove(self, labels: Labels, filed: _T) -> None:
        """Take it out."""
        del self._all[filed]
        for pair in labels:
            take_out(self._by_value, pair, filed)
            take_out(self._by_key, pair[0], filed)

    def candidates(self, needed: Requirement | None) -> Iterator[_T]:
        """What has a needed label (`PodTerm.needed_label`), each once; all without one."""
        if needed is None:
            yield from self._all
        elif not needed.values:
            yield from self._by_key.get(needed.key, ())
        else:
            for value in dict.fromkeys(needed.values):
                yield from self._by_value.get((needed.key, value), ())


class TermIndex(Generic[_T]):
    """Things with a term each, that may select pods of one namespace, or of any."""

    def __init__(self) -> None:
        self._by_value: dict[tuple[str, str], dict[_T, None]] = {}
        self._by_key: dict[str, dict[_T, None]] = {}
        self._others: dict[_T, None] = {}

    def __bool__(self) -> bool:
        return bool(self._by_value or self._by_key or self._others)

    def add(self, term: PodTerm, filed: _T) -> None:
        """File a thing under its term."""
        values, keys = _places(term)
        for place in values:
            self._by_value.setdefault(place, {})[filed] = None
        for key in keys:
            self._by_key.setdefault(key, {})[filed] = None
        if not (values or keys):
            self._others[filed] = None

    def remove(self, term: PodTerm, filed: _T) -> None:
        """Take it out."""
        values, keys = _places(term)
        for place in values:
            take_out(self._by_value, place, filed)
        for key in keys:
            take_out(self._by_key, key, filed)
        self._others.pop(filed, None)

    def candidates(self, labels: Labels) -> Iterator[_T]:
        """What may select pods with these labels, each once."""
        yield from self._others
        if self._by_value or self._by_key:
            for key, value in labels:
                yield from self._by_value.get((key, value), ())
                yield from self._by_key.get(key, ())


class NamespacedTerms(Generic[_T]):
    """Things with a term each, by the namespaces whose pods it may select."""

    def __init__(self) -> None:
        self._within: dict[str, TermIndex[_T]] = {}
        self._anywhere: TermIndex[_T] = TermIndex()

    def add(self, term: PodTerm, namespaces: Iterable[str] | None, filed: _T) -> None:
        """File a thing under its term. `namespaces`: None = any."""
        if namespaces is None:
            self._anywhere.add(term, filed)
        for name in namespaces or ():
            self._within.setdefault(name, TermIndex()).add(term, filed)

    def remove(self, term: PodTerm, namespaces: Iterable[str] | None, filed: _T) -> None:
        """Take it out; the arguments are those of `add`."""
        if namespaces is None:
            self._anywhere.remove(term, filed)
        for name in namespaces or ():
            self._within[name].remove(term, filed)
            if not self._within[name]:
                del self._within[name]

    def candidates(self, namespace: str, labels: Labels) -> Iterator[_T]:
        """What may select pods of a namespace with these labels, each once."""
        if namespace in self._within:
            yield from self._within[namespace].candidates(labels)
        yield from self._anywhere.candidates(labels)


class ManyTerms:
    """The terms of one kind of pods, evaluated together.

    A term without a label to look it up by is evaluated for every kind of pods, and each topology key costs a pass over
    all nodes: readers limit both.
    """

    def __init__(self, times: Mapping[PodsWithTerm, int]) -> None:
        self._times = times
        self._index: TermIndex[PodsWithTerm] = TermIndex()
        self._known: WeakKeyDictionary[object, tuple[Labels, tuple[tuple[TermType, str, int], ...]]] = (
            WeakKeyDictionary()
        )
        for query in times:
            self._index.add(query.term, query)

    def selecting(self, kind: object, pod: Pod, namespace_labels: Labels) -> tuple[tuple[TermType, str, int], ...]:
        """Of the terms that select pods of a kind: type, topology key and summed weight, each pair of the first two
        once.
        """
        known = self._known.get(kind)
        if known is None or known[0] != namespace_labels:
            sums: dict[tuple[TermType, str], int] = {}
            for query in self._index.candidates(pod.labels):
                if query.term.selects(query.namespace, pod.namespace, pod.labels, namespace_labels):
                    what = query.type, query.term.topology_key
                    sums[what] = sums.get(what, 0) + weight_of(query) * self._times[query]
            known = self._known[kind] = namespace_labels, tuple((*what, weight) for what, weight in sums.items())
        return known[1]


def weight_of(query: PodsWithTerm) -> int:
    """What a resident with the term adds to the score of its domain; negative for anti-affinity. A required
    affinity counts as a preference of weight 1.
    """
    weight = HARD_WEIGHT if query.term.weight is None else query.term.weight
    return -weight if query.type is TermType.PREFERRED_ANTI_AFFINITY else weight


def take_out(index: dict[_K, dict[_T, None]], key: _K, value: _T) -> None:
    """Remove a value below a key, and the key with its last value."""
    inner = index[key]
    del inner[value]
    if not inner:
        del index[key]


def _places(term: PodTerm) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    by = term.needed_label()
    if by is None:
        return (), ()
    return (tuple((by.key, value) for value in dict.fromkeys(by.values)), ()) if by.values else ((), (by.key,))
