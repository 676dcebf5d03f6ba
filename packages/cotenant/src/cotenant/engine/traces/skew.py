"""Clock skew between pairs of hosts, and spans with it taken out.

One call says little about a skew, because its network time may be one-sided. The last `SAMPLES` calls of a pair vote by
median (policy/objective/clock_skew.py), and a child's whole subtree moves with its host. Shifts beyond the bound are
counted and not applied.
Limits: hosts that never call each other are related through their callers only.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Set
from statistics import median_low

import numpy as np
from numpy.typing import NDArray

from cotenant.engine.traces.assembly import Rows, Times, Trees
from cotenant.model.compiled import njit
from cotenant.policy.objective.clock_skew import shift_ns

SAMPLES = 31
MAX_PAIRS = 10_000
MAX_SHIFT_NS = 10 * 10**9
_PER_ROUND = 64  # calls of a pair that one round of traces contributes at most

Hosts = NDArray[np.int32]


class ClockSkews:
    """The estimates; pairs that were not seen for longest are forgotten."""

    def __init__(self, max_shift_ns: int = MAX_SHIFT_NS) -> None:
        """`max_shift_ns`: 0 turns the correction off."""
        self._max_shift_ns = max_shift_ns
        self._samples: OrderedDict[tuple[int, int], deque[int]] = OrderedDict()
        self.ignored = 0  # calls with an estimate beyond the bound

    def estimate_ns(self, caller: int, callee: int) -> int:
        """What is added to the times of `callee`'s spans below `caller`'s; hosts by number."""
        samples = self._samples.get((caller, callee))
        return median_low(samples) if samples else 0

    def forget(self, hosts: Set[int]) -> None:
        """These numbers mean other hosts from now on."""
        for pair in [pair for pair in self._samples if pair[0] in hosts or pair[1] in hosts]:
            del self._samples[pair]

    def corrected(self, start_ns: Times, end_ns: Times, host: Hosts, trees: Trees) -> Times:
        """What to add to each row's times."""
        rows, shifts = _shifts(start_ns, end_ns, host, trees.parent)
        applied = np.zeros(rows.size, np.int64)
        if rows.size:
            callers, callees = host[trees.parent[rows]].astype(np.int64), host[rows].astype(np.int64)
            pairs, of_call = np.unique(callers << 32 | callees, return_inverse=True)
            order = np.argsort(of_call, kind="stable")
            ends = np.cumsum(np.bincount(of_call)).tolist()
            for pair, begin, end in zip(pairs.tolist(), [0, *ends], ends, strict=False):
                self._learn((pair >> 32, pair & 0xFFFFFFFF), shifts[order[begin:end][-_PER_ROUND:]].tolist())
            found = np.array([self.estimate_ns(pair >> 32, pair & 0xFFFFFFFF) for pair in pairs.tolist()], np.int64)
            beyond = np.abs(found) > self._max_shift_ns
            self.ignored += int(beyond[of_call].sum())
            applied = np.where(beyond, 0, found)[of_call]
        return _moved(start_ns.size, rows, applied, trees.parent, trees.order[: trees.first_of[-1]])

    def _learn(self, pair: tuple[int, int], shifts: list[int]) -> None:
        samples = self._samples.setdefault(pair, deque(maxlen=SAMPLES))
        samples.extend(shifts)
        self._samples.move_to_end(pair)
        while len(self._samples) > MAX_PAIRS:
            self._samples.popitem(last=False)


@njit
def _shifts(start_ns: Times, end_ns: Times, host: Hosts, parent: Rows) -> tuple[Rows, Times]:
    """The calls between two known hosts, and the shift that each asks for."""
    rows, shifts = np.empty(start_ns.size, np.int64), np.empty(start_ns.size, np.int64)
    found = 0
    for row in range(start_ns.size):
        above = parent[row]
        if above >= 0 and host[row] and host[above] and host[row] != host[above]:
            rows[found] = row
            shifts[found] = shift_ns(start_ns[above], end_ns[above], start_ns[row], end_ns[row])
            found += 1
    return rows[:found], shifts[:found]


@njit
def _moved(size: int, rows: Rows, applied: Times, parent: Rows, order: Rows) -> Times:
    """Shifts of all rows: each moves with its parent, and by what its own call adds."""
    own, moved = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for index in range(rows.size):
        own[rows[index]] = applied[index]
    for place in range(order.size):
        row = order[place]
        moved[row] = own[row] + (moved[parent[row]] if parent[row] >= 0 else 0)
    return moved
