"""The smallest sets of pods whose move frees enough of one node for a pod that waits.

Free resources are spread over many nodes in pieces that are each too small. For each node the sets of its movable pods
that free what is missing, ordered by their number, then by the importance of their pods; sets that contain a smaller
sufficient one are left out, since the smaller one is tried before. The caller simulates each until every pod of one
lands.
Limits: at most `most` pods, chosen among the `CANDIDATES` least important ones and those that free the most; what is
not a sum (devices, CPUs by number, affinity) is decided by the simulation alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import combinations

import numpy as np

from cotenant.model.arrays import Int

CANDIDATES = 12


@dataclass(frozen=True, slots=True)
class FreeableNode:
    """A node: `missing[R]` is what the waiting pod needs beyond the free amounts, `held[P, R]` what each movable
    pod frees, `rank[P]` the pods' importance among those of all nodes (0 = the least important).
    """

    name: str
    missing: Int
    held: Int
    rank: Int
    by_devices: bool = False  # sums do not decide: any set of these pods may free what is missing


@dataclass(frozen=True, slots=True, order=True)
class Freeing:
    """A set of pods of a node by index, with its order: the number of pods, and the ranks of the most important
    ones first.
    """

    size: int
    ranks: tuple[int, ...]  # descending
    node: str
    pods: tuple[int, ...] = field(default=(), compare=False)


def sets_of(holder: FreeableNode, most: int) -> Iterator[Freeing]:
    """The sufficient sets of one node, in order; the empty set where nothing is missing."""
    short = holder.missing > 0
    if not short.any() and not holder.by_devices:
        yield Freeing(0, (), holder.name)
        return
    if not len(holder.held) or (holder.held.sum(axis=0)[short] < holder.missing[short]).any():
        return
    candidates = _candidates(holder, short)
    found: list[set[int]] = []
    for size in range(1, min(most, len(candidates)) + 1):
        of_size = []
        for chosen in combinations(candidates, size):
            if not holder.by_devices and any(smaller <= set(chosen) for smaller in found):
                continue
            if (holder.held[list(chosen)].sum(axis=0)[short] >= holder.missing[short]).all():
                ranks = tuple(sorted((int(holder.rank[number]) for number in chosen), reverse=True))
                of_size.append(Freeing(size, ranks, holder.name, tuple(sorted(chosen))))
        found += [set(freeing.pods) for freeing in of_size]
        yield from sorted(of_size)


def options(holders: Sequence[FreeableNode], most: int) -> Iterator[Freeing]:
    """The sets of all nodes, the fewest and least important pods first, among equals by the node's name."""
    yield from merge(*(sets_of(holder, most) for holder in holders))


def _candidates(holder: FreeableNode, short: np.ndarray) -> list[int]:
    """Indices of the pods that free something which is missing."""
    useful = (
        np.arange(len(holder.held)) if holder.by_devices else np.flatnonzero((holder.held[:, short] > 0).any(axis=1))
    )
    useful = useful[np.argsort(holder.rank[useful], kind="stable")]
    if len(useful) <= CANDIDATES:
        return [int(number) for number in useful]
    share = (holder.held[useful][:, short] / holder.missing[short]).sum(axis=1)
    largest = useful[np.argsort(-share, kind="stable")[: CANDIDATES // 2]]
    return sorted({int(entry) for entry in (*useful[: CANDIDATES - CANDIDATES // 2], *largest)})
