"""Pods that no rule between pods distinguishes: what makes them alike, and what is kept of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from cotenant.engine.state.count_queries import (
    PodsWithTerm,
    ResidentCount,
    term_queries,
)
from cotenant.engine.state.term_index import ManyTerms, SelectingTerm
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.pod import HostPort, Pod

KindKey = tuple[
    str,
    Labels,
    tuple[PodTerm, ...],
    tuple[PodTerm, ...],
    tuple[SpreadConstraint, ...],
    tuple[HostPort, ...],
    str | None,
    bool,
    tuple[str, ...],
    str,
    LabelSelector | None,
    frozenset[str],
]
FEW_TERMS = 64
NO_TERMS: Mapping[PodsWithTerm, int] = MappingProxyType({})


class PodKind:
    """Pods that no rule between pods distinguishes."""

    __slots__ = (
        "__weakref__",
        "counted",
        "index",
        "key",
        "many",
        "own_terms",
        "pod",
        "pods",
        "ports",
        "residents",
        "selecting_terms",
        "term_times",
        "terminating",
        "terms_version",
    )

    def __init__(self, key: KindKey, index: int, pod: Pod) -> None:
        self.key = key
        self.index = index  # small; reused once the kind is dropped
        self.pod = pod  # an example
        self.pods = 0  # known pods
        self.residents: Counter[int] = Counter()  # row -> residents
        self.terminating: Counter[int] = Counter()  # row -> residents that are terminating
        self.counted: dict[ResidentCount, int] = {}  # counts that its residents enter, and how often each
        self.own_terms: list[ResidentCount] = []  # counts of its own terms, from the first assignment on
        self.term_times: Mapping[PodsWithTerm, int] = NO_TERMS  # its own terms, and how often it has each
        self.many: ManyTerms | None = None  # in their place where they are very many, from the first assignment on
        if 0 < len(pod.affinity) + len(pod.anti_affinity) <= FEW_TERMS:
            self.term_times = Counter(term_queries(pod))
        self.ports: dict[tuple[int, str], list[HostPort]] = {}
        for port in pod.host_ports:
            self.ports.setdefault((port.port, port.protocol), []).append(port)
        self.selecting_terms: tuple[SelectingTerm, ...] = ()  # residents' terms that select it, as of `terms_version`
        self.terms_version = -1
