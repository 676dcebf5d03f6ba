"""A stand-in for the kubelet: what it does to cgroups, when, in which order, and which failures it survives.

A test that writes the other owner's side itself finds only what its author thought of. The steps of Kubernetes 1.36 on
a real tree, each from the source (pkg/kubelet/cm: container_manager_linux.go, qos_container_manager_linux.go,
node_container_manager_linux.go, pod_container_manager_linux.go; pkg/kubelet/kubelet.go, kubelet_pods.go;
kuberuntime/kuberuntime_manager.go for a resize). Time is an argument: `advance` does what falls due and says it step by
step. A write that fails ends what the real one ends: a start raises `Failed`; a minute's update is given up until the
next.
Limits: one container after the other; no probes, volumes or images; the node's limits are updated once at a start
instead of in the background.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from tests.fakes.node.kubelet.cpu_manager import Checkpoint, CpuManager, Key
from tests.fakes.node.kubelet.groups import GroupManager
from tests.fakes.node.kubelet.pods import (
    PERIOD_US,
    Container,
    Pod,
    Qos,
    Resources,
    quota_of,
    resources_of_container,
    resources_of_pod,
    shares_of,
)
from tests.fakes.node.kubelet.runtime import SANDBOX, Runtime
from tests.fakes.node.kubelet.writes import Failed

from cotenant.model.cpus.cpulist import format_cpus

QOS_UPDATE_S, RECONCILE_S, NODE_RETRY_S = 60.0, 10.0, 60.0
UNBOUNDED_PAGES = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A node and its kubelet's configuration."""

    root: tuple[str, ...] = ("kubepods",)  # with --cgroup-root before it
    cpus: tuple[int, ...] = tuple(sorted(os.sched_getaffinity(0)))
    memory_bytes: int = 1 << 34
    pids: int = 1 << 22
    static_cpus: bool = False  # cpuManagerPolicy: static
    reserved_cpus: tuple[int, ...] = (0,)  # in the shared pool for good, where the policy is static
    reserved_cpu_m: int = 0  # systemReserved
    memory_qos: bool = False  # with memoryReservationPolicy: TieredReservation
    pod_pids: int = 0  # podPidsLimit; 0 = none


@dataclass(frozen=True, slots=True)
class Step:
    """Something that the kubelet did, and how long before it nothing happened."""

    what: str
    after_s: float
    failed: str = ""


