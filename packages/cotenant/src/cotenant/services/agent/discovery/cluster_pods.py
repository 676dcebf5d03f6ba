"""The agent's watches of a Kubernetes cluster: the pods that are bound to its node, and the node's allocatable.

The API server knows requests, priorities, labels and objectives, the machine knows which cgroups exist, and either may
be away. A watch of this node's pods keeps what they declare, and discovery joins it with the cgroups that the kubelet's
tree or the container runtime show, so that an API server that is away costs updates only.
Limits: until the first list is complete, pods are known by their cgroups alone: by their QoS class, without an
objective, and none of them is evicted.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.custom.autonomy import AUTONOMIES, read_autonomy
from cotenant.drivers.kube.kinds.node import NODES, allocatable_of, kubelet_version
from cotenant.drivers.kube.kinds.pod.on_node import NODE_PODS, declared_pods
from cotenant.drivers.kubelet.declared import NO_SEAL, Belief, join
from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.node.interfaces import PodDiscovery
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import Allocatable
from cotenant.services.kube_process.watches import ObjectHandler, Watches


class ClusterPods:
    """Meets `PodDiscovery` (engine/node/interfaces.py) over another one that finds cgroups. Start `run` as a task."""

    def __init__(
        self, client: Client, node: str, groups: PodDiscovery, changed: Callable[[], None], belief: Belief = NO_SEAL
    ) -> None:
        """`changed` is called after each delivery of the watch. `belief`: in what pods say that they hold."""
        self._groups = groups
        self._belief = belief
        self._watches = Watches(client, delivered=changed)
        self._pods = self._watches.keep(NODE_PODS, field_selector=f"spec.nodeName={node}")

    async def run(self) -> None:
        """Watch, until cancelled. Errors of the API server never end it."""
        await self._watches.run()

    async def pods(self) -> tuple[NodePod, ...]:
        """The cgroups that exist, with what their pods declare. Raises as the other discovery does."""
        found = await self._groups.pods()
        return join(found, declared_pods(self._pods.cache), self._belief)


class ClusterNode:
    """The node's own object. Start `run` as a task."""

    def __init__(self, client: Client, node: str) -> None:
        self._watches = Watches(client)
        self._node = self._watches.keep(NODES, field_selector=f"metadata.name={node}")

    async def run(self) -> None:
        """Watch, until cancelled. Errors of the API server never end it."""
        await self._watches.run()

    def allocatable(self) -> Allocatable | None:
        """As last observed; None before the first list."""
        return next((allocatable_of(node) for node in self._node.cache), None)

    def kubelet_version(self) -> tuple[int, int] | None:
        """As last observed; None before the first list."""
        return next((kubelet_version(node) for node in self._node.cache), None)


class ClusterAutonomy:
    """What may act, as the cluster's Autonomy objects say. Start `run` as a task. While the API server is away, what
    was observed last stays in force; before the first answer nothing may be begun, since a freeze may be stored there.
    An answer that there is no such kind, or no right to read it, is one: then nothing is held back.
    """

    def __init__(self, client: Client) -> None:
        self._watches = Watches(client)
        self.permissions = Permissions(lambda: self._watches.synced)
        self._watches.handle(
            AUTONOMIES,
            ObjectHandler(read_autonomy, self.permissions.seen, self.permissions.gone),
            optional=True,
            until_open=True,
        )

    async def run(self) -> None:
        """Watch, until cancelled. Errors of the API server never end it."""
        await self._watches.run()
