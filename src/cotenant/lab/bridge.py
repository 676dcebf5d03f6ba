"""Between the simulated world and the scheduling engine: it translates, it never decides.

Problem: the same engine and the same policy objects must run here and in a cluster. Choice: the world tells what happened, this turns it
into the engine's events; the engine's placements become starts in the world. Every scheduler is told exactly the same: the offer (requests,
deadlines, noisy estimates), the nodes' reports once a minute, and what an agent can measure. Limits: a round every five simulated seconds
when something has changed; the algorithm's own run time is reported, not added to simulated time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from cotenant.engine.scheduler import Scheduler
from cotenant.engine.state.ledger import Ledger, empty_nodes
from cotenant.lab.world.config import WorldConfig
from cotenant.lab.world.offer import Offer
from cotenant.lab.world.state import MEMORY
from cotenant.lab.world.world import World
from cotenant.model.arrays import Float, Int, Param, PendingArrays, ShapeArrays
from cotenant.policy.placement.contract import RoundPolicy
from cotenant.policy.placement.contribution import contribution
from cotenant.policy.placement.profiles import PlacementProfile

ROUND_S = 5.0
PRIORITY_BASE = 17.0  # the founding base of the middle priority; all pods here have the same, so it moves no choice


@dataclass(slots=True)
class Clockwork:
    """What judging cost: one entry a placed pod, its round's wall time over the pods judged in that round."""

    per_decision_us: list[Float] = field(default_factory=list)
    total_s: float = 0.0
    rounds: int = 0
    waits: dict[str, int] = field(default_factory=dict)

    def note(self, elapsed_s: float, judged: int, placed: int) -> None:
        """A round that judged `judged` pods and placed `placed` took `elapsed_s`."""
        self.total_s += elapsed_s
        self.rounds += 1
        if placed:
            self.per_decision_us.append(np.full(placed, elapsed_s / judged * 1e6))

    def quantile_us(self, q: float) -> float:
        """Quantile over placed pods, microseconds."""
        return float(np.quantile(np.concatenate(self.per_decision_us), q)) if self.per_decision_us else float("nan")


def shapes_of(offer: Offer, half_node_cores: float, pressure_factor: float) -> ShapeArrays:
    """The offer's services and stages as the engine's shapes, one resource axis: CPU, memory, pods."""
    size = len(offer.cpu_milli)
    params = np.zeros((size, len(Param)))
    params[:, Param.USE_CPU] = offer.est_use_cores
    params[:, Param.USE_MEMORY] = offer.est_use_memory_bytes
    params[:, Param.SENSITIVITY] = offer.est_sensitivity
    params[:, Param.PRESSURE] = offer.est_pressure
    params[:, Param.ALLOWANCE] = np.where(offer.is_service, offer.est_tolerance - 1.0, 1.0)
    params[:, Param.IS_SERVICE] = offer.is_service
    params[:, Param.PRIORITY_BASE] = PRIORITY_BASE
    params[:, Param.LOAD_LIMIT] = np.inf
    params[:, Param.DURATION] = offer.est_duration_s
    request = np.stack([offer.cpu_milli, offer.memory_bytes, np.ones(size, dtype=np.int64)], axis=1)
    limited = offer.group_limit > 0
    return ShapeArrays(
        request=np.ascontiguousarray(request),
        sums=contribution(request, params, half_node_cores, pressure_factor),
        params=params,
        tolerated=np.zeros(size, dtype=np.uint64),
        selector=np.zeros((size, 1), dtype=np.uint64),
        tenant=offer.tenant.astype(np.int64),
        group=np.where(limited, np.cumsum(limited) - 1, -1).astype(np.int64),
        group_limit=offer.group_limit.astype(np.int64),
    )


def paths_of(offer: Offer) -> tuple[Float, Float]:
    """By shape: estimated seconds alone from its start to its job's end, and the job's remaining work (seconds x demand) from it on.

    Demand is normalised as Tetris has it: CPU and memory each as a fraction of a node, added.
    """
    size = len(offer.cpu_milli)
    path, work = np.zeros(size), np.zeros(size)
    demand = offer.pods * offer.est_duration_s * (offer.cpu_milli / offer.cpu_milli.max())
    for k in np.flatnonzero(~offer.is_service)[::-1]:
        follows = k + 1 < size and offer.job[k + 1] == offer.job[k]
        path[k] = offer.est_duration_s[k] + (path[k + 1] if follows else 0.0)
        work[k] = demand[k] + (work[k + 1] if follows else 0.0)
    return path, work


