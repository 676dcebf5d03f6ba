"""Runs a fleet of simulated nodes on an API: registers them, renews their Leases, runs their pods, reports their usage.

Thousands of nodes in one process beside the API server must cost almost nothing when idle. Four tasks in all. One
sleeps until the next step is due for any pod; one renews the Leases of a slice of the fleet every quarter of a second;
one sends reports; node failures are requested by the nodes' annotation `cotenant.io/fail`. Pods and nodes come from the
informers that the controllers share. Lease period: 10 s as a kubelet's, but never more than 250 writes a second in all
(5,000 nodes: every 20 s), with a lease duration of four periods, which the node controller uses as the node's grace
period. Reports: every 10 s or once a simulated minute, whichever is longer, at most 500 nodes a second, and no slower
than the reports' lifetime allows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import msgspec

from cotenant.drivers.kube.kinds.custom.device import DEVICES
from cotenant.drivers.kube.kinds.custom.node_resource_topology import NODE_TOPOLOGIES
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.model.cluster.annotations import CPU_USED, FAIL, MEMORY_USED, VIOLATION
from cotenant.model.cluster.report import REPORT_TTL_S, NodeReport
from cotenant.model.errors import CotenantError
from cotenant_lab.world.config import WorldConfig
from cotenant_local.apiserver.contract import MERGE, RequestTarget, Resource, WriteOptions
from cotenant_local.controllers.runtime.actions import LEASES, NODES, PODS, RESOURCE_CLAIMS
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.views.nodes import NodeObjectView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes.accelerators import device_manifest
from cotenant_local.nodes.delivery import Delivery
from cotenant_local.nodes.fleet import LEASE_NAMESPACE, NodeFleet, lease_manifest, node_manifest, ready_conditions
from cotenant_local.nodes.kubelets import Kubelets
from cotenant_local.nodes.observations import TickSnapshot
from cotenant_local.nodes.reporting import ReportReceiver
from cotenant_local.nodes.topologies import CpuShape, topology_manifest
from cotenant_local.nodes.world import LiveWorld

SLICE_S = 0.25
MAX_CONCURRENT = 64
REPORT_S = 10.0
REPORTS_PER_SECOND = 500.0
ANNOTATE_S = 60.0  # minimum interval between updates of a node's usage annotations
ANNOTATE_CHANGE = 0.05  # minimum change of a share that causes an update
_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class SimulatedNodes:
    """Runs a fleet of simulated nodes."""

    def __init__(
        self,
        informers: Informers,
        fleet: NodeFleet,
        *,
        speed: float = 1.0,
        reporter: ReportReceiver | None = None,
        config: WorldConfig | None = None,
        cpus: CpuShape | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        seed: int = 0,
    ) -> None:
        """`speed`: simulated seconds per second. `config`: the laws of the world; the nodes' size is the fleet's.
        `cpus`: the CPU topology to publish. `sleep`: until the next renewals and reports.

        Raises `InvalidInput`.
        """
        self._informers = informers
        self._api = informers.api
        self._fleet = fleet
        self._cpus = cpus
        self._clock, self._sleep = clock, sleep
        self._reporter = reporter
        config = config if config is not None else WorldConfig()
        config = replace(
            config,
            node_cores=fleet.shape.cores,
            node_memory_bytes=fleet.shape.memory_bytes,
            pair_cores=fleet.shape.cores / 2.0,  # half a node, as the contention model has it
        )
        self.kubelets = Kubelets(LiveWorld(config, speed, clock(), seed))
        self.delivery = Delivery(informers, clock)
        self.running = asyncio.Event()  # the laws are compiled and pods are being run
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._options = WriteOptions(validation="Ignore", manager="kubelet", user="system:node")
        self._resource = {name: self._api.target(*name).resource for name in (NODES, LEASES)}
        self._uids: dict[str, str] = {}
        self._annotated: dict[str, tuple[float, float, float]] = {}
        self._leased: set[str] = set()
        self.lost_reports = 0
        self.errors = 0

    @property
    def world(self) -> LiveWorld:
        """The world model of the simulated machines."""
        return self.kubelets.world

    def snapshot(self) -> TickSnapshot:
        """The cluster at the last tick, for tables."""
        return self.world.snapshot()

    async def start(self) -> None:
        """Register the nodes and start all tasks; returns when all are registered, `running` is set later. The
        informers must be started.
        """
        for name in self._fleet.names():
            self.kubelets.add_node(name)
        nodes = self._informers.of(NODES)
        self._informers.of(PODS)
        await self._informers.wait_synced()
        nodes.subscribe(self._node_changed)
        self._informers.of(RESOURCE_CLAIMS).subscribe(self.kubelets.claims.observe)
        await self._register()
        for run in (self._run_pods, self._renew, self._report):
            self._tasks.append(asyncio.create_task(self._guarded(run), name=f"nodes {run.__name__}"))

    async def start_day(self) -> None:
        """Let a simulated day start now, once pods can run. Raises `Permanent` where pods run already."""
        await self.running.wait()
        self.world.start_day(self._clock())
        self._wake.set()

    async def stop(self) -> None:
        """Cancel all tasks; the next process resumes the pods from the API's state."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.delivery.stop()

    def fail(self, name: str) -> bool:
        """Power a node off: no Lease, no status, its pods' work is lost. Returns whether it was up."""
        return self.kubelets.fail(name, self._clock())

    async def restore(self, name: str) -> bool:
        """Power a node on again. Returns whether it was down."""
        if not self.kubelets.restore(name, self._clock()):
            return False
        await self._set_ready(name)
        self._flush()
        return True

    # --- events

    def _node_changed(self, old: NodeObjectView | None, new: NodeObjectView | None) -> None:
        if new is None:
            if old is not None:
                self._uids.pop(old.metadata.name, None)
                self._annotated.pop(old.metadata.name, None)
            return
        name = new.metadata.name
        if not self.kubelets.has(name):
            return
        self._uids[name] = new.metadata.uid
        self.kubelets.observe_node(new)
        failed = new.metadata.annotations.get(FAIL) == "true"
        if failed:
            self.fail(name)
        elif old is not None and old.metadata.annotations.get(FAIL) == "true":
            task = asyncio.create_task(self._restored(name))
            self._tasks.append(task)
            task.add_done_callback(self._tasks.remove)

    async def _restored(self, name: str) -> None:
        await self.restore(name)

    def _pod_changed(self, old: PodObjectView | None, new: PodObjectView | None) -> None:
        now = self._clock()
        if new is None:
            if old is not None and old.spec.node_name:
                self.kubelets.forget_pod(old.metadata.uid, now)
        elif new.spec.node_name:
            if old is not None and old.metadata.uid != new.metadata.uid:
                self.kubelets.forget_pod(old.metadata.uid, now)
            self.kubelets.observe_pod(new, now)
        else:
            return
        self._wake.set()

    def _flush(self) -> None:
        writes = self.kubelets.writes
        if writes:
            self.kubelets.writes = []
            self.delivery.send(writes)

    # --- tasks

    async def _guarded(self, run: Callable[[], Awaitable[None]]) -> None:
        """Run a task; an exception is counted and logged, and the task is restarted."""
        while True:
            try:
                await run()
            except Exception:
                self.errors += 1
                _log.exception("simulated nodes")
                await asyncio.sleep(1.0)

    async def _run_pods(self) -> None:
        if not self.running.is_set():
            if (
                self._fleet.count
            ):  # the first time on a machine this compiles for ten seconds: the nodes are there meanwhile
                await asyncio.to_thread(self.world.prepare)
            self._informers.of(PODS).subscribe(self._pod_changed)
            self.running.set()
        while True:
            self.kubelets.advance(self._clock())
            self._flush()
            self._wake.clear()
            wait_s = self.kubelets.next_at() - self._clock()
            if wait_s > 0:
                alarm = asyncio.get_running_loop().call_later(min(wait_s, 60.0), self._wake.set)
                try:
                    await self._wake.wait()
                finally:
                    alarm.cancel()
            await asyncio.sleep(0.01)  # batch the events of ten milliseconds

    async def _renew(self) -> None:
        period = self._fleet.renew_every_s
        names = self._fleet.names()
        at = 0.0
        last = self._clock()
        while True:
            await self._sleep(SLICE_S)
            now = self._clock()
            share = min(1.0, max(0.0, now - last) / period) * len(names)
            last = now
            first, at = int(at), at + share
            due = [names[i % len(names)] for i in range(first, int(at))]
            if names and at >= len(names):
                at -= len(names)
            await self._gather([self._heartbeat(name) for name in due if self.kubelets.is_up(name)])

    async def _heartbeat(self, name: str) -> None:
        """A kubelet's heartbeat: renew the Lease, and set the conditions to ready again if the controller changed
        them.
        """
        await self._renew_lease(name)
        if not self.kubelets.counts_as_ready(name):  # the grace period was exceeded, e.g. by a pause of this process
            await self._patch_status(name, {"conditions": ready_conditions(self._clock())})

    async def _renew_lease(self, name: str) -> None:
        obj = lease_manifest(self._fleet, name, self._uids.get(name, ""), self._clock())
        target = RequestTarget(self._resource[LEASES], LEASE_NAMESPACE, name)
        try:
            if name in self._leased:
                await self._api.patch(target, _encode({"spec": obj["spec"]}), MERGE, self._options)
                return
        except ApiError as error:
            if error.code != 404:
                raise
            if name not in self._uids:
                return  # the node was deleted, and its Lease with it
        if name in self._uids:
            try:
                await self._api.create(RequestTarget(self._resource[LEASES], LEASE_NAMESPACE), obj, self._options)
            except ApiError as error:
                if error.code != 409:
                    raise
                await self._api.patch(target, _encode({"spec": obj["spec"]}), MERGE, self._options)
            self._leased.add(name)

    async def _report(self) -> None:
        tick_s = self.world.config.tick_s / self.world.speed
        period = min(max(REPORT_S, tick_s, self._fleet.count / REPORTS_PER_SECOND), REPORT_TTL_S / 3.0)
        annotated_at = 0.0  # the first reports are written at once
        while True:
            await self._sleep(period)
            now = self._clock()
            reports = [r for r in self.world.reports(now) if self.kubelets.is_up(r.node) and r.node in self._uids]
            if self._reporter is not None and reports:
                try:
                    await self._reporter.report(reports)
                except CotenantError:
                    self.lost_reports += 1
            if reports and now - annotated_at >= ANNOTATE_S:
                annotated_at = now
                await self._gather([self._annotate(r) for r in reports if self._differs(r)])

    def _differs(self, report: NodeReport) -> bool:
        use = (
            report.cpu_used / report.cpu_allocatable,
            report.memory_used / report.memory_allocatable,
            report.violation,
        )
        if report.node not in self._uids:
            return False
        annotated = self._annotated.get(report.node)
        if annotated is None:
            return True
        return any(
            abs(new - old) > ANNOTATE_CHANGE or (new == 0.0) != (old == 0.0)
            for new, old in zip(use, annotated, strict=True)
        )

    async def _annotate(self, report: NodeReport) -> None:
        """Annotate the Node object with its usage, for `kubectl describe`."""
        annotations = {
            CPU_USED: f"{report.cpu_used:.2f}",
            MEMORY_USED: str(int(report.memory_used)),
            VIOLATION: f"{report.violation:.3f}",
        }
        body = _encode({"metadata": {"annotations": annotations}})
        await self._api.patch(RequestTarget(self._resource[NODES], "", report.node), body, MERGE, self._options)
        self._annotated[report.node] = (
            report.cpu_used / report.cpu_allocatable,
            report.memory_used / report.memory_allocatable,
            report.violation,
        )

    # --- registering

    async def _register(self) -> None:
        known = {n.metadata.name for n in self._informers.store(NODES)}
        names = self._fleet.names()
        for at in range(0, len(names), MAX_CONCURRENT):
            batch = range(at, min(at + MAX_CONCURRENT, len(names)))
            await self._gather([self._register_one(i, names[i], names[i] in known) for i in batch])
        if self._cpus is not None:
            resource = await self._served(NODE_TOPOLOGIES.group, NODE_TOPOLOGIES.name)
            for at in range(0, len(names), MAX_CONCURRENT):
                await self._gather(
                    [self._publish_cpus(resource, name, self._cpus) for name in names[at : at + MAX_CONCURRENT]]
                )

    async def _served(self, group: str, kind: str) -> Resource:
        """Wait for a custom kind, which is served shortly after it was defined."""
        while (found := self._api.registry.by_kind(group, kind)) is None:
            await asyncio.sleep(0.05)
        return found

    async def _publish_cpus(self, resource: Resource, name: str, cpus: CpuShape) -> None:
        obj = topology_manifest(name, self._uids.get(name, ""), cpus, self._fleet.shape.memory_bytes)
        try:
            await self._api.create(RequestTarget(resource), obj, self._options)
        except ApiError as error:
            if error.code != 409:
                raise

    async def _register_one(self, index: int, name: str, is_known: bool) -> None:
        now = self._clock()
        if not is_known:
            obj = node_manifest(self._fleet, index, name, now)
            status = obj["status"]
            try:
                answer = await self._api.create(RequestTarget(self._resource[NODES]), obj, self._options)
                self._informers.of(NODES).observe(answer.raw)
                if b'"allocatable"' not in answer.raw:
                    await self._patch_status(name, status)
            except ApiError as error:
                if error.code != 409:
                    raise
                is_known = True
        if self._fleet.shape.gpus:
            await self._publish_devices(name)
        if is_known and self.kubelets.is_up(name):
            await self._set_ready(name)
        if self.kubelets.is_up(name):
            await self._heartbeat(name)

    async def _publish_devices(self, name: str) -> None:
        """Create the node's Device object; an existing one is kept, since it may have been edited."""
        try:
            target = self._api.target(DEVICES.group, DEVICES.plural)
            await self._api.create(
                target, device_manifest(name, self._uids.get(name, ""), self._fleet.shape.gpus), self._options
            )
        except ApiError as error:
            if error.code not in (404, 409):  # 404: the kind is no longer served
                raise

    async def _set_ready(self, name: str) -> None:
        await self._patch_status(name, {"conditions": ready_conditions(self._clock())})
        await self._heartbeat(name)

    async def _patch_status(self, name: str, status: Manifest) -> None:
        target = RequestTarget(self._resource[NODES], "", name, "status")
        answer = await self._api.patch(target, _encode({"status": status}), MERGE, self._options)
        self._informers.of(NODES).observe(answer.raw)

    async def _gather(self, calls: Sequence[Awaitable[None]]) -> None:
        """Await all calls; refusals by the API are counted and do not stop the others."""
        for result in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(result, ApiError):
                self.errors += 1
                _log.debug("refused: %s", result)
            elif isinstance(result, BaseException):
                raise result
