"""What a node's agent has to do with a Kubernetes cluster: the pods that the API server declares for its node, and what the node has to give them.

Problem: the API server knows requests, priorities, labels and objectives, the node knows which groups are there; either may be away. Choice: a watch of
this node's pods keeps what is declared, and discovery lays it over the groups that kubelet's tree or the container runtime show, so that a cluster that is away
costs nothing but news. Limits: until the first list has come, pods are known by their groups alone: by Kubernetes' own class, without an objective.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cotenant.drivers.kube.cache.cache import Happening
from cotenant.drivers.kube.cache.reflector import Reflector
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.node_allocatable import allocatable_of
from cotenant.drivers.kube.kinds.node_pods import NODE_PODS, NodePodObject, declared
from cotenant.drivers.kube.kinds.objects import NODES
from cotenant.drivers.kubelet.declared import join
from cotenant.engine.node.interfaces import Discovery
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import Allocatable


class ClusterPods:
    """Meets engine/node/interfaces.Discovery over another one that finds groups. `run` it as a task."""

    def __init__(self, client: Client, node: str, groups: Discovery, changed: Callable[[], None]) -> None:
        """`changed` is called when the server has news."""
        self._groups = groups
        self._changed = changed
        self._reflector = Reflector(client, NODE_PODS, self._hear, field_selector=f"spec.nodeName={node}")

    async def run(self) -> None:
        """Watch, until cancelled. Errors of the server never end it."""
        await self._reflector.run()

    async def pods(self) -> tuple[NodePod, ...]:
        """The groups that are there, with what is declared. Raises as the other does."""
        found = await self._groups.pods()
        return join(found, [declared(obj) for obj in self._reflector.cache])

    def _hear(self, happened: Sequence[Happening[NodePodObject]]) -> None:
        self._changed()


class ClusterNode:
    """The node's own object. `run` it as a task."""

    def __init__(self, client: Client, node: str) -> None:
        self._reflector = Reflector(client, NODES, lambda happened: None, field_selector=f"metadata.name={node}")

    async def run(self) -> None:
        """Watch, until cancelled. Errors of the server never end it."""
        await self._reflector.run()

    def allocatable(self) -> Allocatable | None:
        """As last heard; None before that."""
        return next((allocatable_of(node) for node in self._reflector.cache), None)
