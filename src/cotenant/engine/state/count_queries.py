"""What pod counts can count: the queries, and a query's counter.

Problem: affinity between pods, spread and host ports each count residents by different criteria. Choice: four queries, as values, so that equal queries of
different pods share one counter. Limits: a term that appears twice in one pod is counted twice, as in kube-scheduler's score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.pod import HostPort, Pod


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
class Replicas:
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


Query = SelectedPods | Replicas | PodsWithTerm | PortConflicts


class Count:
    """The number of residents that match a query: `per_row`, and in `total`. `uses` counts the rules that read it."""

    __slots__ = ("per_row", "query", "total", "uses")

    def __init__(self, query: Query) -> None:
        self.query = query
        self.per_row: Int = np.zeros(64, dtype=np.int64)
        self.total = 0
        self.uses = 0

    def add(self, row: int, change: int) -> None:
        """Change the number of matching residents on a row."""
        if row >= len(self.per_row):
            self.per_row = np.concatenate([self.per_row, np.zeros(max(row + 1, len(self.per_row)), dtype=np.int64)])
        self.per_row[row] += change
        self.total += change

    def rows(self, size: int) -> Int:
        """`int64[size]`, one per row."""
        if size > len(self.per_row):
            self.per_row = np.concatenate([self.per_row, np.zeros(size - len(self.per_row), dtype=np.int64)])
        return self.per_row[:size]


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
    return isinstance(query, Replicas) or (isinstance(query, SelectedPods) and query.skip_terminating)
