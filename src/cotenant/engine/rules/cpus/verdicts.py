"""What every node says to one kind of need, kept until the node changes.

Problem: ten thousand nodes are asked again for each pod, and a placement changes one of them. Choice: a code a row for each kind of need, with the
version of the row that it was made of, and with the marks of those who keep what is aligned with the CPUs; only rows of another version or mark are
judged anew, and nodes that stand alike are judged once. Limits: a kind costs some twenty bytes a row; beyond the most, the one that was asked about
longest ago is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

import numpy as np

from cotenant.engine.rules.cpus.companions import Kind
from cotenant.model.arrays import Int, Mask
from cotenant.policy.placement.cpus.needs import CpuNeed
from cotenant.policy.placement.cpus.node_fit import Sets
from cotenant.policy.placement.refusal import Refusal

PASSES = 0
_MOST_KINDS = 512
_MOST_ALIKE = 4096


class Told(NamedTuple):
    """A refusal of some rows, and whether removing pods there could help."""

    reason: str
    yields: bool


class Answer(NamedTuple):
    """One node's. `refusal` None = it can give; `kept`: and all that the pod would rather have as well; `strict`: a NUMA policy has to be kept."""

    refusal: Refusal | None
    kept: bool = True
    yields: bool = False
    strict: bool = False
    elsewhere: Sets = ()


class Verdicts:
    """Of one kind of need."""

    def __init__(self) -> None:
        self.codes: Int = np.zeros(0, dtype=np.int64)  # PASSES, or 1 + place in `reasons`
        self.kept: Mask = np.zeros(0, dtype=np.bool_)
        self.strict: Mask = np.zeros(0, dtype=np.bool_)
        self.elsewhere: dict[str, Int] = {}  # by resource: NUMA nodes (mask) where it is to be taken, -1 = anywhere
        self._seen: list[Int] = []  # versions, then marks
        self._reasons: dict[Told, int] = {}
        self._nearest: dict[int, Refusal] = {}  # by row, of those that are refused
        self._alike: dict[Hashable, Answer] = {}

    def bring(
        self, versions: Int, marks: tuple[Int, ...], key: Callable[[int], Hashable], judge: Callable[[int], Answer]
    ) -> None:
        """Judge the rows that changed. `versions[N]`, `marks[N]`, as many each time; nodes with equal keys (None = none) answer alike."""
        size = len(versions)
        told = [versions, *(each[:size] for each in marks)]
        if size > len(self.codes) or not self._seen:
            self._grow(size - len(self.codes), len(told))
        changed = self._seen[0] != versions
        for seen, now in zip(self._seen[1:], told[1:], strict=True):
            changed |= seen != now
        for row in np.flatnonzero(changed).tolist():
            at = key(row)
            answer = self._alike.get(at) if at is not None else None
            if answer is None:
                answer = judge(row)
                if at is not None:
                    if len(self._alike) >= _MOST_ALIKE:
                        self._alike.clear()
                    self._alike[at] = answer
            self._note(row, answer)
        for seen, now in zip(self._seen, told, strict=True):
            seen[:] = now

    def _grow(self, more: int, kinds: int) -> None:
        nowhere = np.full(more, -1, dtype=np.int64)
        none = np.zeros(more, dtype=np.bool_)
        self.codes = np.concatenate([self.codes, np.zeros(more, dtype=np.int64)])
        self.kept, self.strict = np.concatenate([self.kept, none]), np.concatenate([self.strict, none])
        self.elsewhere = {name: np.concatenate([each, nowhere]) for name, each in self.elsewhere.items()}
        before = self._seen or [nowhere[:0]] * kinds
        self._seen = [np.concatenate([each, nowhere]) for each in before]

    def _note(self, row: int, answer: Answer) -> None:
        self.kept[row], self.strict[row] = answer.kept, answer.strict
        for each in self.elsewhere.values():
            each[row] = -1
        for name, nodes in answer.elsewhere:
            if name not in self.elsewhere:
                self.elsewhere[name] = np.full(len(self.codes), -1, dtype=np.int64)
            self.elsewhere[name][row] = nodes
        if answer.refusal is None:
            self.codes[row] = PASSES
            self._nearest.pop(row, None)
            return
        told = Told(answer.refusal.reason, answer.yields)
        self.codes[row] = 1 + self._reasons.setdefault(told, len(self._reasons))
        self._nearest[row] = answer.refusal

    def refusals(self, size: int) -> Iterator[tuple[Told, Mask]]:
        """Each refusal that any row gives now, and the rows that do not give it."""
        codes = self.codes[:size]
        counts = np.bincount(codes, minlength=len(self._reasons) + 1)
        for told, place in self._reasons.items():
            if counts[place + 1]:
                yield told, codes != place + 1

    def forget_alike(self) -> None:
        """Equal keys may mean another topology from now on."""
        self._alike.clear()

    def nearest(self, refused: Mask) -> str:
        """The figures of the one of these rows that lacks least."""
        rows = np.flatnonzero(refused).tolist()
        found = [self._nearest[row] for row in rows if row in self._nearest]
        return min(found, key=lambda refusal: (refusal.missing, refusal.nearest)).nearest if found else ""


class Kinds:
    """The verdicts of every need that was asked about lately, with what is needed beside it."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[CpuNeed, Kind], Verdicts] = {}

    def of(self, need: CpuNeed, beside: Kind) -> Verdicts:
        """Of one need; they may be out of date."""
        key = (need, beside)
        found = self._kinds.pop(key, None) or Verdicts()
        self._kinds[key] = found  # the last one asked about is the last to go
        if len(self._kinds) > _MOST_KINDS:
            del self._kinds[next(iter(self._kinds))]
        return found

    def forget_alike(self) -> None:
        """As `Verdicts.forget_alike`, of all."""
        for each in self._kinds.values():
            each.forget_alike()
