"""What pod counts can count: the queries, and a query's counter.

Affinity between pods, spread and host ports each count residents by different criteria. Four queries, as values, so
that equal queries of different pods share one counter.
Limits: a term that appears twice in one pod is counted twice, as in kube-scheduler's score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.pod import HostPort, Pod

if TYPE_CHECKING:
    from cotenant.engine.state.pod_kind import PodKind


class TermType(Enum):
    """How a resident's term affects an incoming pod that it selects."""

    REQUIRED_ANTI_AFFINITY = "required anti-affinity"
    PREFERRED_ANTI_AFFINITY = "preferred anti-affinity"
    REQUIRED_AFFINITY = "required affinity"  # scored by kube-scheduler as a preference of weight hardPodAffinityWeight
    PREFERRED_AFFINITY = "preferred affinity"


@dataclass(frozen=True, slots=True)
class SelectedPods:
    """Residents that all these terms of a pod in `namespace` select."""

    terms: tuple[PodTerm, ...]
    namespace: str
    skip_terminating: bool = False


@dataclass(frozen=True, slots=True)
class ControllerReplicas:
    """Residents of one controller (`Pod.replica_of`) that do not terminate."""

    controller: str  # uid
    namespace: str


@dataclass(frozen=True, slots=True)
class PodsWithTerm:
    """Occurrences of a term in residents of a namespace."""

    term: PodTerm
    namespace: str
    type: TermType


@dataclass(frozen=True, slots=True)
class PortConflicts:
    """Host ports of residents that conflict with this one."""

    port: HostPort


@dataclass(frozen=True, slots=True)
class PodsOfManyTerms:
    """Residents of one kind of pods (engine/state/pod_counts.py) that has very many terms."""

    kind: PodKind


Query = SelectedPods | ControllerReplicas | PodsWithTerm | PodsOfManyTerms | PortConflicts


class ResidentCount:
    """The number of residents that match a query, per row and in `total`. `uses` counts the rules that read it.

    A dictionary until its rows are first read: a pod may have ten thousand terms, and nobody reads most of them.
    """

    __slots__ = ("_dense", "_sparse", "query", "total", "uses")

    def __init__(self, query: Query) -> None:
        self.query = query
        self._sparse: dict[int, int] = {}
        self._dense: Int | None = None
        self.total = 0
        self.uses = 0

    def add(self, row: int, change: int) -> None:
        """Change the number of matching residents on a row."""
        self.total += change
        dense = self._dense
        if dense is None:
            self._sparse[row] = self._sparse.get(row, 0) + change
            return
        if row >= len(dense):
            dense = self._dense = longer_to(dense, max(row + 1, 2 * len(dense)))
        dense[row] += change

    def rows(self, size: int) -> Int:
        """`int64[size]`, one per row."""
        dense = self._dense
        if dense is None:
            dense = np.zeros(max(size, 64, 1 + max(self._sparse, default=0)), dtype=np.int64)
            for row, count in self._sparse.items():
                dense[row] = count
            self._sparse = {}
            self._dense = dense
        elif size > len(dense):
            dense = self._dense = longer_to(dense, size)
        return dense[:size]


def longer_to(column: Int, size: int) -> Int:
    """The column with zeros up to this size."""
    return np.concatenate([column, np.zeros(size - len(column), dtype=np.int64)])


def term_queries(pod: Pod) -> Iterator[PodsWithTerm]:
    """The queries that count this pod's own affinity and anti-affinity terms."""
    for term in pod.anti_affinity:
        required = term.weight is None
        yield PodsWithTerm(
            term, pod.namespace, TermType.REQUIRED_ANTI_AFFINITY if required else TermType.PREFERRED_ANTI_AFFINITY
        )
    for term in pod.affinity:
        required = term.weight is None
        yield PodsWithTerm(term, pod.namespace, TermType.REQUIRED_AFFINITY if required else TermType.PREFERRED_AFFINITY)


def skips_terminating(query: Query) -> bool:
    """Whether terminating residents are not counted."""
    return isinstance(query, ControllerReplicas) or (isinstance(query, SelectedPods) and query.skip_terminating)