@dataclass(slots=True)
class Kubelet:
    """One process of it. What outlives it (runtime, checkpoint, the node's pods) is given to the next one by
    `restarted`.
    """

    groups: GroupManager
    runtime: Runtime
    settings: Settings = Settings()
    pods: dict[str, Pod] = field(default_factory=dict)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    now_s: float = 0.0
    said: list[str] = field(default_factory=list)  # failures that it only logs
    ended: dict[str, Pod] = field(default_factory=dict)  # killed, with their groups still there
    _due: dict[str, float] = field(default_factory=dict)
    _cpus: CpuManager = field(init=False)

    def __post_init__(self) -> None:
        self._cpus = CpuManager(self.settings.cpus, self.settings.reserved_cpus, self.checkpoint)

    def restarted(self) -> Kubelet:
        """The next process: containers go on meanwhile. It does nothing before `start`."""
        return Kubelet(
            self.groups, self.runtime, self.settings, self.pods, self.checkpoint, self.now_s, self.said, self.ended
        )

    @property
    def runs(self) -> bool:
        """Whether it has been started."""
        return bool(self._due)

    def start(self) -> None:
        """Raises `Failed` where the real one ends with an error."""
        root = self.settings.root
        node = self._node_resources()
        if not self.groups.exists(root):
            self.groups.create(root, node)
        for name, shares in ((self._of(Qos.BURSTABLE), 0), (self._of(Qos.BEST_EFFORT), 2)):
            asked = Resources(cpu_shares=shares, huge_page_bytes=UNBOUNDED_PAGES)
            try:
                if self.groups.exists(name):
                    self.groups.update(name, asked)
                else:
                    self.groups.create(name, asked)
            except Failed as error:
                raise Failed(f"failed to initialize top level QOS containers: {error}") from error
        # the first update and reconcile come before it knows its pods: a service's class has the least shares until the
        # next pod or minute
        self._try("Failed to reserve QoS requests", lambda: self.update_qos(()))
        self._due = {"minute": self.now_s + QOS_UPDATE_S}
        if self.settings.static_cpus:
            self._due["reconcile"] = self.now_s + RECONCILE_S
        self._limit_node()
        for pod in list(self.pods.values()):
            self._try("Error syncing pod", partial(self.sync, pod))

    def advance(self, seconds: float) -> Iterator[Step]:
        """Let time pass: every periodic step that falls due, and the rest of the time at last."""
        until = self.now_s + seconds
        while (name := min(self._due, key=self._due.__getitem__, default="")) and self._due[name] <= until:
            before, self.now_s = self.now_s, self._due[name]
            failed = ""
            match name:
                case "minute":
                    failed = self._try("Failed to reserve QoS requests", self.update_qos)
                    self._due[name] += QOS_UPDATE_S
                case "reconcile":
                    failed = self.reconcile()
                    self._due[name] += RECONCILE_S
                case _:
                    del self._due[name]
                    failed = self._limit_node()
            yield Step(name, self.now_s - before, failed)
        before, self.now_s = self.now_s, until
        yield Step("nothing", until - before)

    def update_qos(self, known: Iterable[Pod] | None = None) -> None:
        """The classes' weights (and protection), as each minute and before and after each pod. Raises `Failed`."""
        pods = tuple(self.pods.values() if known is None else known)
        burstable = sum(
            container.cpu_request_m for pod in pods if pod.qos is Qos.BURSTABLE for container in pod.containers
        )
        pages = Resources(huge_page_bytes=UNBOUNDED_PAGES)
        asked = {
            Qos.GUARANTEED: pages,
            Qos.BURSTABLE: replace(pages, cpu_shares=shares_of(burstable)),
            Qos.BEST_EFFORT: replace(pages, cpu_shares=2),
        }
        if self.settings.memory_qos and self.groups.version == 2:
            requests = {qos: _memory_requests(pods, qos) for qos in (Qos.GUARANTEED, Qos.BURSTABLE)}
            asked[Qos.GUARANTEED] = replace(pages, unified=(("memory.min", str(sum(requests.values()))),))
            low = ("memory.low", str(requests[Qos.BURSTABLE]))
            asked[Qos.BURSTABLE] = replace(asked[Qos.BURSTABLE], unified=(low,))
        for qos, resources in asked.items():
            self.groups.update(self._of(qos), resources)

    def add(self, pod: Pod) -> None:
        """A pod is bound to this node. Raises `Failed` where it does not run at last."""
        for container in pod.containers if self.settings.static_cpus else ():
            if not self._cpus.take((pod.uid, container.name), container.exclusive_cpus):
                raise Failed(f"UnexpectedAdmissionError: not enough cpus for {container.name}")
        self.pods[pod.uid] = pod
        self.sync(pod)

    def sync(self, pod: Pod) -> None:
        """Bring a pod's group and containers about; nothing where they are. Raises `Failed`; the real one tries
        again later.
        """
        name = self.pod_name(pod)
        if not self.groups.exists(name):
            self._try("Failed to update QoS cgroups while syncing pod", self.update_qos)
            pids = self.settings.pod_pids or None
            self.groups.create(name, replace(resources_of_pod(pod, self._protects, self._owns_cpus(pod)), pids=pids))
        for entry in (SANDBOX, *(container.name for container in pod.containers)):
            if (pod.uid, entry) not in self.runtime.running:
                resources = Resources() if entry == SANDBOX else self._asked_for(pod, entry)
                self.runtime.start(pod.uid, entry, name, resources)
                if resources.cpus:
                    self._cpus.written.pop((pod.uid, entry), None)

    def reconcile(self) -> str:
        """The static CPU manager's ten seconds: what failed, "" if nothing."""
        running = [(pod.uid, container.name) for pod in self.pods.values() for container in pod.containers]
        failed = ""
        for key in self._cpus.due([key for key in running if key in self.runtime.running]):
            cpus = self._cpus.cpus_of(key)
            more = {"cpu_quota_us": -1} if self._cpus.is_exclusive(key) else {}
            update = partial(self.runtime.update, *key, cpus=cpus, **more)
            error = self._try("failed to update container", update)
            failed = failed or error
            if not error:
                self._cpus.written[key] = cpus
        return failed

    def resize(self, uid: str, container: Container) -> None:
        """In-place: memory, then CPU; a pod's group first where it grows, last where it shrinks. Raises `Failed`."""
        old = next(entry for entry in self.pods[uid].containers if entry.name == container.name)
        pod = self.pods[uid].resized(container)
        name, wanted = self.pod_name(pod), resources_of_pod(pod, no_quota=self._owns_cpus(pod))
        asked = resources_of_container(container)
        stands = self._stands(self.groups.path(name))
        if old.memory_limit_bytes != container.memory_limit_bytes:
            memory = wanted.memory_bytes or -1
            self._in_order(
                name,
                [(memory, stands.memory_bytes, Resources(memory_bytes=memory))],
                lambda: self.runtime.update(uid, container.name, memory_bytes=asked.memory_bytes or -1),
            )
        quota = Resources(cpu_quota_us=wanted.cpu_quota_us or -1, cpu_period_us=PERIOD_US)
        self._in_order(
            name,
            [
                (wanted.cpu_quota_us or -1, stands.cpu_quota_us, quota),
                (wanted.cpu_shares, stands.cpu_shares, Resources(cpu_shares=wanted.cpu_shares)),
            ],
            lambda: self.runtime.update(
                uid, container.name, cpu_shares=asked.cpu_shares, cpu_quota_us=quota_of(container.cpu_limit_m) or -1
            ),
        )
        self.pods[uid] = pod

    def remove(self, uid: str) -> None:
        """A pod is deleted or evicted: containers, the classes' weights, then its group."""
        self.kill(uid)
        self.destroy(uid)

    def kill(self, uid: str) -> None:
        """Its containers; the group stays until the pod's volumes are gone."""
        self.runtime.stop(uid)
        self.ended[uid] = self.pods.pop(uid)
        self._cpus.release(uid)
        self._try("Failed to update QoS cgroups while killing pod", self.update_qos)

    def reduce(self, uid: str) -> str:
        """Housekeeping of a dead pod whose volumes are still there: the least shares. What failed; it is only
        logged.
        """
        name = self.pod_name(self.ended[uid])
        least = Resources(cpu_shares=2, huge_page_bytes=0)
        return self._try(
            "Failed to reduce cpu time for pod pending volume cleanup", lambda: self.groups.update(name, least)
        )

    def destroy(self, uid: str) -> None:
        """The dead pod's group."""
        self.groups.remove(self.pod_name(self.ended.pop(uid)))

    def pod_name(self, pod: Pod) -> tuple[str, ...]:
        return (*self._of(pod.qos), f"pod{pod.uid}")

    def path_of(self, qos: Qos) -> str:
        """A class's group, below the tree's root."""
        return self.groups.path(self._of(qos))

    def pod_path(self, uid: str) -> str:
        return self.groups.path(self.pod_name(self.pods[uid]))

    def _of(self, qos: Qos) -> tuple[str, ...]:
        return (*self.settings.root, qos.value) if qos.value else self.settings.root

    @property
    def _protects(self) -> bool:
        return self.settings.memory_qos and self.groups.version == 2

    def _owns_cpus(self, pod: Pod) -> bool:
        return any(self._cpus.is_exclusive((pod.uid, container.name)) for container in pod.containers)

    def _asked_for(self, pod: Pod, name: str) -> Resources:
        container = next(entry for entry in pod.containers if entry.name == name)
        if not self.settings.static_cpus:
            return resources_of_container(container)
        key: Key = (pod.uid, name)
        return resources_of_container(container, self._cpus.cpus_of(key), self._cpus.is_exclusive(key))

    def _node_resources(self) -> Resources:
        """The node's allocatable; without the static policy its CPUs, too, so that systemd makes the controller."""
        cpus = "" if self.settings.static_cpus else format_cpus(self.settings.cpus)
        shares = shares_of(len(self.settings.cpus) * 1000 - self.settings.reserved_cpu_m)
        return Resources(
            cpu_shares=shares,
            memory_bytes=self.settings.memory_bytes,
            pids=self.settings.pids,
            cpus=cpus,
            huge_page_bytes=0,
        )

    def _limit_node(self) -> str:
        failed = self._try(
            "Failed to update Node Allocatable Limits",
            lambda: self.groups.update(self.settings.root, self._node_resources()),
        )
        if failed:
            self._due["node"] = self.now_s + NODE_RETRY_S
        return failed

    def _stands(self, path: str) -> Resources:
        """What the kubelet reads of a pod's group before a resize."""
        values: dict[str, int] = {}
        files = {
            "memory_bytes": ("memory.max", "memory.limit_in_bytes"),
            "cpu_quota_us": ("cpu.max", "cpu.cfs_quota_us"),
            "cpu_shares": ("cpu.weight", "cpu.shares"),
        }
        for field_name, names in files.items():
            found = next(
                folder / name for folder in self.groups.folders(path) for name in names if (folder / name).exists()
            )
            first = found.read_text().split()[0]
            value = -1 if first == "max" else int(first)
            if field_name == "cpu_shares" and self.groups.version == 2:
                value = (value - 1) * 262_142 // 9999 + 2
            values[field_name] = value
        return Resources(**values)  # type: ignore[arg-type]

    def _in_order(
        self, name: tuple[str, ...], changes: list[tuple[int, int, Resources]], containers: Callable[[], None]
    ) -> None:
        def size(value: int) -> float:
            return float("inf") if value < 0 else value

        for wanted, stands, resources in changes:
            if size(wanted) > size(stands):
                self.groups.update(name, resources)
        containers()
        for wanted, stands, resources in reversed(changes):
            if size(wanted) < size(stands):
                self.groups.update(name, resources)

    def _try(self, what: str, step: Callable[[], None]) -> str:
        """Do what the real one survives; what it logs, "" if nothing."""
        try:
            step()
        except Failed as error:
            self.said.append(f"{what}: {error}")
            return self.said[-1]
        return ""


def _memory_requests(pods: Iterable[Pod], qos: Qos) -> int:
    return sum(container.memory_request_bytes for pod in pods if pod.qos is qos for container in pod.containers)
