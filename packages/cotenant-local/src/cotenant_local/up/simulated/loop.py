"""The whole loop on a local cluster: requests of services as spans, agents of simulated nodes, and a neighbour that
hurts a service.

Limits: requests of `MAX_REPLICAS` replicas are sent as spans, the shop's and as many of the workload's services as fit;
the others report their own latency to their node's agent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.verbs.api import Api
from cotenant_local.controllers.runtime.actions import PODS
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes.world import LiveWorld
from cotenant_local.up.config import UpConfig
from cotenant_local.up.simulated.agents import Addresses, SimulatedAgents
from cotenant_local.up.simulated.requests import SERVICE, SimulatedRequests
from cotenant_local.up.simulated.shop import CHECKOUT, REPLICAS, SHOP, Shop

MAX_REPLICAS = 24
AGENTS = "agents"  # the folder of what they keep, in the cluster's directory


class SimulatedLoop:
    """`start` after the workload's services were submitted; `stop`."""

    def __init__(
        self,
        api: Api,
        informers: Informers,
        world: LiveWorld,
        at: Addresses,
        config: UpConfig,
        services: Sequence[Manifest],
    ) -> None:
        self._informers, self._world = informers, world
        traced = measured(services)
        self._traced = {
            (SHOP, CHECKOUT),
            *((entry["metadata"]["namespace"], entry["metadata"]["name"]) for entry in traced),
        }
        nodes = world.config
        agents = SimulatedAgents(informers, world, self._is_traced, _is_shop, at, config.directory / AGENTS)
        self.news = agents.news
        self._parts = (
            SimulatedRequests(world, self._replicas, at.traces, time.time, config.seed),
            agents,
            Shop(
                api,
                config.nodes * nodes.node_cores,
                config.nodes * nodes.node_memory_bytes,
                traced,
                config.speed,
                self._has_checkout,
            ),
        )

    async def start(self) -> None:
        """Begin."""
        for part in self._parts:
            await part.start()

    async def stop(self) -> None:
        """End; agents give back what they hold."""
        for part in reversed(self._parts):
            await part.stop()

    def _is_traced(self, pod: PodObjectView) -> bool:
        return (pod.metadata.namespace, pod.metadata.labels.get(SERVICE, "")) in self._traced

    def _replicas(self) -> list[PodObjectView]:
        pods: list[PodObjectView] = list(self._informers.store(PODS))
        return [pod for pod in pods if self._is_traced(pod) and self._world.knows(pod.metadata.uid)]

    def _has_checkout(self) -> bool:
        pods: list[PodObjectView] = self._informers.store(PODS).by("namespace", SHOP)
        return sum(self._world.queue(pod.metadata.uid) is not None for pod in pods) >= REPLICAS


def _is_shop(pod: PodObjectView) -> bool:
    return pod.metadata.namespace == SHOP


def measured(services: Sequence[Manifest]) -> list[Manifest]:
    """Those of a workload whose requests are sent as spans."""
    left, found = MAX_REPLICAS - REPLICAS, []
    for service in services:
        left -= int(service["spec"]["replicas"])
        if left < 0:
            break
        found.append(service)
    return found
