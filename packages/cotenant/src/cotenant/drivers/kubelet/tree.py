"""Discovery of pods from the cgroup tree alone.

With kubelet, runtime and API server all unavailable, the running pods and those that must not be throttled still have
to be known. Kubelet's own groups: the class from the pod's parent folder, containers from the groups below it, their
limits from the files. The numbers are read when a group is first seen and kept while it is the same group: later they
may be ours, and a limit derived from our own quota would grow with it. Knobs that an earlier agent left held are known
from its leases (`held`), which have the original values.
Limits: no names, labels or priorities; a sandbox counts as a container; memory requests are not in any file; a CPU
request is as exact as the weight that it was converted to. An in-place resize is seen only by sources that read the API
or the runtime.

Source: kubelet's conversion of requests to shares; runc's of shares to weights (2..262144 onto 1..10000).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from cotenant.drivers.cgroup.files import CgroupTree, parts_of
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.translation import MAX_SHARES, MIN_SHARES, cpu_max_of, memory_max_of, shares_of
from cotenant.drivers.kubelet.roots import find_roots
from cotenant.model.cluster.qos import QoSClass, effective_class, effective_qos, raw_class
from cotenant.model.errors import InvalidInput, Transient, Unsupported
from cotenant.model.kubelet.group_names import ContainerGroup, PodCgroup, best_effort_group, read_group
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget
from cotenant.model.machine.knob_values import CpuMax, parse_bytes, parse_cpu_max
from cotenant.model.machine.node_pod import NodeContainer, NodePod

_MAX_WEIGHT = 10_000


@dataclass(frozen=True, slots=True)
class _Amounts:
    """A container's resources when its group was first seen."""

    cpu_request_m: int = 0
    cpu_limit_m: int = 0
    memory_limit_bytes: int = 0


