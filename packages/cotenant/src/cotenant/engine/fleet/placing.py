"""Which host each container of a group goes to, by the scheduling engine: hosts as nodes, containers as pods, the same
filters and scores.

Where one host is all there is to choose from, it is chosen, and its agent says whether there is room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import Permanent
from cotenant.model.fleet.host import HostContainer
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate, host_port
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, Amounts

if TYPE_CHECKING:
    from cotenant.engine.cluster import Cluster

PROFILE = "kube-default"
_TAG = "tag/"


@dataclass(frozen=True, slots=True)
class HostRoom:
    """A host that may be used, and what is on it."""

    agent: str
    cpu_milli: int
    memory_bytes: int
    tags: tuple[str, ...] = ()
    containers: tuple[HostContainer, ...] = ()


def place(template: GroupTemplate, rooms: Sequence[HostRoom], seed: int = 0) -> Mapping[str, str]:
    """Agent by appkey. Raises `Permanent` that names the container and why no host takes it."""
    if not rooms:
        raise Permanent("no host of this fleet is alive and may be used")
    if len(rooms) == 1:
        return _on_one(template, rooms[0])
    return _by_engine(template, rooms, seed)


def check_volumes(template: GroupTemplate, hosts: Mapping[str, Sequence[str]]) -> None:
    """A named volume is on one host, so that what is written to it is found again: `hosts` (tags by agent) are all that
    there are, also those that are away. Raises `Permanent`.
    """
    places: dict[str, tuple[str, str]] = {}
    for container in template.containers:
        fit = sorted(agent for agent, tags in hosts.items() if set(container.host_tags) <= {*tags})
        for mount in container.mounts:
            if not mount.is_volume or not fit:
                continue
            if len(fit) > 1:
                said = f"{len(fit)} hosts may run it ({', '.join(fit[:3])})"
                raise Permanent(
                    f"{container.appkey}: volume {mount.source} is on one host, and {said}: name a tag that one has, "
                    "by `x-tags`"
                )
            other, agent = places.setdefault(mount.source, (container.appkey, fit[0]))
            if agent != fit[0]:
                raise Permanent(
                    f"{container.appkey}: volume {mount.source} is that of {other} on {agent}, and this runs on "
                    f"{fit[0]}: give both the same `x-tags`"
                )


def _by_engine(template: GroupTemplate, rooms: Sequence[HostRoom], seed: int) -> Mapping[str, str]:
    import numpy as np  # the engine loads compiled code: a fleet of one host never needs it

    from cotenant.engine.cluster import Cluster
    from cotenant.engine.framework.instructions import Bind, Unschedulable
    from cotenant.policy.placement.profiles import profile

    cluster = Cluster(profile(PROFILE), np.random.default_rng(seed))
    for room in rooms:
        amounts = Amounts.of({CPU_NAME: max(room.cpu_milli, 1), MEMORY_NAME: max(room.memory_bytes, 1)})
        cluster.node_seen(Node(room.agent, amounts, labels=Labels.of({f"{_TAG}{tag}": "1" for tag in room.tags})))
        for status in room.containers:
            cluster.pod_seen(_seen(cluster, _existing(status), status.guid, room.agent), 0.0)
    for container in template.containers:
        cluster.pod_seen(_seen(cluster, _pod(container), container.appkey), 0.0)
    placed: dict[str, str] = {}
    for instruction in cluster.decide(0.0):
        match instruction:
            case Bind(uid=uid, node=node):
                placed[uid] = node
            case Unschedulable(uid=uid, message=message):
                raise Permanent(f"{uid}: {message.replace('nodes are', 'hosts are').replace('node(s)', 'host(s)')}")
    for container in template.containers:
        if container.appkey not in placed:
            raise Permanent(f"{container.appkey}: no host takes it")
    return placed


def _on_one(template: GroupTemplate, room: HostRoom) -> Mapping[str, str]:
    for container in template.containers:
        lacking = [tag for tag in container.host_tags if tag not in room.tags]
        if lacking:
            raise Permanent(f"{container.appkey}: the only host, {room.agent}, has no tag {', '.join(lacking)}")
    return {container.appkey: room.agent for container in template.containers}


def _seen(cluster: Cluster, pod: Pod, uid: str, node: str = "") -> ObservedPod:
    return ObservedPod(pod, uid, cluster.settings.scheduler, 0.0, node=node)


def _pod(container: ContainerTemplate) -> Pod:
    return Pod(
        container.appkey,
        requests=_requests(container.cpu_milli, container.memory_bytes),
        node_selector=Labels.of({f"{_TAG}{tag}": "1" for tag in container.host_tags}),
        host_ports=tuple(host_port(port.taken) for port in container.ports),
    )


def _existing(status: HostContainer) -> Pod:
    return Pod(
        status.guid,
        namespace="there",
        requests=_requests(status.cpu_request_milli, status.memory_request_bytes),
        host_ports=tuple(host_port(port) for port in status.host_ports),
    )


def _requests(cpu_milli: int, memory_bytes: int) -> Amounts:
    amounts = {CPU_NAME: cpu_milli, MEMORY_NAME: memory_bytes}
    return Amounts.of({name: amount for name, amount in amounts.items() if amount})
