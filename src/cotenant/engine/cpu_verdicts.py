"""What every node says to one kind of need, kept until the node changes.

Problem: ten thousand nodes are asked again for each pod, and a placement changes one of them. Choice: a code a row for each kind of need, with the
version of the row that it was made of; only rows of another version are judged anew, and nodes that stand alike are judged once. Limits: a
kind costs 17 bytes a row; those that no pod needs any more are forgotten when there are many.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Int, Mask
from cotenant.policy.placement.cpus.needs import CpuNeed
from cotenant.policy.placement.refusal import Refusal

PASSES = 0
_MOST_KINDS = 256
_MOST_ALIKE = 4096


class Told(NamedTuple):
    """A refusal of some rows, and whether removing pods there could help."""

    reason: str
    yields: bool


class Answer(NamedTuple):
    """One node's. `refusal` None = it can give; `kept`: and all that the pod would rather have as well."""

    refusal: Refusal | None
    kept: bool = True
    yields: bool = False


class Verdicts:
    """Of one kind of need."""

    def __init__(self, need: CpuNeed) -> None:
        self.need = need
        self.users = 0
        self.codes: Int = np.zeros(0, dtype=np.int64)  # PASSES, or 1 + place in `reasons`
        self.kept: Mask = np.zeros(0, dtype=np.bool_)
        self._seen: Int = np.zeros(0, dtype=np.int64)
        self._reasons: dict[Told, int] = {}
        self._nearest: dict[int, Refusal] = {}  # by row, of those that are refused
        self._alike: dict[Hashable, Answer] = {}

    def bring(self, versions: Int, key: Callable[[int], Hashable], judge: Callable[[int], Answer]) -> None:
        """Judge the rows that changed. `versions[N]`; nodes with equal keys (None = none) answer alike."""
        size = len(versions)
        if size > len(self._seen):
            more = size - len(self._seen)
            self.codes = np.concatenate([self.codes, np.zeros(more, dtype=np.int64)])
            self.kept = np.concatenate([self.kept, np.zeros(more, dtype=np.bool_)])
            self._seen = np.concatenate([self._seen, np.full(more, -1, dtype=np.int64)])
        for row in np.flatnonzero(self._seen[:size] != versions).tolist():
            at = key(row)
            answer = self._alike.get(at) if at is not None else None
            if answer is None:
                answer = judge(row)
                if at is not None:
                    if len(self._alike) >= _MOST_ALIKE:
                        self._alike.clear()
                    self._alike[at] = answer
            self._note(row, answer)
        self._seen[:size] = versions

    def _note(self, row: int, answer: Answer) -> None:
        self.kept[row] = answer.kept
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
    """The verdicts of every need that some pod has, or had lately."""

    def __init__(self) -> None:
        self._kinds: dict[CpuNeed, Verdicts] = {}

    def use(self, need: CpuNeed) -> Verdicts:
        """For one more pod."""
        kind = self._kinds.get(need)
        if kind is None:
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds = {known: each for known, each in self._kinds.items() if each.users}
            kind = self._kinds[need] = Verdicts(need)
        kind.users += 1
        return kind

    def of(self, need: CpuNeed) -> Verdicts:
        """Of a need that some pod has."""
        return self._kinds[need]

    def forget_alike(self) -> None:
        """As `Verdicts.forget_alike`, of all."""
        for each in self._kinds.values():
            each.forget_alike()

    def drop(self, need: CpuNeed) -> None:
        """One pod fewer."""
        self._kinds[need].users -= 1
