"""What simulated nodes and pods use, for `kubectl top` and autoscalers.

The API shows usage by container, the world computes it by pod. The world's present figures; a pod's usage is divided
among its containers by their requests, equally where there are none.
Limits: a node's usage is that of its pods; a simulated system uses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, NOTHING, Amounts
from cotenant_local.apiserver.http.resource_metrics import MeasuredUsage, ResourceUsage
from cotenant_local.controllers.runtime.actions import NODES, PODS
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.views.nodes import NodeObjectView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.workloads.replica_count import MetricPodUse
from cotenant_local.nodes.kubelets import Kubelets


class FleetUsage:
    """The usage of a fleet (a `UsageSource`). Reads the informers' caches."""

    def __init__(self, informers: Informers, kubelets: Kubelets, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._informers = informers
        self._kubelets = kubelets
        self.window_s = 1.0  # the figures are of this moment; the API has no shorter window

    def uses(self, pods: Iterable[PodObjectView]) -> dict[str, MetricPodUse]:
        """What autoscalers go by: the use now of those of these pods that run, by name."""
        now_s, found = self._clock(), {}
        for pod in pods:
            used = self._kubelets.world.pod_usage(pod.metadata.uid)
            if used is not None:
                amounts = {
                    name: {CPU_NAME: round(usage.cpu_cores * 1e3), MEMORY_NAME: round(usage.memory_bytes) * 1000}
                    for name, usage in _by_container(pod, *used).items()
                }
                found[pod.metadata.name] = MetricPodUse(amounts, now_s, self.window_s)
        return found

    def nodes(self) -> Iterator[MeasuredUsage]:
        """Every simulated node that is powered on, in order of name."""
        world = self._kubelets.world
        nodes: list[NodeObjectView] = sorted(self._informers.store(NODES), key=lambda node: node.metadata.name)
        for node in nodes:
            name = node.metadata.name
            if self._kubelets.has(name) and self._kubelets.is_up(name):
                yield MeasuredUsage("", name, node.metadata.labels, {"": ResourceUsage(*world.node_usage(name))})

    def pods(self, namespace: str) -> Iterator[MeasuredUsage]:
        """Every pod that runs on a simulated node, in order of namespace and name."""
        store = self._informers.store(PODS)
        pods: list[PodObjectView] = store.by("namespace", namespace) if namespace else list(store)
        for pod in sorted(pods, key=lambda pod: pod.metadata.key):
            used = self._kubelets.world.pod_usage(pod.metadata.uid)
            if used is not None:
                usage = _by_container(pod, *used)
                yield MeasuredUsage(pod.metadata.namespace, pod.metadata.name, pod.metadata.labels, usage)


def _by_container(pod: PodObjectView, cores: float, memory: float) -> dict[str, ResourceUsage]:
    names = [container.name for container in pod.spec.containers]
    requests = []
    for container in pod.spec.containers:
        try:
            requests.append(Amounts.parse(container.resources.requests))
        except InvalidInput:
            requests.append(NOTHING)
    cpu = _shares([amounts.get(CPU_NAME) for amounts in requests])
    room = _shares([amounts.get(MEMORY_NAME) for amounts in requests])
    return {name: ResourceUsage(cores * a, memory * b) for name, a, b in zip(names, cpu, room, strict=True)}


def _shares(amounts: list[int]) -> list[float]:
    total = sum(amounts)
    return [amount / total if total else 1.0 / len(amounts) for amount in amounts]
