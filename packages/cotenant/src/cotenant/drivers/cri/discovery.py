"""Discovery of pods from the container runtime and the cgroup tree together.

The runtime knows names, labels and annotations, the tree knows groups. Groups by container IDs in the tree's names;
where a runtime puts containers elsewhere, by the first process's line in /proc, read once per container. A pod is
described by its newest sandbox; pods of the tree that the runtime does not know keep the tree's data, since a pod that
vanishes loses its protection.
Limits: memory requests and priorities are only in the API (`drivers/kubelet/declared.join`).

Source: Kubernetes cri-api; kubelet's labels `io.kubernetes.*`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from cotenant.drivers.cri.client import ContainerLimits, CriClient, RunningContainer, Sandbox
from cotenant.drivers.kubelet.declared import NO_SEAL, Belief, DeclaredContainer, DeclaredPod, merged
from cotenant.drivers.kubelet.tree import KubepodsTree
from cotenant.model.cluster.labels import Labels
from cotenant.model.errors import Unsupported
from cotenant.model.machine.knob import Vanished
from cotenant.model.machine.node_pod import NodeContainer, NodePod, NodePodPhase

UID = "io.kubernetes.pod.uid"
_UNKNOWN = ContainerLimits(None, None, None, None)


class CriPods:
    """Implements engine/node/interfaces.PodDiscovery. `tree` None: no kubelet groups here, every group is read from
    /proc.
    """

    def __init__(
        self, client: CriClient, tree: KubepodsTree | None, proc_root: str = "/proc", belief: Belief = NO_SEAL
    ) -> None:
        self._client = client
        self._tree = tree
        self._belief = belief
        self._proc = Path(proc_root)
        self._limits: dict[str, tuple[str, ContainerLimits]] = {}  # by container: its group and resources
        self._addresses: dict[str, tuple[str, ...]] = {}  # by sandbox
        self._sandboxes: dict[str, str] = {}  # by pod's UID

    async def pods(self) -> tuple[NodePod, ...]:
        """All pods that have a group. Raises `Transient` where the runtime is unavailable."""
        return await asyncio.to_thread(self.read)

    def read(self) -> tuple[NodePod, ...]:
        """The same, blocking. Not thread-safe."""
        sandboxes = _newest(self._client.sandboxes())
        running = self._client.containers()
        found = {pod.uid: pod for pod in self._of_tree()}
        by_sandbox: dict[str, list[RunningContainer]] = {}
        for container in running:
            by_sandbox.setdefault(container.sandbox_id, []).append(container)
        pods: list[NodePod] = []
        seen: dict[str, tuple[str, ContainerLimits]] = {}
        for uid, sandbox in sorted(sandboxes.items()):
            in_tree = found.pop(uid, None)
            pod = self._pod(sandbox, by_sandbox.get(sandbox.id, []), in_tree, seen)
            if pod is not None:
                pods.append(pod)
        self._limits = seen
        self._sandboxes = {uid: sandbox.id for uid, sandbox in sandboxes.items() if sandbox.ready}
        self._addresses = {
            address: found_addresses
            for address, found_addresses in self._addresses.items()
            if address in set(self._sandboxes.values())
        }
        return (*pods, *found.values())

    def addresses(self) -> Mapping[str, tuple[str, ...]]:
        """The source addresses of the pods of the last reading, by UID. Blocking; each pod is queried once."""
        for sandbox in self._sandboxes.values():
            if sandbox not in self._addresses:
                try:
                    self._addresses[sandbox] = self._client.network(sandbox).addresses
                except Vanished:
                    continue
        found_addresses = {uid: self._addresses.get(sandbox, ()) for uid, sandbox in self._sandboxes.items()}
        return MappingProxyType({uid: addresses for uid, addresses in found_addresses.items() if addresses})

    def _of_tree(self) -> tuple[NodePod, ...]:
        if self._tree is None:
            return ()
        try:
            return self._tree.read()
        except Unsupported:
            return ()  # this runtime's groups are elsewhere

    def _pod(
        self,
        sandbox: Sandbox,
        running: list[RunningContainer],
        in_tree: NodePod | None,
        seen: dict[str, tuple[str, ContainerLimits]],
    ) -> NodePod | None:
        # The sandbox looks like a container in the tree, but is not one.
        in_groups = () if in_tree is None else tuple(c for c in in_tree.containers if c.container_id != sandbox.id)
        known = {container.container_id for container in in_groups}
        containers = list(in_groups)
        declared: list[DeclaredContainer] = []
        for one in running:
            group, limits = self._limits.get(one.id) or self._inspect(one.id, needs_group=one.id not in known)
            seen[one.id] = (group, limits)
            if one.id not in known:
                containers.append(NodeContainer(one.name, group, one.id))
            declared.append(
                DeclaredContainer(
                    one.name, one.id, limits.cpu_request_m, limits.cpu_limit_m, None, limits.memory_limit_bytes
                )
            )
        if in_tree is None:
            group = next((c.group.rpartition("/")[0] for c in containers if c.group), "")
            if not group:
                return None
            in_tree = NodePod(sandbox.uid, sandbox.namespace, sandbox.name, group)
        declared_pod = DeclaredPod(
            uid=sandbox.uid,
            namespace=sandbox.namespace,
            name=sandbox.name,
            labels=sandbox.labels,
            annotations=sandbox.annotations,
            containers=tuple(declared),
            phase=NodePodPhase.RUNNING if sandbox.ready else NodePodPhase.OVER,
            created_s=sandbox.created_at_ns / 1e9,
        )
        return merged(replace(in_tree, containers=tuple(containers)), declared_pod, self._belief)

    def _inspect(self, container_id: str, *, needs_group: bool) -> tuple[str, ContainerLimits]:
        """For a new container: its group where the tree does not have it, and its limits."""
        try:
            limits = self._client.limits(container_id)
        except Vanished:
            return "", _UNKNOWN
        return (self._group_of(limits.pid) if needs_group and limits.pid is not None else ""), limits

    def _group_of(self, pid: int) -> str:
        try:
            lines = (self._proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return group_of_process(lines)


def group_of_process(lines: Iterable[str]) -> str:
    """A process's group from the lines of its /proc/PID/cgroup: that of the CPU controller, else that of the v2
    tree; "" = the root.
    """
    unified = ""
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        group = path.strip("/")
        if ".." in group.split("/"):
            continue  # outside of this process's cgroup namespace
        if "cpu" in controllers.split(","):
            return group
        if controllers == "":
            unified = group
    return unified


def _newest(sandboxes: Iterable[Sandbox]) -> dict[str, Sandbox]:
    """The effective sandbox by UID: a ready one before others, then the newest."""
    newest: dict[str, Sandbox] = {}
    for one in sandboxes:
        uid = one.uid or one.labels.get(UID) or ""
        other = newest.get(uid)
        if uid and (other is None or (one.ready, one.created_at_ns) > (other.ready, other.created_at_ns)):
            newest[uid] = replace(one, uid=uid, labels=_without_kubelet_labels(one.labels))
    return newest


def _without_kubelet_labels(labels: Labels) -> Labels:
    """The labels without those that kubelet adds for itself."""
    return Labels(tuple(pair for pair in labels if not pair[0].startswith("io.kubernetes.")))
