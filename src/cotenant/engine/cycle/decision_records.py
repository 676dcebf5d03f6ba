"""Decision records: why a pod went where it went, or why it waits. Built only when somebody asks.

Problem: every decision must be explainable, and a million decisions a second leave no time to write reasons down. Choice: judge again by
the plain forms of the same filters and scores, on the ledger as it stands at that instant; each soft term of a pod is a part of its
candidates' scores. Limits: for row-local profiles; of a round policy only the outcome is told, because its reason is the whole round.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.cycle.rejections import Explanation
from cotenant.engine.state.narrowing import EVERYWHERE
from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.decisions.reasons import Rejection
from cotenant.model.decisions.record import Candidate, DecisionRecord, ScorePart
from cotenant.policy.placement.compiled import REASONS, Reject, Score, plain_rejections, plain_scores
from cotenant.policy.placement.preference import Part, scaled
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.policy.placement.scores.interference import PARTS, interference_parts

_NARROWED = -1


def record(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    profile: PlacementProfile,
    pod: int,
    shape: int,
    row: int,
    now_s: float,
    best: int = 5,
    allowed: Mask = EVERYWHERE,
    explanation: Explanation | None = None,
    wishes: tuple[Part, ...] = (),
) -> DecisionRecord:
    """The record of placing `pod` on `row` (-1 = it waits), from the nodes as they stood before. Nodes are called `node N`.

    `allowed` is what narrowing left; `explanation` names filters and reasons (without it, compiled verdicts are counted); `wishes` are
    the pod's soft terms over the rows that pass, ascending (`passing_rows`).
    """
    knobs = profile.knobs.array()
    verdict = _verdicts(nodes, shapes, profile, shape, allowed)
    rows = np.flatnonzero(verdict == 0)
    scores = plain_scores(int(profile.score), nodes, shapes, shape, rows, now_s, knobs)
    own = scaled(int(profile.score), scores) if wishes else scores
    scores = own + sum(part.values for part in wishes)
    order = np.argsort(-scores, kind="stable")[:best]
    if row >= 0 and row not in rows[order]:  # a tie or a sample can choose beyond the best few
        order = np.append(order[:-1], np.flatnonzero(rows == row))
    return DecisionRecord(
        pod=f"pod {pod}",
        at_s=now_s,
        nodes=nodes.capacity.shape[0] if explanation is None else explanation.nodes,
        node=f"node {row}" if row >= 0 else None,
        rejections=_counted(verdict) if explanation is None else explanation.rejections,
        candidates=(
            _wished(rows, scores, own, wishes, order)
            if wishes
            else _candidates(nodes, shapes, profile, shape, rows[order], scores[order])
        ),
        policy=profile.name,
        nearest=str(explanation.nearest) if explanation is not None and explanation.nearest is not None else "",
    )


def passing_rows(nodes: NodeArrays, shapes: ShapeArrays, profile: PlacementProfile, shape: int, allowed: Mask) -> Int:
    """Rows that pass the profile's filters and that narrowing left, ascending."""
    return np.flatnonzero(_verdicts(nodes, shapes, profile, shape, allowed) == 0)


def _verdicts(nodes: NodeArrays, shapes: ShapeArrays, profile: PlacementProfile, shape: int, allowed: Mask) -> Int:
    verdict = plain_rejections(nodes, shapes, shape, int(profile.fit), profile.knobs.array())
    if len(allowed):
        verdict[~allowed] = _NARROWED
    return verdict


def _counted(verdict: Int) -> tuple[Rejection, ...]:
    values, counts = np.unique(verdict[verdict > 0], return_counts=True)
    return tuple(
        Rejection(filter=Reject(value).name.lower(), reason=REASONS[Reject(value)], nodes=int(count))
        for value, count in zip(values, counts, strict=True)
    )


def _wished(rows: Int, scores: Float, own: Float, wishes: tuple[Part, ...], order: Int) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(
            f"node {rows[i]}",
            float(scores[i]),
            (
                ScorePart("profile score", float(own[i])),
                *(ScorePart(part.name, float(part.values[i])) for part in wishes),
            ),
        )
        for i in order.tolist()
    )


def _candidates(
    nodes: NodeArrays, shapes: ShapeArrays, profile: PlacementProfile, shape: int, rows: Int, scores: Float
) -> tuple[Candidate, ...]:
    if profile.score is not Score.INTERFERENCE:
        return tuple(Candidate(f"node {n}", float(score)) for n, score in zip(rows, scores, strict=True))
    parts = interference_parts(nodes, shapes, shape, rows, profile.knobs.array())
    return tuple(
        Candidate(
            f"node {n}",
            float(score),
            tuple(ScorePart(name, float(value)) for name, value in zip(PARTS, part, strict=True)),
        )
        for n, score, part in zip(rows, scores, parts, strict=True)
    )