class KubepodsTree:
    """Implements engine/node/interfaces.PodDiscovery; several discoveries may share one. Holds one descriptor per tree
    until `close`.
    """

    def __init__(self, layout: CgroupLayout) -> None:
        self._layout = layout
        self._trees: dict[str, CgroupTree] = {}
        self._amounts: dict[tuple[str, int], _Amounts] = {}  # by group and its inode
        self._held: Mapping[KnobTarget, str] = {}  # original values of leases, as last set ...
        self._before: Mapping[KnobTarget, str] = self._held  # ... and as of the last reading
        self._roots: tuple[str, ...] = ()
        self._listed: frozenset[str] = frozenset()  # groups of classes and pods, as of the last listing
        self._lock = threading.Lock()
        names = layout.by_controller.get("cpu") or layout.unified or layout.hierarchies[0]
        self._first = self._tree_at(names.path)

    def close(self) -> None:
        """Close the trees."""
        for tree in self._trees.values():
            tree.close()
        self._trees.clear()

    def held(self, leases: Sequence[KnobLease]) -> None:
        """Set the keeper's leases: from the next reading on, the original values count for these knobs, not the
        current ones.
        """
        self._held = {lease.target: lease.before for lease in leases}

    async def pods(self) -> tuple[NodePod, ...]:
        """All pods of kubelet's groups. Raises `Transient` where the tree cannot be read, `Unsupported` where
        kubelet has no group.
        """
        return await asyncio.to_thread(self.read)

    def read(self) -> tuple[NodePod, ...]:
        """The same, blocking."""
        with self._lock:
            return self._read()

    def _read(self) -> tuple[NodePod, ...]:
        self._roots = find_roots(self._children)
        if not self._roots:
            raise Unsupported("pods by their cgroups", "a kubelet's group (kubepods) in the cgroup tree")
        pods: dict[str, PodCgroup] = {}
        containers: dict[str, list[ContainerGroup]] = {}
        for root in self._roots:
            for group in self._below(root):
                match read_group(group):
                    case PodCgroup() as pod:
                        pods[pod.uid] = pod
                    case ContainerGroup() as container:
                        containers.setdefault(container.pod.uid, []).append(container)
        if self._before is not self._held:
            self._before = self._held
            groups = {target.group for target in self._before}
            self._amounts = {key: amounts for key, amounts in self._amounts.items() if key[0] not in groups}
        kept: dict[tuple[str, int], _Amounts] = {}
        found = tuple(self._pod(pod, containers.get(uid, []), kept) for uid, pod in sorted(pods.items()))
        self._amounts = kept  # entries of gone groups are dropped
        return found

    def changed(self) -> bool:
        """Whether pods' groups were created or deleted since the last call: a listing of three folders, cheap enough
        for every half second.

        False while kubelet's root is not known, and where the tree cannot be read: the next reading reports it.
        """
        listed: set[str] = set()
        try:
            for root in self._roots:
                for first in self._children(root):
                    listed.add(first)
                    if not isinstance(read_group(first), PodCgroup):
                        listed.update(self._children(first))
        except Transient:
            return False
        before, self._listed = self._listed, frozenset(listed)
        return self._listed != before

    def best_effort_group(self) -> str | None:
        """The group that holds all best-effort pods, as of the last reading; None where there is none."""
        for root in self._roots:
            group = best_effort_group(root)
            if self._first.exists(group):
                return group
        return None

    def _below(self, root: str) -> Iterator[str]:
        """Groups of classes, pods and containers, without those below containers."""
        for first in self._children(root):
            yield first
            for second in self._children(first):
                yield second
                if isinstance(read_group(second), PodCgroup):
                    yield from self._children(second)

    def _children(self, group: str) -> list[str]:
        try:
            return [f"{group}/{name}" if group else name for name in self._first.children(group)]
        except FileNotFoundError:
            return []  # gone meanwhile
        except OSError as error:
            raise Transient(f"cgroup /{group}: {error.strerror}") from error

    def _pod(self, pod: PodCgroup, containers: list[ContainerGroup], kept: dict[tuple[str, int], _Amounts]) -> NodePod:
        qos = effective_qos(QoSClass.NONE, pod.qos)
        band = effective_class(raw_class(None, None), qos)
        return NodePod(
            uid=pod.uid,
            namespace="",
            name=pod.uid,
            group=pod.group,
            qos=qos,
            kubernetes_qos=pod.qos,
            priority_class=band,
            containers=tuple(self._container(one, kept) for one in sorted(containers, key=lambda one: one.group)),
            is_named=False,
        )

    def _container(self, one: ContainerGroup, kept: dict[tuple[str, int], _Amounts]) -> NodeContainer:
        key = (one.group, self._inode(one.group))
        amounts = kept[key] = self._amounts.get(key) or self._read_amounts(one.group)
        return NodeContainer(
            name=one.container_id[:12],
            group=one.group,
            container_id=one.container_id,
            cpu_request_m=amounts.cpu_request_m,
            cpu_limit_m=amounts.cpu_limit_m,
            memory_limit_bytes=amounts.memory_limit_bytes,
        )

    def _inode(self, group: str) -> int:
        with suppress(OSError), self._first.folder(parts_of(group)) as at:
            return os.fstat(at).st_ino
        return 0

    def _read_amounts(self, group: str) -> _Amounts:
        request = limit = memory = 0
        with suppress(OSError, InvalidInput, ValueError):
            request = _request_of_shares(self._shares(group))
        with suppress(OSError, InvalidInput, ValueError):
            limit = self._cpu_max(group).cpu_m or 0
        with suppress(OSError, InvalidInput, ValueError):
            before = self._before.get(KnobTarget(group, Knob.MEMORY_MAX))
            if before:
                text = before
            elif self._layout.version("memory") == 1:
                text = memory_max_of(self._text("memory", group, "memory.limit_in_bytes"))
            else:
                text = self._text("memory", group, "memory.max")
            memory = parse_bytes(Knob.MEMORY_MAX, text) or 0
        return _Amounts(request, limit, memory)

    def _shares(self, group: str) -> int:
        before = self._before.get(KnobTarget(group, Knob.CPU_WEIGHT))
        if self._layout.version("cpu") == 1:
            return shares_of(int(before)) if before else int(self._text("cpu", group, "cpu.shares"))
        weight = int(before or self._text("cpu", group, "cpu.weight"))
        return MIN_SHARES + (weight - 1) * (MAX_SHARES - MIN_SHARES) // (_MAX_WEIGHT - 1)

    def _cpu_max(self, group: str) -> CpuMax:
        before = self._before.get(KnobTarget(group, Knob.CPU_MAX))
        if not before and self._layout.version("cpu") == 1:
            return cpu_max_of(
                self._text("cpu", group, "cpu.cfs_quota_us"), self._text("cpu", group, "cpu.cfs_period_us")
            )
        return parse_cpu_max(before or self._text("cpu", group, "cpu.max"))

    def _text(self, controller: str, group: str, name: str) -> str:
        hierarchy = self._layout.by_controller.get(controller)
        if hierarchy is None:
            raise FileNotFoundError(name)
        return self._tree_at(hierarchy.path).read(group, name)

    def _tree_at(self, path: str) -> CgroupTree:
        tree = self._trees.get(path)
        if tree is None:
            try:
                tree = self._trees[path] = CgroupTree(path)
            except OSError as error:
                raise Unsupported(f"cgroups at {path}", f"a tree that can be opened: {error.strerror}") from error
        return tree


def _request_of_shares(shares: int) -> int:
    """The milli-CPU that kubelet converted to these shares. The minimum means no request."""
    return 0 if shares <= MIN_SHARES else (shares * 1000 + 512) // 1024
