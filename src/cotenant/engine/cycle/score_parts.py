"""What the scores of nodes are made of, for one pod, computed when somebody asks or has switched it on.

Problem: a score says who won and not why, and to keep every term of every decision costs more than deciding. Choice: the plain forms of the scores,
term by term, over the few rows that matter; soft wishes are terms of their own, beside the profile's score on the scale on which they were added.
With the switch on, pods are placed one by one, and each is told of before it is committed: the choices are the same. Limits: a score without plain terms is one term.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Protocol

import numpy as np

from cotenant.engine.cycle.rejections import Checked
from cotenant.model.arrays import Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.decisions.record import Candidate, ScorePart
from cotenant.policy.placement.compiled import Score, plain_scores
from cotenant.policy.placement.preference import Part, scaled
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.policy.placement.scores.interference import PARTS, interference_parts
from cotenant.policy.placement.scores.kube import PLUGINS, kube_default_parts

_NAMES = {Score.FOUNDING_LEDGER: "founding, by ledger", Score.PARAGON_LIKE: "total slowdown"}  # others: the code's name
PROFILE_SCORE = "profile score"


def own_parts(
    profile: PlacementProfile, nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int, now_s: float
) -> tuple[Part, ...]:
    """The profile's score of these rows, term by term; they add up to it."""
    if profile.score is Score.INTERFERENCE:
        values = interference_parts(nodes, shapes, k, rows, profile.knobs.array())
        return tuple(Part(name, values[:, i]) for i, name in enumerate(PARTS))
    if profile.score is Score.KUBE_DEFAULT:
        values = kube_default_parts(nodes, shapes, k, rows)
        return tuple(Part(name, values[:, i]) for i, name in enumerate(PLUGINS))
    whole = plain_scores(int(profile.score), nodes, shapes, k, rows, now_s, profile.knobs.array())
    name = _NAMES.get(profile.score) or profile.score.name.lower().replace("_", " ")
    return (Part(name, whole),)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows that pass, with the terms of their scores, and their order."""

    rows: Int  # [m]
    parts: tuple[Part, ...]  # [m] each
    order: Int  # [m] positions in `rows`, the best first, equal ones by row
    names: list[str]  # row -> node

    def __len__(self) -> int:
        return len(self.rows)

    def best(self, most: int) -> tuple[Candidate, ...]:
        """The best few as values."""
        return tuple(self._candidate(i) for i in self.order[:most].tolist())

    def of(self, row: int) -> tuple[Candidate | None, int]:
        """A row's value and its place, from 1; None and 0 where it does not pass."""
        position = int(np.searchsorted(self.rows, row))
        if position >= len(self.rows) or self.rows[position] != row:
            return None, 0
        return self._candidate(position), int(np.flatnonzero(self.order == position)[0]) + 1

    def _candidate(self, i: int) -> Candidate:
        terms = tuple(
            ScorePart(each.name, float(each.values[i])) for each in self.parts if isfinite(float(each.values[i]))
        )
        return Candidate(self.names[int(self.rows[i])], fsum(term.value for term in terms), terms)


def ranking(
    profile: PlacementProfile,
    nodes: NodeArrays,
    shapes: ShapeArrays,
    k: int,
    rows: Int,
    now_s: float,
    wishes: tuple[Part, ...],
    names: list[str],
) -> Ranking:
    """The rows, ascending, all of which pass, by their scores. A term of a row that is not finite is not told."""
    own = own_parts(profile, nodes, shapes, k, rows, now_s)
    parts = own
    if wishes:
        whole = np.sum([part.values for part in own], axis=0)
        parts = (Part(PROFILE_SCORE, scaled(int(profile.score), whole)), *wishes)
    total = np.sum([part.values for part in parts], axis=0)
    return Ranking(rows, parts, np.argsort(-total, kind="stable"), names)


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod just before it is placed, or refused: everything that decides is in the arrays as they stand."""

    pod: str
    shape: int
    number: int
    nodes: NodeArrays
    shapes: ShapeArrays
    names: list[str]  # row -> node, empty where the node is gone
    allowed: Mask  # empty = every row
    at_s: float
    wishes: Callable[[Int], tuple[Part, ...]]
    check: Callable[[], Checked]


class ScoreListener(Protocol):
    """Told of every pod that is judged, one by one, while somebody wants to know."""

    def judging(self, seen: Seen) -> None:
        """Before it is committed; the arrays must not be changed."""
        ...


def table(seen: Seen, profile: PlacementProfile) -> Ranking:
    """All nodes that pass for a pod that is about to be judged, by their scores."""
    checked = seen.check()
    passing = checked.here & (checked.misses == 0)
    if len(seen.allowed):
        passing &= seen.allowed
    rows = np.flatnonzero(passing)
    wishes = seen.wishes(rows) if len(rows) else ()
    return ranking(profile, seen.nodes, seen.shapes, seen.shape, rows, seen.at_s, wishes, seen.names)
