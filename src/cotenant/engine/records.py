"""Decision records: why a pod went where it went, or why it waits. Built only when somebody asks.

Problem: every decision must be explainable, and a million decisions a second leave no time to write reasons down. Choice: judge again by
the plain forms of the same filters and scores, on the ledger as it stands at that instant. Limits: for row-local profiles; of a round policy
only the outcome is told, because its reason is the whole round.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.narrowing import EVERYWHERE
from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.decision import Candidate, DecisionRecord, ScorePart
from cotenant.model.reasons import Rejection
from cotenant.policy.placement.compiled import REASONS, Reject, Score, plain_rejections, plain_scores
from cotenant.policy.placement.profiles import Profile
from cotenant.policy.placement.scores.interference import PARTS, interference_parts

_NARROWED = -1


def record(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    profile: Profile,
    pod: int,
    shape: int,
    row: int,
    now_s: float,
    best: int = 5,
    allowed: Mask = EVERYWHERE,
    narrowed: tuple[Rejection, ...] = (),
) -> DecisionRecord:
    """The record of placing `pod` on `row` (-1 = it waits), from the nodes as they stood before. Nodes are called `node N`.

    `allowed` and `narrowed` are what narrowing left and why it turned the other rows down (`Narrowing`).
    """
    knobs = profile.knobs.array()
    verdict = plain_rejections(nodes, shapes, shape, int(profile.fit), knobs)
    if len(allowed):
        verdict[~allowed] = _NARROWED
    values, counts = np.unique(verdict[verdict > 0], return_counts=True)
    rejections = narrowed + tuple(
        Rejection(filter=Reject(value).name.lower(), reason=REASONS[Reject(value)], nodes=int(count))
        for value, count in zip(values, counts, strict=True)
    )
    rows = np.flatnonzero(verdict == 0)
    scores = plain_scores(int(profile.score), nodes, shapes, shape, rows, now_s, knobs)
    order = np.argsort(-scores, kind="stable")[:best]
    if row >= 0 and row not in rows[order]:  # a tie or a sample can choose beyond the best few
        order = np.append(order[:-1], np.flatnonzero(rows == row))
    return DecisionRecord(
        pod=f"pod {pod}",
        at_s=now_s,
        nodes=nodes.capacity.shape[0],
        node=f"node {row}" if row >= 0 else None,
        rejections=rejections,
        candidates=_candidates(nodes, shapes, profile, shape, rows[order], scores[order]),
        policy=profile.name,
    )


def _candidates(
    nodes: NodeArrays, shapes: ShapeArrays, profile: Profile, shape: int, rows: Int, scores: Float
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