class Bridge:
    """One run: a world, an engine, and the traffic between them."""

    def __init__(
        self,
        world: World,
        offer: Offer,
        config: WorldConfig,
        policy: PlacementProfile | RoundPolicy,
        rng: np.random.Generator,
    ) -> None:
        self.world = world
        self.offer = offer
        factor = policy.knobs.pressure_factor if isinstance(policy, PlacementProfile) else 1.0
        shapes = shapes_of(offer, config.node_cores / 2.0, factor)
        groups = int(shapes.group.max(initial=-1)) + 1
        capacity = np.tile(
            np.array([[config.node_cores * 1000, config.node_memory_bytes, 1_000_000]], dtype=np.int64),
            (config.nodes, 1),
        )
        ledger = Ledger(empty_nodes(capacity, groups=groups), shapes, offer.tenants, len(offer.shape))
        self.engine = Scheduler(ledger, policy, rng)
        self.clockwork = Clockwork()
        self._path, self._work = paths_of(offer)

    def run(self) -> None:
        """From nothing to the end of the world."""
        now, next_report = 0.0, 0.0
        changed, unfinished = self._tell(now), False
        while not self.world.done:
            if now >= next_report:
                next_report += 60.0
                self.engine.report(self.world.reports())
                if self.engine.wants_measurements:
                    measured = self.world.measured()
                    self.engine.measure(measured.pods, measured.cpu_cores, measured.memory_bytes, now)
                    replicas = measured.pods[measured.replicas]
                    moves = self.engine.victims(replicas, measured.p99_ratio, measured.violated, now)
                    if len(moves):
                        self.world.evict(moves)
            held_until = self.engine.queue.next_release_s(now - ROUND_S)
            if len(self.engine.queue) and (changed or unfinished or held_until <= now):
                # a round policy may leave pods that would fit for its next round
                unfinished = self._decide(now) and len(self.engine.queue) > 0
            now += ROUND_S
            changed = self._tell(now)

    def _decide(self, now_s: float) -> bool:
        """One round; whether it placed anything."""
        if self.clockwork.rounds == 0:
            self.engine.rehearse(now_s)
        start = perf_counter()
        decision = self.engine.decide(now_s)
        self.clockwork.note(perf_counter() - start, decision.judged, len(decision.pods))
        for reason, count in decision.reasons.items():
            self.clockwork.waits[reason] = self.clockwork.waits.get(reason, 0) + count
        if len(decision.pods):
            self.world.start(decision.pods, decision.rows)
        return len(decision.pods) > 0

    def _tell(self, until_s: float) -> bool:
        """Let the world run, tell the engine what happened; whether anything changed that could matter to waiting pods."""
        happened = self.world.advance(until_s)
        engine = self.engine
        if len(happened.finished):
            engine.finish(happened.finished, until_s)
        if len(happened.nodes_down):
            engine.set_ready(happened.nodes_down, False)
        if len(happened.evicted):
            outgrown = happened.cause == MEMORY
            if outgrown.any():
                engine.outgrew(happened.evicted[outgrown], happened.evicted_memory_bytes[outgrown])
            engine.evict(happened.evicted, happened.hold_until_s, until_s)
        if len(happened.nodes_up):
            engine.set_ready(happened.nodes_up, True)
        if len(happened.ready):
            engine.submit(self._pending(happened.ready, happened.ready_s), until_s)
        return bool(len(happened.finished) + len(happened.evicted) + len(happened.nodes_up) + len(happened.ready))

    def _pending(self, pods: Int, ready_s: Float) -> PendingArrays:
        shape = self.offer.shape[pods]
        job = self.offer.job[shape]
        service = self.offer.is_service[shape]
        return PendingArrays(
            pod=pods,
            shape=shape,
            tenant=self.offer.tenant[shape],
            job=job,
            stage=shape,
            is_service=service,
            ready_s=ready_s,
            deadline_s=np.where(service, np.inf, self.offer.deadline_s[np.maximum(job, 0)]),
            path_s=self._path[shape],
            work=self._work[shape],
        )
