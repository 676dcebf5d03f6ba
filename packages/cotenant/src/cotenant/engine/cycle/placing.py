"""Placement of a cluster's pods by their profile, with an evaluation of every choice.

The lab and the cluster must place alike, and a cluster's pods have more constraints (claims, nominations) and must be
explained. One profile, with its filters, scores and narrowing, through the compiled loop that records evaluations;
constraints of only some pods narrow the rows of those pods alone. Pods of another scheduler name may be scored by
another profile: their shapes name it, and a run ends where the profile changes.
Limits: the order of pods is the engine's own profile's; an evaluation names filters in general; only a pending pod gets
the full list with names of resources and taints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cotenant.engine.cycle.eviction.fixed_filters import NOT_OURS, SHARD
from cotenant.engine.cycle.refusals import REPORTED, Refusals
from cotenant.engine.cycle.rejections import FilterChecks, Rejector
from cotenant.engine.cycle.runs import place_in_runs
from cotenant.engine.cycle.score_parts import ScoreListener, Seen
from cotenant.engine.framework.budget import OverBudget
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import PlacementVerdict
from cotenant.engine.state.assignments import Assignments
from cotenant.engine.state.narrowing import EVERYWHERE
from cotenant.engine.state.verdict_cache import (
    NO_QUOTA_PER_ROW,
    Evaluation,
    evaluate,
    feasible_on,
    place_cached,
    set_best,
    unevaluated,
)
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.decisions.reasons import Rejection
from cotenant.model.decisions.record import CandidateNode, DecisionRecord
from cotenant.model.errors import Permanent
from cotenant.policy.overcommit.prediction import lent_cap
from cotenant.policy.placement.compiled import FILTERS, Reject, commit, reject_rows, sample_size
from cotenant.policy.placement.knobs import column
from cotenant.policy.placement.preference import sampled, scaled
from cotenant.policy.placement.profiles import PlacementProfile

_REQUEST_CAP = column("request_cap")


# Filters whose verdict on a node depends on its row alone; NodeUnschedulable is counted apart from TaintToleration, and
# devices are columns of the row.
ROW_LOCAL = frozenset({filter_.plugin for filter_ in FILTERS.values()} | {"NodeUnschedulable", "DeviceShare", SHARD})


class PodJudgement(NamedTuple):
    """The result for one pod: its row, -1 = none, and its position `at` in an evaluation."""

    row: int
    evaluation: Evaluation
    at: int
    allowed: int  # rows that satisfy the rules between pods and the pod's claims, -1 = all


class SamplingMark(NamedTuple):
    """The state of sampling and random choices before pods are placed that may be undone."""

    cursor: int
    rng_state: Mapping[str, object] | None  # None if the profile makes no random choices


CLOSED = PodJudgement(-1, unevaluated(1), 0, 0)  # a pod whose rules exclude all rows: filters were not evaluated


class Placing:
    """Places pods over one cluster's assignments: by `profile`, or by the one of `others` that scores them."""

    def __init__(
        self,
        assignments: Assignments,
        profile: PlacementProfile,
        rng: np.random.Generator,
        detailed: bool = True,
        others: tuple[PlacementProfile, ...] = (),
    ) -> None:
        """`detailed`: whether `record` gives rejections and candidates, or only the node. `others` fit as `profile`
        does.
        """
        self._detailed = detailed
        self.profile = profile
        self._others = {entry.name: entry for entry in others}
        self._knobs_of = {entry.name: entry.knobs.array() for entry in (profile, *others)}
        self._draws = any(entry.random_ties for entry in (profile, *others))
        self._assignments = assignments
        self._rng = rng
        self._knobs = self._knobs_of[profile.name]
        if profile.measures_use:
            self.lend(0.0)
        self._cursor = np.zeros(1, dtype=np.int64)  # where node sampling continues
        self._rejector = Rejector(assignments.encoder, assignments.narrowing, profile)
        self.witness: ScoreListener | None = None  # called for every pod; pods are then evaluated one by one
        self._calls = 0  # of `place`; no event is processed between a call and the verdicts that follow it
        self._refusals = Refusals(assignments, self._rejector)

    def lend(self, trust: float) -> None:
        """Let requests exceed nodes as far as estimates of use are trusted, 0..1; profiles that do not measure use
        are unchanged.
        """
        for profile in (self.profile, *self._others.values()):
            if profile.measures_use:
                self._knobs_of[profile.name][_REQUEST_CAP] = lent_cap(profile.knobs.request_cap, trust)

    def place(self, pods: Sequence[PodInfo], now_s: float, only: Mask = EVERYWHERE) -> list[PodJudgement]:
        """Place these pods in this order; placed pods are in the ledger and the narrowing. The arrays must be up to
        date.

        `only` narrows the rows of all of them.
        """
        assignments = self._assignments
        self._calls += 1
        numbers = np.fromiter((entry.number for entry in pods), dtype=np.int64, count=len(pods))
        shapes = np.fromiter((entry.shape for entry in pods), dtype=np.int64, count=len(pods))
        found: list[PodJudgement] = [CLOSED] * len(pods)

        def run(positions: Int, allowed: Mask) -> Int:
            left = _both(allowed, only)
            if self._others and len(parts := self._by_profile(positions, shapes)) > 1:
                return np.concatenate([run(part, allowed) for part in parts])
            if self.witness is not None and len(positions) > 1:
                return np.concatenate([run(positions[i : i + 1], allowed) for i in range(len(positions))])
            self._notify(pods[int(positions[0])], left, now_s)
            evaluation = self._judge(shapes[positions], left, now_s)
            count = int(left.sum()) if len(left) else -1
            for at, (position, row) in enumerate(zip(positions.tolist(), evaluation.rows.tolist(), strict=True)):
                found[position] = PodJudgement(row, evaluation, at, count)
            return evaluation.rows

        def preferring(position: int, allowed: Mask, preferences: Callable[[Int], Float]) -> int:
            left = _both(allowed, only)
            self._notify(pods[position], left, now_s)
            evaluation = self._evaluate_with_preferences(int(shapes[position]), left, preferences, now_s)
            found[position] = PodJudgement(int(evaluation.rows[0]), evaluation, 0, int(left.sum()) if len(left) else -1)
            return int(evaluation.rows[0])

        def repeating(positions: Int, times: Int) -> Int:
            left, free = _both(times > 0, only), times.copy()
            chosen: list[Int] = []
            for part in self._by_profile(positions, shapes):
                evaluation = self._judge(shapes[part], left, now_s, free)
                count = int(left.sum())
                for at, (position, row) in enumerate(zip(part.tolist(), evaluation.rows.tolist(), strict=True)):
                    found[position] = PodJudgement(row, evaluation, at, count)
                chosen.append(evaluation.rows)
            return np.concatenate(chosen)

        if pods and self._is_unconstrained(numbers):
            rows = run(np.arange(len(pods)), EVERYWHERE)
            placed = rows >= 0
            assignments.narrowing.place_all(numbers[placed].tolist(), rows[placed].tolist())
        else:
            rows = place_in_runs(
                assignments.narrowing, numbers, run, preferring, repeating if self.witness is None else None
            )
            placed = rows >= 0
        if self.witness is not None:
            no_rows = np.zeros(len(assignments.names), dtype=np.bool_)
            for entry, judgement in zip(pods, found, strict=True):
                if judgement is CLOSED:
                    self._notify(entry, no_rows, now_s)
        assignments.ledger.note_placed(numbers[placed], rows[placed], shapes[placed])
        return found

    def _is_unconstrained(self, numbers: Int) -> bool:
        """Whether no pod needs to be placed apart. A judgement over its budget is found again, pod by pod."""
        try:
            return self._assignments.narrowing.is_unconstrained(numbers.tolist())
        except OverBudget:
            return False

    def profile_of(self, shape: int) -> PlacementProfile:
        """The profile that scores pods of a shape."""
        if not self._others:
            return self.profile
        return self.profile_named(self._assignments.encoder.shape(shape).scored_by)

    def profile_named(self, name: str) -> PlacementProfile:
        """The profile that scores pods with this `Pod.scored_by`."""
        return self._others.get(name, self.profile)

    def _by_profile(self, positions: Int, shapes: Int) -> list[Int]:
        """The positions in order, divided where the profile changes."""
        if not self._others:
            return [positions]
        names = [self.profile_of(k).name for k in shapes[positions].tolist()]
        ends = [at for at in range(1, len(names)) if names[at] != names[at - 1]]
        return np.split(positions, ends)

    def _notify(self, entry: PodInfo, allowed: Mask, now_s: float) -> None:
        if self.witness is None:
            return
        assignments, number = self._assignments, entry.number
        narrowing = assignments.narrowing
        self.witness.judging(
            Seen(
                pod=entry.seen.pod.key,
                shape=entry.shape,
                number=number,
                nodes=assignments.ledger.nodes,
                shapes=assignments.ledger.shapes,
                profile=self.profile_of(entry.shape),
                names=assignments.names,
                allowed=allowed,
                at_s=now_s,
                preferences=lambda rows: (
                    narrowing.preferences(number, rows) if narrowing.has_preferences(number) else ()
                ),
                check=lambda: self._rejector.check(entry.shape, number),
            )
        )

    def mark(self) -> SamplingMark:
        """The argument for `undo`, together with the pods placed since."""
        return SamplingMark(int(self._cursor[0]), self._rng.bit_generator.state if self._draws else None)

    def undo(self, pods: Sequence[PodInfo], mark: SamplingMark) -> None:
        """Undo the placement of all pods placed since the mark, completely."""
        assignments = self._assignments
        numbers = np.fromiter((entry.number for entry in pods), dtype=np.int64, count=len(pods))
        assignments.verdict_cache.changed(assignments.ledger.row[numbers])
        assignments.ledger.remove(numbers)
        assignments.narrowing.unassign_all(numbers.tolist())
        self._cursor[0] = mark.cursor
        if mark.rng_state is not None:
            self._rng.bit_generator.state = mark.rng_state

    def _evaluate_with_preferences(
        self, k: int, allowed: Mask, preferences: Callable[[Int], Float], now_s: float
    ) -> Evaluation:
        """As `preference.choose_preferring`, committed, with the evaluation."""
        nodes, shapes, profile = self._assignments.ledger.nodes, self._assignments.ledger.shapes, self.profile_of(k)
        size = nodes.capacity.shape[0]
        evaluation = unevaluated(1)
        verdicts, own = evaluate(
            k,
            nodes,
            shapes,
            int(profile.fit),
            int(profile.score),
            now_s,
            self._knobs_of[profile.name],
            self._assignments.verdict_cache,
        )
        if len(allowed):
            verdicts = np.where(allowed, verdicts, Reject.NOT_READY)
        evaluation.counts[0] = np.bincount(verdicts, minlength=evaluation.counts.shape[1])
        sample = sample_size(size, profile.sample_pct) if profile.samples_nodes else 0
        rows = sampled(verdicts == 0, sample, self._cursor)
        if len(rows) == 0:
            return evaluation
        total = scaled(int(profile.score), own[rows]) + preferences(rows)
        highest = total.max()
        ties = rows[total == highest]
        row = int(ties[self._rng.integers(len(ties))]) if profile.random_ties and len(ties) > 1 else int(ties.min())
        set_best(evaluation, 0, rows, total)
        evaluation.score[0] = highest
        evaluation.rows[0] = row
        commit(nodes, row, shapes, k)
        self._assignments.verdict_cache.changed(row)
        return evaluation

    def _judge(self, shapes: Int, allowed: Mask, now_s: float, times: Int = NO_QUOTA_PER_ROW) -> Evaluation:
        assignments, profile = self._assignments, self.profile_of(int(shapes[0]))
        nodes = assignments.ledger.nodes
        return place_cached(
            shapes,
            nodes,
            assignments.ledger.shapes,
            allowed,
            int(profile.fit),
            int(profile.score),
            profile.random_ties,
            sample_size(nodes.capacity.shape[0], profile.sample_pct) if profile.samples_nodes else 0,
            self._cursor,
            now_s,
            self._knobs_of[profile.name],
            self._rng,
            assignments.verdict_cache,
            times,
        )

    def check(self, shape: int, number: int) -> FilterChecks:
        """What every filter says of every node for a pod, as the arrays stand."""
        return self._rejector.check(shape, number)

    def feasible(self, entry: PodInfo) -> frozenset[str]:
        """The nodes that every filter passes for a pod, as the arrays stand."""
        checked = self._rejector.check(entry.shape, entry.number)
        names = self._assignments.names
        return frozenset(names[row] for row in np.flatnonzero(checked.here & (checked.misses == 0)).tolist())

    def helped(self, shapes: Sequence[int], rows: Sequence[int]) -> Mask:
        """Which of these shapes pass all row-local filters on some of these rows."""
        assignments = self._assignments
        return feasible_on(
            np.array(shapes, dtype=np.int64),
            np.array(rows, dtype=np.int64),
            assignments.ledger.nodes,
            assignments.ledger.shapes,
            int(self.profile.fit),
            self._knobs,
        )

    def validate(self) -> None:
        """Check that cached verdicts equal a new evaluation. Raises `Permanent`."""
        nodes, shapes, cache = (
            self._assignments.ledger.nodes,
            self._assignments.ledger.shapes,
            self._assignments.verdict_cache,
        )
        for k, slot in cache.cached():
            verdicts = np.empty(nodes.capacity.shape[0], dtype=np.int64)
            reject_rows(nodes, shapes, k, int(self.profile.fit), self._knobs, verdicts)
            current = cache.stamps[slot] == cache.version
            wrong = np.flatnonzero(current & (cache.verdicts[slot] != verdicts))
            if len(wrong):
                raise Permanent(
                    f"the cached verdict of shape {k} is {cache.verdicts[slot, wrong[0]]} on row {wrong[0]}"
                )

    # ---- records

    def record(self, entry: PodInfo, judgement: PodJudgement, now_s: float) -> DecisionRecord:
        """The record of a pod that was placed."""
        evaluation, at, names = judgement.evaluation, judgement.at, self._assignments.names
        there = len(self._assignments.encoder.node_rows)
        if not self._detailed:
            policy = self.profile_of(entry.shape).name
            return DecisionRecord(entry.seen.pod.key, now_s, there, names[judgement.row], policy=policy)
        counts = evaluation.counts[at].tolist()
        counts[Reject.NOT_READY] -= len(names) - there  # rows whose nodes were removed
        found: list[Rejection] = []
        if self._assignments.encoder.closed:
            closed = self._assignments.encoder.closed_count()
            counts[Reject.NOT_READY] -= closed
            found.append(Rejection(SHARD, NOT_OURS, closed))
        if judgement.allowed >= 0:
            narrowed = min(max(0, there - judgement.allowed), max(0, counts[Reject.NOT_READY]))
            counts[Reject.NOT_READY] -= narrowed
            if narrowed:
                found.append(
                    Rejection(
                        "Narrowing",
                        "node(s) did not suit the pod's rules on other pods, its claims, or what it needs of a node",
                        narrowed,
                    )
                )
        for count, (plugin, reason) in zip(counts[1:], REPORTED, strict=True):
            if count > 0:
                found.append(Rejection(plugin, reason, count))
        rows = evaluation.best[at].tolist()
        best = [
            CandidateNode(names[row], score)
            for row, score in zip(rows, evaluation.scores[at].tolist(), strict=True)
            if row >= 0
        ]
        if judgement.row not in rows:  # a tie or a sample may choose beyond the best few
            best[-1:] = [CandidateNode(names[judgement.row], float(evaluation.score[at]))]
        return DecisionRecord(
            pod=entry.seen.pod.key,
            at_s=now_s,
            nodes=there,
            node=names[judgement.row],
            rejections=tuple(found),
            candidates=tuple(best),
            policy=self.profile_of(entry.shape).name,
        )

    def verdict(self, entry: PodInfo, now_s: float, judgement: PodJudgement = CLOSED) -> PlacementVerdict:
        """Why a pod that was not placed waits, as the arrays stand. Pods that are refused alike share the work until
        `place` or a changed row.

        `judgement`: the one that refused it; where records are brief, its counts say which filters did.
        """
        policy, counts = self.profile_of(entry.shape).name, judgement.evaluation.counts[judgement.at]
        if not self._detailed and judgement.allowed < 0 and counts[0] >= 0:
            return self._refusals.brief(entry, counts, policy, now_s)
        return self._refusals.full(entry, policy, self._calls, now_s)


def _both(left: Mask, right: Mask) -> Mask:
    if len(left) == 0:
        return right
    return left if len(right) == 0 else left & right
