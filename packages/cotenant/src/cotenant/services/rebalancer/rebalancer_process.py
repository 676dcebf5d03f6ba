"""The rebalancer process: rounds of planning become jobs, and jobs are carried out one write at a time.

Several replicas run, each may be killed at any moment, and nothing may be left half done. Every replica watches; only
the leader plans and writes. What is under way is stored in the jobs alone, so a replica that takes over continues where
the other stood. A round is simulated in the engine, which is restored afterwards, with the moves under way counted; a
planned move becomes a PodMigrationJob unless its kind is backed off or the replacement was moved less than an hour ago.
In a dry run rounds are planned and logged, and nothing is written.
Limits: a round is planned in the event loop, for as long as it takes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from cotenant.drivers.http.address import ListeningSocket
from cotenant.drivers.http.messages import TEXT, HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict
from cotenant.drivers.kube.client.limits import TokenBucket
from cotenant.drivers.kube.kinds.custom.autonomy import AUTONOMIES, read_autonomy
from cotenant.drivers.kube.kinds.custom.migration_job import MIGRATION_JOBS, MigrationJobObject, read_migration_job
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS, ReservationObject, ReservationReader
from cotenant.drivers.kube.kinds.eviction_requests import (
    EVICTION_REQUESTS,
    EVICTIONS,
    EvictionRequestObject,
    read_eviction_progress,
    read_eviction_request,
)
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.migration.instructions import (
    CreateJob,
    EvictJobPod,
    Instruction,
    PodFacts,
    RequestEviction,
    StartSurge,
    WriteStatus,
)
from cotenant.engine.migration.migrations import Migrations
from cotenant.engine.rebalancer.arbiter import ClusterArbiter
from cotenant.engine.rebalancer.broken import BrokenObjectives
from cotenant.engine.rebalancer.permitting import Leave, MovePermits
from cotenant.engine.rebalancer.plan import MovePlan, PlannedMove
from cotenant.engine.rebalancer.purposes import Purposes
from cotenant.engine.rebalancer.requested import RequestedMoves
from cotenant.engine.rebalancer.room import DEFRAGMENTATION
from cotenant.engine.rebalancer.round_limits import controller
from cotenant.engine.rebalancer.rounds import kept_until_s, moved_lately, plan_round
from cotenant.model.autonomy.autonomy import AutonomyRung
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.model.groups.migration import (
    EVICT_POLICY,
    EvictPolicy,
    JobPhase,
    JobStep,
    MigrationJob,
    PodRef,
)
from cotenant.services.kube_process.clock import SteadyClock
from cotenant.services.kube_process.events import NORMAL
from cotenant.services.kube_process.kube_process import KubeProcess
from cotenant.services.kube_process.leadership import Leadership
from cotenant.services.kube_process.span_export import exporter
from cotenant.services.kube_process.watches import ObjectHandler
from cotenant.services.rebalancer import metrics
from cotenant.services.rebalancer.move_events import event_of
from cotenant.services.rebalancer.move_spans import MoveSpans
from cotenant.services.rebalancer.options import COMPONENT, RebalancerOptions, RoundTotals
from cotenant.services.rebalancer.planning import ClusterReading
from cotenant.services.rebalancer.scales import Scales
from cotenant.services.rebalancer.writing import Stored, carry_out, keep_room

_LONGEST_SLEEP_S = 5.0
_POLICIES = {evict_policy.value: evict_policy for evict_policy in EvictPolicy}
_BEGINS = (CreateJob, EvictJobPod, RequestEviction, StartSurge)
_log = logging.getLogger(__name__)


class RebalancerProcess:
    """One replica."""

    def __init__(
        self,
        access: Access,
        options: RebalancerOptions,
        identity: str,
        leadership: Callable[[Client], Leadership],
        clock: SteadyClock | None = None,
        listening: ListeningSocket | None = None,
    ) -> None:
        """`listening`: a socket that is bound already."""
        self._options, self._settings = options, options.settings
        acting = options.settings.acting
        self.client = Client(access, qps=float("inf"), burst=100, in_flight=16, user_agent=COMPONENT)
        self.kube = kube = KubeProcess(
            COMPONENT, identity, self.client, leadership=leadership(self.client), events_per_s=5.0, clock=clock
        )
        self.reading = reading = ClusterReading(
            self.client,
            kube.watches,
            options.profile,
            options.names,
            options.settings,
            options.load_aware,
            kube.now,
            once=False,
            kinds=options.workload_kinds,
            seals=options.seals,
        )
        self.migrations = Migrations(
            ClusterArbiter(reading.cluster, options.settings, reading.planner.replicas, reading.notes),
            self._pod,
            lambda node, resource: reading.planner.use.percent(node, resource, kube.now()),
            acting.migration,
            RequestedMoves(reading.planner, lambda now_s: moved_lately(self.migrations, now_s)),
            Purposes(reading.cluster, reading.planner),
            BrokenObjectives(reading.cluster, reading.planner.standings),
        )
        self._scales = Scales(self.client)
        self._reservation = ReservationReader()
        self.permissions = Permissions()
        self.permits = MovePermits(self.permissions, lambda: self.migrations.jobs.values(), options.mode)
        kube.watches.handle(
            AUTONOMIES,
            ObjectHandler(read_autonomy, self.permissions.seen, self.permissions.gone),
            optional=True,
            until_open=True,
        )
        self.rounds = RoundTotals()
        self._tasks: set[asyncio.Task[None]] = set()
        self._evictions = TokenBucket(acting.evictions_per_s, acting.burst)
        kube.watches.handle(
            MIGRATION_JOBS,
            ObjectHandler(read_migration_job, self.migrations.job_seen, self.migrations.job_gone),
            optional=True,
        )
        kube.watches.handle(
            RESERVATIONS,
            ObjectHandler(self._reservation.read, self.migrations.reservation_seen, self.migrations.reservation_gone),
            optional=True,
        )
        requests = ObjectHandler(read_eviction_request, self.migrations.request_seen, self.migrations.request_gone)
        self._requests = kube.watches.handle(EVICTION_REQUESTS, requests, optional=True)
        kube.watches.handle(
            EVICTIONS,
            ObjectHandler(read_eviction_progress, self.migrations.eviction_seen, self.migrations.eviction_gone),
            optional=True,
        )
        self._pages = HealthPages(kube.metrics.page, kube.health.unhealthy, kube.health.unready, kube.standing)
        self.server = HttpServer(self._answer, listening or options.listen, tls=options.tls)
        kube.serve("http", self.server)
        metrics.register(
            kube.metrics,
            self.migrations,
            self.rounds,
            leads=lambda: kube.leads,
            acts=options.acts,
            now=kube.now,
            malformed=lambda: kube.watches.malformed,
        )
        sink = exporter(kube, COMPONENT, options.span_target)
        self._spans = MoveSpans(sink) if sink is not None else None
        if sink is not None:
            metrics.read_spans(kube.metrics, sink.samples)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors of the API server never end it; a defect of ours does."""
        await self.kube.run(stop, self._work, on_synced=self._synced)

    def _synced(self) -> None:
        mode = "moves pods" if self._options.acts else "dry run: nothing is written"
        nodes, pods = self.reading.cluster.size()
        _log.info("listed %d nodes and %d pods; %s; metrics and health on %s", nodes, pods, mode, self.server.url)
        for name in self._settings.acting.ignored:
            _log.warning("%s has no effect", name)
        for doubt in self._settings.doubts:
            _log.warning("%s", doubt)
        unfinished = len(self.migrations.unfinished())
        if unfinished and self._options.acts:
            _log.info("%d migrations go on where they stood", unfinished)

    async def _work(self) -> None:
        due_s = self.kube.now()
        try:
            while True:
                now_s = self.kube.turn()
                if not self.kube.leads:  # the lease could not be renewed
                    await self.kube.sleep(_LONGEST_SLEEP_S)
                    continue
                self.reading.cluster.correct(now_s)
                if now_s >= due_s:
                    due_s = now_s + self._settings.acting.interval_s
                    await self._round()
                if self._options.acts:
                    for create_job in self.migrations.decide(self.kube.now()):
                        self._start(create_job)
                now_s = self.kube.now()
                wait_s = min(due_s, self.migrations.next_s(now_s)) - now_s
                await self.kube.sleep(min(_LONGEST_SLEEP_S, max(0.05, wait_s)))
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.migrations.stopped()

    # ---- rounds

    async def _round(self) -> None:
        """Plan, and create the jobs of the moves."""
        begun_s, created = self.kube.now(), self.rounds.created
        await self._scales.read(self.reading.cluster, self.reading.planner)
        wrong = self.reading.read_raw_allocatable()
        now_s = self.kube.now()
        began_s = time.process_time()
        plan, intents = plan_round(self.reading.planner, self.migrations, self._settings, now_s)
        self.rounds.seconds = time.process_time() - began_s
        planned_s = self.kube.now()
        self.rounds.number += 1
        self.rounds.planned += len(plan.moves)
        self.rounds.last = plan
        for what in wrong:
            _log.warning("%s", what)
        kept_rooms: dict[str, bool] = {}
        for intent in intents:
            move = intent.move
            leave = self.permits.leave(move.pod.partition("/")[0], now_s)
            if intent.stays:
                _log.info("%s is not moved: %s", move.pod, intent.stays)
            elif self._options.acts and not leave.may_create:
                self._not_created(move, leave)
            elif not self._options.acts:
                _log.info("dry run: %s would move from %s to %s: %s", move.pod, move.node, move.target, move.reason)
            elif leave.rung >= AutonomyRung.ACT and not await self._keep_rooms(plan, move, kept_rooms):
                _log.info("%s is not moved: the room for %s could not be kept", move.pod, move.about)
            else:
                verb = "moves" if leave.rung >= AutonomyRung.ACT else "would move, once approved,"
                _log.info("%s %s from %s to %s: %s", move.pod, verb, move.node, move.target, move.reason)
                self.rounds.created += 1
                self._start(CreateJob(leave.job_of(intent.job)))
        if self._spans is not None:
            self._spans.planned(plan, begun_s, now_s, planned_s, self.kube.now(), self.rounds.created - created)

    def _not_created(self, move: PlannedMove, leave: Leave) -> None:
        """A plan that is shown only, or not even that."""
        level = logging.DEBUG if leave.rung <= AutonomyRung.SHADOW else logging.INFO
        _log.log(level, "%s is not moved from %s to %s: %s", move.pod, move.node, move.target, leave.why)
        if leave.rung is AutonomyRung.SUGGEST and not leave.is_held:
            why = f"would move from {move.node} to {move.target}: {move.reason}"
            self.kube.events.record(PODS, move.pod, move.uid, NORMAL, "MoveSuggested", why)

    async def _keep_rooms(self, plan: MovePlan, move: PlannedMove, done: dict[str, bool]) -> bool:
        """Write the expected room of the pods that wait for this move before anything moves. Whether that
        succeeded, or none waits.
        """
        rooms = [room for room in plan.rooms if move.trigger == DEFRAGMENTATION and room.about == move.about]
        if rooms and move.about not in done:
            done[move.about] = True
            until_s = kept_until_s(self._settings, self.kube.now())
            for room in rooms:
                try:
                    await keep_room(self.client, room, until_s)
                except CotenantError as error:
                    _log.warning("%s: %s", room.pod, error)
                    done[move.about] = False
                    break
        return done.get(move.about, True) if rooms else True

    # ---- writes

    def _start(self, what: Instruction) -> None:
        task = asyncio.create_task(self._carry_out(what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, what: Instruction) -> None:
        try:
            if isinstance(what, EvictJobPod):
                wait_s = self._evictions.take(time.monotonic())
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
            if not self.kube.leads:
                self.migrations.done(what, self.kube.now(), "not leading")
                return
            # What was begun goes on; nothing is taken from a node while frozen.
            if isinstance(what, _BEGINS) and (why := self.permits.holds(what.job, self.kube.now())):
                self.migrations.done(what, self.kube.now(), why)
                return
            stored = await carry_out(self.client, what, self.kube.now())
        except Conflict as error:
            self.rounds.writes["conflict"] += 1
            self.migrations.done(what, self.kube.now(), f"changed meanwhile: {error}")
        except CotenantError as error:
            self.rounds.writes["refused"] += 1
            _log.warning("%s: %s", what.about, error)
            self.migrations.done(what, self.kube.now(), str(error), is_final=not isinstance(error, Transient))
        else:
            self.rounds.writes["done"] += 1
            self._seen(what, stored)
            self.migrations.done(what, self.kube.now())
            self._record(what)
        finally:
            self.kube.wake()

    def _seen(self, what: Instruction, stored: Stored) -> None:
        """What was written is known at once; the watch repeats it."""
        try:
            if isinstance(stored, MigrationJobObject):
                self.migrations.job_written(what, read_migration_job(stored))
            elif isinstance(stored, ReservationObject):
                self.migrations.reservation_written(self._reservation.read(stored))
            elif isinstance(stored, EvictionRequestObject):
                self.migrations.request_seen(read_eviction_request(stored))
        except InvalidInput as error:
            _log.warning("%s", error)

    def _record(self, what: Instruction) -> None:
        """Events on the pods, and lines in the log."""
        event = event_of(what)
        if event is not None:
            self.kube.events.record(*event)
        if isinstance(what, WriteStatus) and what.job.phase.is_final:
            if self._spans is not None:
                self._spans.ended(what.job, self.kube.now())
            self._ended(what.job)

    def _ended(self, job: MigrationJob) -> None:
        helped = job.condition(JobStep.HELPED)
        if helped is not None:
            self.rounds.helped[helped.status] = self.rounds.helped.get(helped.status, 0) + 1
            _log.info("%s: helped %s: %s", job.name, helped.status, helped.message)
        elif job.phase is JobPhase.SUCCEEDED:
            _log.info("%s: %s was moved from %s", job.name, job.pod.key, job.node or "no node")
        else:
            _log.warning("%s: %s was not moved: %s: %s", job.name, job.pod.key, job.status_reason, job.message)

    # ---- look-ups

    def _pod(self, key: str) -> PodFacts | None:
        entry = self.reading.cluster.find(key)
        if entry is None or entry.seen.phase.is_final:
            return None
        seen, notes, owner = entry.seen, self.reading.notes(key), controller(entry)
        gang = seen.demands.gang
        return PodFacts(
            PodRef(seen.pod.namespace, seen.pod.name, seen.uid),
            seen.node,
            terminating=seen.terminating,
            ready=notes.is_ready and notes.uid == seen.uid,
            softly_evicted=notes.softly_evicted and notes.uid == seen.uid,
            policy=_POLICIES.get(seen.pod.labels.get(EVICT_POLICY) or ""),
            workload=owner.uid if owner is not None else "",
            replicas=self.reading.planner.replicas.get(owner.uid, 1) if owner is not None else 1,
            takes_requests=self._requests.is_served and not (gang is not None and gang.needs_object),
        )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._pages.answer(scope["method"], scope["path"], scope["query_string"])
        await send_answer(send, found or HttpAnswer(404, b"not found\n", TEXT))
