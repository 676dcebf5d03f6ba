"""The scheduling engine: events in, placements out. No I/O, no clock, no global randomness.

Problem: one judgement must serve a simulated cluster, a real one and a single-machine one. Choice: this state machine owns the ledger, the
queue and every pod's state; its owner feeds it what happened (`submit`, `finish`, `evict`, `set_ready`, `report`,
`measure`) and asks `decide(now)`,
which runs a profile compiled over the whole queue, or a round policy on a snapshot. Limits: nothing here gates pods or holds them back once they are
placed; gangs, quotas and reservations live in the cluster's engine (engine/cluster.py, plugins.py), which the lab runs for workloads that have them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cotenant.engine.cycle.decision_records import passing_rows, record
from cotenant.engine.cycle.rejections import Explanation, Rejector
from cotenant.engine.cycle.runs import place_in_runs
from cotenant.engine.lifecycle import Lifecycle, State
from cotenant.engine.queue import Queue
from cotenant.engine.rebalancer import Rebalancer
from cotenant.engine.state.estimates import Estimates
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import EVERYWHERE, Narrowing
from cotenant.model.arrays import Float, Int, Mask, PendingArrays, ResidentArrays
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.errors import Permanent
from cotenant.policy.placement.compiled import commit, place_queue, sample_size
from cotenant.policy.placement.contract import RoundPolicy, Snapshot
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.order import keys
from cotenant.policy.placement.preference import Part, choose_preferring
from cotenant.policy.placement.profiles import PlacementProfile

_NOBODY = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Decision:
    """What one round decided. `pods[i]` goes to `rows[i]`; the order is that of the judgements."""

    pods: Int
    rows: Int
    judged: int  # pods looked at
    reasons: dict[str, int] = field(
        default_factory=dict
    )  # why the others wait; "nothing waits" when the queue was empty


class Scheduler:
    """One scheduler of one cluster."""

    def __init__(
        self,
        ledger: Ledger,
        policy: PlacementProfile | RoundPolicy,
        rng: np.random.Generator,
        narrowing: Narrowing | None = None,
    ) -> None:
        """`narrowing` knows the pods' spread and anti-affinity rules; a round policy only tells it who sits where."""
        self.ledger = ledger
        self.policy = policy
        self.queue = Queue()
        self.lifecycle = Lifecycle(len(ledger.row))
        self._narrowing = narrowing
        self._rng = rng
        self.estimates = Estimates(ledger, policy.knobs if isinstance(policy, PlacementProfile) else Knobs())
        self.rebalancer = Rebalancer()
        self._cursor = np.zeros(1, dtype=np.int64)  # where node sampling goes on
        self._watched = _NOBODY
        self.records: dict[int, DecisionRecord] = {}  # of watched pods, the latest

    # ---- events

    def submit(self, pods: PendingArrays, now_s: float) -> None:
        """New pods."""
        self.lifecycle.move(pods.pod, State.QUEUED, now_s)
        self.queue.submit(pods)
        self.estimates.submitted(pods)

    def finish(self, pods: Int, now_s: float) -> None:
        """Bound pods ended or were deleted."""
        self._remove(pods)
        self.lifecycle.move(pods, State.GONE, now_s)

    def evict(self, pods: Int, hold_until_s: Float, now_s: float) -> None:
        """Bound pods lost their node (memory pressure, node failure, our own doing) and wait again, held until a time each."""
        self._remove(pods)
        self.lifecycle.move(pods, State.QUEUED, now_s)
        self.queue.again(pods, hold_until_s)

    def delete(self, pods: Int, now_s: float) -> None:
        """Pods that are not running any more by somebody's wish, wherever they are."""
        for pod in pods:
            one = np.array([pod])
            state = State(self.lifecycle.state[pod])
            if state is State.BOUND:
                self.finish(one, now_s)
                continue
            self.lifecycle.move(one, State.GONE, now_s)
            self.queue.drop(one)

    def set_ready(self, rows: Int, ready: bool) -> None:
        """Nodes came up, went down, or were cordoned."""
        self.ledger.set_ready(rows, ready)

    def report(self, values: Float) -> None:
        """What nodes reported, `float64[N, len(Report)]`, NaN rows for those that said nothing."""
        self.ledger.report(values)

    @property
    def wants_measurements(self) -> bool:
        """Whether `measure` would change anything."""
        policy = self.policy
        return isinstance(policy, PlacementProfile) and (
            policy.measures_use or policy.weighs_slack or policy.moves_victims
        )

    def measure(self, pods: Int, cpu_cores: Float, memory_bytes: Float, now_s: float) -> None:
        """What agents measured of running pods; each policy takes from it what it can use."""
        if not isinstance(self.policy, PlacementProfile) or not self.wants_measurements:
            return
        seated = self.estimates.seated()
        if self.policy.measures_use:
            self.estimates.measured(pods, cpu_cores, memory_bytes)
            self.estimates.correct_use()
        if self.policy.weighs_slack:
            self.estimates.correct_slack(self.estimates.batch_of(seated), now_s)
        self.estimates.revise(seated)

    def victims(self, replicas: Int, p99_ratio: Float, violated: Mask, now_s: float) -> Int:
        """Replicas' last windows: p99 over objective, and whether it was missed. Returns who should be evicted to seat it better.

        Nothing has moved yet: the owner evicts and says so by `evict`, and the next round seats it.
        """
        if not isinstance(self.policy, PlacementProfile) or not self.policy.moves_victims:
            return _NOBODY
        return self.rebalancer.victims(self.ledger, self.policy, replicas, p99_ratio, violated, now_s)

    def outgrew(self, pods: Int, memory_bytes: Float) -> None:
        """Pods evicted for memory used this much; every policy's estimate of their shape is raised to it."""
        self.estimates.outgrew(pods, memory_bytes)

    def watch(self, pods: Int) -> None:
        """Keep the latest decision record of these pods in `records`. Judgement is unchanged, and slower only where they stand."""
        self._watched = pods

    # ---- judgement

    def decide(self, now_s: float) -> Decision:
        """Judge every pod that may be judged now, and commit what was decided."""
        pending = self.queue.ready(now_s)
        if len(pending.pod) == 0:
            return Decision(_NOBODY, _NOBODY, 0, {"nothing waits": len(self.queue)})
        chosen, rows, reasons = self._judge(pending, now_s)
        pods = pending.pod[chosen]
        self.queue.drop(pods)
        self.lifecycle.move(pods, State.BOUND, now_s)
        return Decision(pods, rows, len(pending.pod), reasons)

    def _judge(self, pending: PendingArrays, now_s: float) -> tuple[Int, Int, dict[str, int]]:
        """Indices of placed pods in order of judgement, their rows, and why others wait; the ledger has them already."""
        if not isinstance(self.policy, PlacementProfile):
            answer = self.policy.decide(self._snapshot(pending), now_s, self._rng)
            rows = answer.row[answer.order]
            self.ledger.place(pending.pod[answer.order], rows, pending.shape[answer.order])
            if self._narrowing is not None:
                for pod, row in zip(pending.pod[answer.order].tolist(), rows.tolist(), strict=True):
                    self._narrowing.assign(pod, row)
            return answer.order, rows, dict(answer.reasons)
        profile = self.policy
        if self.wants_measurements:
            self.estimates.waiting(np.unique(pending.shape), now_s, profile.weighs_slack)
        order = np.argsort(keys(profile.order, pending, self.ledger.shapes, now_s, profile.knobs), kind="stable")
        placed = self._place_recording(profile, pending.pod[order], pending.shape[order], now_s)
        found = placed >= 0
        chosen = order[found]
        rows = placed[found]
        self.ledger.note_placed(pending.pod[chosen], rows, pending.shape[chosen])
        self.estimates.placed(pending.shape[chosen], now_s)
        waiting = int((~found).sum())
        return chosen, rows, {"no node passed the filters": waiting} if waiting else {}

    def _place_recording(self, profile: PlacementProfile, pods: Int, shapes: Int, now_s: float) -> Int:
        """Place the queue; where a watched pod stands in it, stop there and write its record before going on."""
        watched = np.flatnonzero(np.isin(pods, self._watched)) if len(self._watched) else _NOBODY
        if len(watched) == 0:
            return self._place(profile, pods, shapes, now_s)
        placed, done = np.full(len(pods), -1, dtype=np.int64), 0
        for at in watched.tolist():
            placed[done:at] = self._place(profile, pods[done:at], shapes[done:at], now_s)
            before = self.ledger.nodes._replace(
                requested=self.ledger.nodes.requested.copy(),
                sums=self.ledger.nodes.sums.copy(),
                group_count=self.ledger.nodes.group_count.copy(),
            )
            pod = int(pods[at])
            allowed = self._narrowing.allowed(pod) if self._narrowing is not None else EVERYWHERE
            explanation, wishes = self._reasons(profile, pod, int(shapes[at]), allowed)
            placed[at : at + 1] = self._place(profile, pods[at : at + 1], shapes[at : at + 1], now_s)
            self.records[pod] = record(
                before,
                self.ledger.shapes,
                profile,
                pod,
                int(shapes[at]),
                int(placed[at]),
                now_s,
                allowed=allowed,
                explanation=explanation,
                wishes=wishes,
            )
            done = at + 1
        placed[done:] = self._place(profile, pods[done:], shapes[done:], now_s)
        return placed

    def _reasons(
        self, profile: PlacementProfile, pod: int, shape: int, allowed: Mask
    ) -> tuple[Explanation | None, tuple[Part, ...]]:
        """Why nodes refuse the pod, and what it wishes of those that do not, as things stand before it is placed."""
        narrowing = self._narrowing
        if narrowing is None:
            return None, ()
        explanation = Rejector(narrowing.encoder, narrowing, profile).explain(pod)
        rows = passing_rows(self.ledger.nodes, self.ledger.shapes, profile, shape, allowed)
        return explanation, narrowing.wishes(pod, rows) if narrowing.prefers(pod) else ()

    def _place(self, profile: PlacementProfile, pods: Int, shapes: Int, now_s: float) -> Int:
        nodes, knobs = self.ledger.nodes, profile.knobs.array()

        def compiled(positions: Int, allowed: Mask) -> Int:
            return place_queue(
                shapes[positions],
                nodes,
                self.ledger.shapes,
                allowed,
                int(profile.fit),
                int(profile.score),
                profile.random_ties,
                sample_size(nodes.capacity.shape[0]) if profile.samples_nodes else 0,
                self._cursor,
                now_s,
                knobs,
                self._rng,
            )

        def preferring(position: int, allowed: Mask, wishes: Callable[[Int], Float]) -> int:
            k = int(shapes[position])
            row = choose_preferring(
                nodes,
                self.ledger.shapes,
                k,
                allowed,
                wishes,
                int(profile.fit),
                int(profile.score),
                profile.random_ties,
                sample_size(nodes.capacity.shape[0]) if profile.samples_nodes else 0,
                self._cursor,
                now_s,
                knobs,
                self._rng,
            )
            if row >= 0:
                commit(nodes, row, self.ledger.shapes, k)
            return row

        if self._narrowing is None:
            return compiled(np.arange(len(pods)), EVERYWHERE)
        return place_in_runs(self._narrowing, pods, compiled, preferring)

    def _snapshot(self, pending: PendingArrays) -> Snapshot:
        ledger = self.ledger
        return Snapshot(ledger.nodes, ledger.shapes, pending, ledger.tenants, ResidentArrays(ledger.row, ledger.shape))

    def rehearse(self, now_s: float) -> None:
        """Judge the queue once without any consequence, so that what compiles on first use is compiled before anything is timed."""
        pending = self.queue.ready(now_s)
        if isinstance(self.policy, PlacementProfile):
            keys(self.policy.order, pending, self.ledger.shapes, now_s, self.policy.knobs)
            self._place(self.policy, _NOBODY, _NOBODY, now_s)
        elif len(pending.pod):
            self.policy.decide(self._snapshot(pending), now_s, np.random.default_rng(0))

    def _remove(self, pods: Int) -> None:
        self.ledger.remove(pods)
        if self._narrowing is not None:
            self._narrowing.leave_all(pods.tolist())

    # ---- self-examination

    def validate(self) -> None:
        """Every pod is in one place only, and the ledger adds up. Raises `Permanent`."""
        self.ledger.validate()
        state = self.lifecycle.state
        seated = np.flatnonzero(self.ledger.row >= 0)
        wrong = seated[state[seated] != State.BOUND]
        if len(wrong):
            raise Permanent(f"pod {wrong[0]} sits on a node but is {State(state[wrong[0]]).name.lower()}")
        waiting = self.queue.ready(np.inf).pod
        if len(np.unique(waiting)) != len(waiting):
            raise Permanent("a pod stands in the queue twice")
        if not np.array_equal(np.sort(waiting), np.flatnonzero(state == State.QUEUED)):
            raise Permanent("the queue and the pods' states disagree")
        if not isinstance(self.policy, PlacementProfile) or self.policy.fit == 0:
            over = self.ledger.over_capacity()
            if len(over):
                raise Permanent(f"node {over[0]} is over capacity")
