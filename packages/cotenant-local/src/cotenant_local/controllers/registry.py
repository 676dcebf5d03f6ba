"""The list of all controllers of the local cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

from cotenant_local.controllers import claim_controllers as claims
from cotenant_local.controllers import cluster_controllers as cluster
from cotenant_local.controllers import workload_controllers as workload
from cotenant_local.controllers.autoscaler_controllers import Autoscalers, PodUses, nothing_measured
from cotenant_local.controllers.cleanup.event_expiry import EventExpiry
from cotenant_local.controllers.cleanup.garbage_controller import GarbageCollector
from cotenant_local.controllers.cluster.node_lifecycle import GRACE_S
from cotenant_local.controllers.cron_controllers import CronJobs
from cotenant_local.controllers.device_taint_controller import DeviceTaints
from cotenant_local.controllers.eviction_controllers import EvictionController, EvictionRequestController
from cotenant_local.controllers.quota_controllers import QuotaController
from cotenant_local.controllers.runtime.actions import EVICTION_REQUESTS
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.runtime.runner import Controller, Runner


def all_controllers(
    informers: Informers,
    clock: Callable[[], float] = time.time,
    node_grace_s: float = GRACE_S,
    served: tuple[str, ...] = (),
    *,
    workload_with_job: bool = False,
    uses: PodUses = nothing_measured,
) -> tuple[Controller, ...]:
    """One of each.

    `node_grace_s`: seconds without a heartbeat until a node counts as dead. `served`: the names of the cluster's
    scheduler; empty = it has none. `workload_with_job`: each Job gets a Workload and a PodGroup.
    `uses`: what autoscalers go by.
    """
    registry = informers.api.registry
    serves_requests = any((found.group, found.plural) == EVICTION_REQUESTS for found in registry.resources())
    evictions = (
        (EvictionRequestController(informers, clock), EvictionController(informers, clock)) if serves_requests else ()
    )
    unserved = (cluster.UnservedPods(informers, clock, served),) if served else ()
    return (
        workload.Deployments(informers, clock),
        workload.ReplicaSets(informers, clock),
        workload.StatefulSets(informers, clock),
        workload.DaemonSets(informers, clock),
        workload.GroupedJobs(informers, clock) if workload_with_job else workload.JobController(informers, clock),
        CronJobs(informers, clock),
        Autoscalers(informers, clock, uses),
        QuotaController(informers, clock),
        cluster.NodeLifecycle(informers, clock, node_grace_s),
        cluster.TaintEviction(informers, clock),
        cluster.BudgetController(informers, clock),
        *unserved,
        cluster.PodCollector(informers, clock),
        cluster.FinishedPods(informers, clock),
        cluster.Namespaces(informers, clock),
        cluster.VolumeClaimController(informers, clock),
        cluster.VolumeController(informers, clock),
        claims.PodClaimController(informers, clock),
        claims.GroupClaims(informers, clock),
        claims.ResourceClaims(informers, clock),
        DeviceTaints(informers, clock),
        *evictions,
        GarbageCollector(informers, clock),
        EventExpiry(informers, clock),
    )


def controller_manager(
    informers: Informers,
    clock: Callable[[], float] = time.time,
    node_grace_s: float = GRACE_S,
    served: tuple[str, ...] = (),
    *,
    workload_with_job: bool = False,
    uses: PodUses = nothing_measured,
    cpu_s: Callable[[], float] = time.thread_time,
) -> Runner:
    """A runner of all controllers, ready to start. `cpu_s`: what their plans cost is measured with."""
    controllers = all_controllers(
        informers, clock, node_grace_s, served, workload_with_job=workload_with_job, uses=uses
    )
    return Runner(informers, controllers, clock, cpu_s)
