"""The terms of node scores for one pod, computed on request.

A score shows which node won and not why, and recording every term of every decision costs more than deciding. The plain
forms of the scores, term by term, over the few rows that matter; preferences are terms of their own, besides the
profile's score on the scale on which they were added. With a listener, pods are placed one by one, and each is reported
before it is committed: the choices are the same.
Limits: a score without plain terms is one term.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Protocol

import numpy as np

from cotenant.engine.cycle.rejections import FilterChecks
from cotenant.model.arrays import Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.decisions.record import CandidateNode, ScorePart
from cotenant.policy.placement.codes import Score
from cotenant.policy.placement.compiled import plain_scores
from cotenant.policy.placement.preference import PreferencePart, scaled
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.policy.placement.scores.interference import PARTS, interference_parts
from cotenant.policy.placement.scores.kube import PLUGINS, kube_1_36_parts, kube_default_parts

_NAMES = {Score.FOUNDING_LEDGER: "founding, by ledger", Score.PARAGON_LIKE: "total slowdown"}  # others: the code's name
PROFILE_SCORE = "profile score"


def own_parts(
    profile: PlacementProfile, nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int, now_s: float
) -> tuple[PreferencePart, ...]:
    """The profile's score of these rows, term by term; they add up to it."""
    if profile.score is Score.INTERFERENCE:
        values = interference_parts(nodes, shapes, k, rows, profile.knobs.array())
        return tuple(PreferencePart(name, values[:, i]) for i, name in enumerate(PARTS))
    if profile.score in (Score.KUBE_DEFAULT, Score.KUBE_1_36):
        parts = kube_default_parts if profile.score is Score.KUBE_DEFAULT else kube_1_36_parts
        values = parts(nodes, shapes, k, rows)
        return tuple(PreferencePart(name, values[:, i]) for i, name in enumerate(PLUGINS))
    whole = plain_scores(int(profile.score), nodes, shapes, k, rows, now_s, profile.knobs.array())
    name = _NAMES.get(profile.score) or profile.score.name.lower().replace("_", " ")
    return (PreferencePart(name, whole),)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Feasible rows with the terms of their scores, and their order."""

    rows: Int  # [m]
    parts: tuple[PreferencePart, ...]  # [m] each
    order: Int  # [m] positions in `rows`, the best first, equal ones by row
    names: list[str]  # row -> node

    def __len__(self) -> int:
        return len(self.rows)

    def best(self, most: int) -> tuple[CandidateNode, ...]:
        """The best few as values."""
        return tuple(self._candidate(i) for i in self.order[:most].tolist())

    def of(self, row: int) -> tuple[CandidateNode | None, int]:
        """A row's candidate and its rank, from 1; None and 0 if it is not feasible."""
        position = int(np.searchsorted(self.rows, row))
        if position >= len(self.rows) or self.rows[position] != row:
            return None, 0
        return self._candidate(position), int(np.flatnonzero(self.order == position)[0]) + 1

    def _candidate(self, i: int) -> CandidateNode:
        terms = tuple(
            ScorePart(part.name, float(part.values[i])) for part in self.parts if isfinite(float(part.values[i]))
        )
        return CandidateNode(self.names[int(self.rows[i])], fsum(term.value for term in terms), terms)


def ranking(
    profile: PlacementProfile,
    nodes: NodeArrays,
    shapes: ShapeArrays,
    k: int,
    rows: Int,
    now_s: float,
    preferences: tuple[PreferencePart, ...],
    names: list[str],
) -> Ranking:
    """Feasible rows, given in ascending order, ranked by their scores. Terms that are not finite are left out."""
    own = own_parts(profile, nodes, shapes, k, rows, now_s)
    parts = own
    if preferences:
        whole = np.sum([part.values for part in own], axis=0)
        parts = (PreferencePart(PROFILE_SCORE, scaled(int(profile.score), whole)), *preferences)
    total = np.sum([part.values for part in parts], axis=0)
    return Ranking(rows, parts, np.argsort(-total, kind="stable"), names)


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod just before it is placed or refused; the arrays are in the state that decides."""

    pod: str
    shape: int
    number: int
    nodes: NodeArrays
    shapes: ShapeArrays
    profile: PlacementProfile
    names: list[str]  # row -> node, empty where the node is gone
    allowed: Mask  # empty = every row
    at_s: float
    preferences: Callable[[Int], tuple[PreferencePart, ...]]
    check: Callable[[], FilterChecks]


class ScoreListener(Protocol):
    """Called for every pod before it is placed; pods are then placed one by one."""

    def judging(self, seen: Seen) -> None:
        """Called before the pod is committed; the arrays must not be changed."""
        ...


def table(seen: Seen) -> Ranking:
    """All feasible nodes of a pod that is about to be placed, by their scores."""
    checked = seen.check()
    passing = checked.here & (checked.misses == 0)
    if len(seen.allowed):
        passing &= seen.allowed
    rows = np.flatnonzero(passing)
    preferences = seen.preferences(rows) if len(rows) else ()
    return ranking(seen.profile, seen.nodes, seen.shapes, seen.shape, rows, seen.at_s, preferences, seen.names)
