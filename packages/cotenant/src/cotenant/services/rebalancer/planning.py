"""A plan of moves for a person: the cluster is read once, and one round is planned.

Before anything is evicted, an administrator wants to see what would move, where it would land, and what would be
better. A dry run that writes nothing: the watches of a scheduler feed an engine of the plan's own, NodeMetrics and the
replicas of workloads are read beside them, and when everything is listed one round is planned.
Limits: it looks once, so the anomaly condition, which counts rounds, does not apply; the scheduler's names, profile and
load thresholds must be given as its command line has them; its prediction of use from past measurements, and its other
options, are not simulated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from cotenant.drivers.kube.client.access import Access, load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Unavailable
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS, read_node_metric
from cotenant.drivers.kube.kinds.custom.objective_status import OBJECTIVE_STATUSES, read_objective_status
from cotenant.drivers.kube.kinds.managed_node import read_raw_allocatable
from cotenant.drivers.kube.kinds.pod.by_scheduler import PodsOfScheduler
from cotenant.drivers.kube.kinds.pod.eviction import EVICTION_PODS, read_eviction_notes
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.workload.declarations import workload_kinds
from cotenant.drivers.kube.kinds.workload.index import WorkloadIndex
from cotenant.drivers.kube.kinds.workloads import (
    JOBS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    WorkloadObject,
    replicas_of,
)
from cotenant.drivers.seals.seals import NO_SEALS, Seals, read_seals
from cotenant.engine.rebalancer.plan import MovePlan
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.engine.state.reports import NodeReports
from cotenant.model.assess.prices import PriceTable
from cotenant.model.cluster.annotations import RAW_ALLOCATABLE
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.groups.workload_kind import WorkloadKind, WorkloadState
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.kube_process.clock import SteadyClock
from cotenant.services.kube_process.watches import ObjectHandler, Watches
from cotenant.services.prices import price_table
from cotenant.services.rebalancer.configuration import DEFAULT, read_settings
from cotenant.services.rebalancer.rebalancer_arguments import PlanArguments, check_plan
from cotenant.services.rebalancer.saving import with_savings
from cotenant.services.rebalancer.scales import Scales
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.engine import scheduling_engine
from cotenant.services.scheduling.load_aware import read_settings as read_load_aware
from cotenant.services.scheduling.names import by_requests, cluster_profile, read_names
from cotenant.services.scheduling.options import Options
from cotenant.services.scheduling.watches import EngineWatches

AGENT = "cotenant-rebalancer"


def plan(request: PlanArguments) -> MovePlan:
    """Read the cluster and plan one round. Raises `CotenantError`."""
    check_plan(request)
    profile = by_requests(cluster_profile("--profile", request.profile))
    names = read_names(request.scheduler_names, profile)
    settings = DEFAULT if request.config is None else read_settings(request.config)
    load_aware = read_load_aware(request.load_aware) if request.load_aware is not None else None
    kinds = workload_kinds(request.workload_kinds)
    seals = read_seals(request.seal_certificate)
    prices = price_table(request.prices)
    access = load_access(request.kubeconfig, request.context)
    try:
        return asyncio.run(_plan(access, profile, names, settings, load_aware, request.within_s, kinds, seals, prices))
    except Unavailable as error:
        why = str(error).partition(": ")[2] or str(error)
        raise Transient(f"the API server {access.server} does not answer: {why}") from error


async def _plan(
    access: Access,
    profile: PlacementProfile,
    names: dict[str, PlacementProfile],
    settings: RebalancerSettings,
    load_aware: LoadAwareSettings | None,
    within_s: float,
    kinds: Sequence[WorkloadKind],
    seals: Seals,
    prices: PriceTable | None,
) -> MovePlan:
    async with Client(
        access, qps=float("inf"), burst=100, in_flight=16, timeout_s=within_s, user_agent=AGENT
    ) as client:
        await client.request(
            "GET", PODS.path(""), query={"limit": "1"}
        )  # an error is reported before watches begin to retry
        watches = Watches(client)
        reading = ClusterReading(client, watches, profile, names, settings, load_aware, kinds=kinds, seals=seals)
        task = asyncio.create_task(watches.run(), name="watches")
        try:
            async with asyncio.timeout(within_s):
                await watches.wait_synced()
        except TimeoutError:
            raise Permanent(f"{access.server} has not listed everything within {within_s:g} s") from None
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await Scales(client).read(reading.cluster, reading.planner)
        found = reading.plan()
        return found if prices is None else with_savings(found, reading.cluster.nodes(), prices)


_BETWEEN = (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS)  # owners of pods that have owners


class ClusterReading:
    """The watches of a plan: those of a scheduler, NodeMetrics, ServiceObjectives where they matter, and the
    replicas of workloads.
    """

    def __init__(
        self,
        client: Client,
        watches: Watches,
        profile: PlacementProfile,
        names: dict[str, PlacementProfile],
        settings: RebalancerSettings,
        load_aware: LoadAwareSettings | None = None,
        now: Callable[[], float] | None = None,
        *,
        once: bool = True,
        kinds: Sequence[WorkloadKind] = (),
        seals: Seals = NO_SEALS,
    ) -> None:
        """`once`: for one plan, so the anomaly condition does not apply."""
        self._now = now or SteadyClock()
        self.cluster = scheduling_engine(
            profile, Options(schedulers=tuple(names), profiles=names, load_aware=load_aware)
        )
        reader = PodReader(
            by_scheduler={
                name: PodsOfScheduler("" if entry.name == profile.name else entry.name, entry.default_spread)
                for name, entry in names.items()
            },
            seals=seals,
            workloads=WorkloadIndex(kinds, (kind.name for kind in _BETWEEN)),
        )
        watched = EngineWatches(
            watches,
            self.cluster,
            reader,
            ClaimBinder(client, reader.volumes),
            NodeReports(),
            self._now,
            self._declared_seen,
        )
        self._workloads = watched.workloads
        self._pods = watches.keep(EVICTION_PODS)
        self.planner = Planner(self.cluster, _for_one_look(settings) if once else settings, self.notes)
        watches.handle(
            NODE_METRICS,
            ObjectHandler(
                read_node_metric,
                lambda metric: self.planner.metric_seen(metric, self._now()),
                self.planner.use.metric_gone,
            ),
            optional=True,
        )
        if settings.kinds.objectives is not None or not once:  # what moves break is judged by them too
            watches.handle(
                OBJECTIVE_STATUSES,
                ObjectHandler(
                    read_objective_status,
                    lambda status: self.planner.standings.seen(status, self._now()),
                    self.planner.standings.gone,
                ),
                optional=True,
            )
        for kind in (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS, JOBS):
            watches.handle(kind, self._workload_handler(kind.name), optional=True)

    def _workload_handler(self, kind: str) -> ObjectHandler[WorkloadObject, WorkloadObject]:
        return ObjectHandler(
            lambda obj: obj,
            lambda obj: self._workload_seen(kind, obj),
            lambda key: self._workloads.owner_gone(kind, key),
        )

    def plan(self) -> MovePlan:
        """One round over what was read. The engine is left as it would be after it."""
        wrong = self.read_raw_allocatable()
        found = self.planner.plan(self._now())
        return replace(found, notes=(*found.notes, *wrong))

    def read_raw_allocatable(self) -> list[str]:
        """Pass the planner what nodes had before amplification; returns what cannot be read."""
        wrong = []
        for node in self.cluster.nodes():
            text = node.annotations.get(RAW_ALLOCATABLE)
            if text is not None:
                size = Use(node.allocatable.get(CPU_NAME), node.allocatable.get(MEMORY_NAME))
                try:
                    self.planner.use.raw_allocatable(node.name, read_raw_allocatable(text, size))
                except InvalidInput as error:
                    wrong.append(f"node {node.name}: {error}")
        return wrong

    def _declared_seen(self, state: WorkloadState) -> None:
        if state.replicas is not None:
            self.planner.workload_seen(state.uid, state.replicas)

    def _workload_seen(self, kind: str, obj: WorkloadObject) -> None:
        if obj.metadata.uid:
            self._workloads.owner_seen(kind, obj.metadata)
            self.planner.workload_seen(obj.metadata.uid, replicas_of(obj))

    def notes(self, key: str) -> EvictionNotes:
        """The eviction notes of a pod by namespace/name."""
        obj = self._pods.cache.get(key)
        return read_eviction_notes(obj) if obj is not None else EvictionNotes()


def plan_json(found: MovePlan) -> bytes:
    """The plan as one JSON object."""
    return msgspec.json.encode(found)


def _for_one_look(settings: RebalancerSettings) -> RebalancerSettings:
    """Without the anomaly condition, which counts rounds."""
    counting = [pool.name for pool in settings.pools if pool.anomaly is not None and not pool.anomaly.is_immediate]
    note = ("anomalyCondition: one look counts no rounds, so every overloaded node is considered",) if counting else ()
    pools = tuple(replace(pool, anomaly=None) for pool in settings.pools)
    kinds, objectives = settings.kinds, settings.kinds.objectives
    if objectives is not None:
        kinds = replace(kinds, objectives=replace(objectives, misses=replace(objectives.misses, windows=1.0)))
        note = (*note, "MissedObjectives.windows: one look sees one window, so one clear miss counts")
    not_applied = tuple(f"{name}: applies only where moves are carried out" for name in settings.not_applied)
    return replace(settings, pools=pools, kinds=kinds, not_applied=(*not_applied, *note))
