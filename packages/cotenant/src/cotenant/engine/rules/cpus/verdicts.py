"""The answers of all nodes to one CPU need, cached until the node changes.

Every pod asks ten thousand nodes, and a placement changes one of them. One code per row and need, stored with the
version of the row and the marks of the aligned providers it was computed from. Only rows with a new version or mark are
judged again, and nodes in equal states are judged once.
Limits: about twenty bytes per row and need; beyond `_MAX_NEEDS` the least recently used need is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

import numpy as np

from cotenant.engine.rules.cpus.numa_providers import Kind
from cotenant.model.arrays import Int, Mask
from cotenant.policy.placement.cpus.needs import CpuNeed
from cotenant.policy.placement.cpus.node_fit import Sets
from cotenant.policy.placement.refusal import Refusal

PASSES = 0
_MAX_NEEDS = 512
_MAX_ALIKE = 4096


class RefusalKind(NamedTuple):
    """A refusal of some rows, and whether removing pods there could help."""

    reason: str
    yields: bool


class CpuAnswer(NamedTuple):
    """The answer of one node. `refusal` None = it passes; `kept`: preferences are satisfied too; `yields`:
    evictions could change a refusal.
    """

    refusal: Refusal | None
    kept: bool = True
    yields: bool = False
    elsewhere: Sets = ()


class CpuVerdicts:
    """The answers to one need."""

    def __init__(self) -> None:
        self.codes: Int = np.zeros(0, dtype=np.int64)  # PASSES, or 1 + index in `_reasons`
        self.kept: Mask = np.zeros(0, dtype=np.bool_)
        self.elsewhere: dict[str, Int] = {}  # by resource: NUMA nodes (mask) to allocate it on, -1 = anywhere
        self._seen: list[Int] = []  # versions, then marks, that the answers were computed from
        self._reasons: dict[RefusalKind, int] = {}
        self._nearest: dict[int, Refusal] = {}  # by refused row
        self._alike: dict[Hashable, CpuAnswer] = {}

    def refresh(
        self, versions: Int, marks: tuple[Int, ...], key: Callable[[int], Hashable], judge: Callable[[int], CpuAnswer]
    ) -> None:
        """Judge the rows that changed. `versions[N]`, `marks[N]`, the same number of marks each time; nodes with
        equal keys (None = no key) answer alike.
        """
        size = len(versions)
        current = [versions, *(mark[:size] for mark in marks)]
        if size > len(self.codes) or not self._seen:
            self._grow(size - len(self.codes), len(current))
        changed = self._seen[0] != versions
        for seen, now in zip(self._seen[1:], current[1:], strict=True):
            changed |= seen != now
        for row in np.flatnonzero(changed).tolist():
            at = key(row)
            answer = self._alike.get(at) if at is not None else None
            if answer is None:
                answer = judge(row)
                if at is not None:
                    if len(self._alike) >= _MAX_ALIKE:
                        self._alike.clear()
                    self._alike[at] = answer
            self._note(row, answer)
        for seen, now in zip(self._seen, current, strict=True):
            seen[:] = now

    def _grow(self, more: int, kinds: int) -> None:
        nowhere = np.full(more, -1, dtype=np.int64)
        none = np.zeros(more, dtype=np.bool_)
        self.codes = np.concatenate([self.codes, np.zeros(more, dtype=np.int64)])
        self.kept = np.concatenate([self.kept, none])
        self.elsewhere = {name: np.concatenate([row, nowhere]) for name, row in self.elsewhere.items()}
        before = self._seen or [nowhere[:0]] * kinds
        self._seen = [np.concatenate([row, nowhere]) for row in before]

    def _note(self, row: int, answer: CpuAnswer) -> None:
        self.kept[row] = answer.kept
        for entry in self.elsewhere.values():
            entry[row] = -1
        for name, nodes in answer.elsewhere:
            if name not in self.elsewhere:
                self.elsewhere[name] = np.full(len(self.codes), -1, dtype=np.int64)
            self.elsewhere[name][row] = nodes
        if answer.refusal is None:
            self.codes[row] = PASSES
            self._nearest.pop(row, None)
            return
        kind = RefusalKind(answer.refusal.reason, answer.yields)
        self.codes[row] = 1 + self._reasons.setdefault(kind, len(self._reasons))
        self._nearest[row] = answer.refusal

    def refusals(self, size: int) -> Iterator[tuple[RefusalKind, Mask]]:
        """Each current refusal, and the rows that do not give it."""
        codes = self.codes[:size]
        counts = np.bincount(codes, minlength=len(self._reasons) + 1)
        for kind, place in self._reasons.items():
            if counts[place + 1]:
                yield kind, codes != place + 1

    def forget_alike(self) -> None:
        """Drop the answers by key: equal keys may refer to another topology from now on."""
        self._alike.clear()

    def nearest(self, refused: Mask) -> str:
        """Figures of the refused row with the smallest shortage."""
        rows = np.flatnonzero(refused).tolist()
        found = [self._nearest[row] for row in rows if row in self._nearest]
        return min(found, key=lambda refusal: (refusal.missing, refusal.nearest)).nearest if found else ""


class VerdictsByNeed:
    """Verdicts by CPU need and the kind of the NUMA providers, the least recently used dropped first."""

    def __init__(self) -> None:
        self._by_need: dict[tuple[CpuNeed, Kind], CpuVerdicts] = {}

    def of(self, need: CpuNeed, providers: Kind) -> CpuVerdicts:
        """The verdicts on one need; they may be out of date."""
        key = (need, providers)
        found = self._by_need.pop(key, None) or CpuVerdicts()
        self._by_need[key] = found  # most recently used last
        if len(self._by_need) > _MAX_NEEDS:
            del self._by_need[next(iter(self._by_need))]
        return found

    def forget_alike(self) -> None:
        """`CpuVerdicts.forget_alike` for all needs."""
        for verdicts in self._by_need.values():
            verdicts.forget_alike()
