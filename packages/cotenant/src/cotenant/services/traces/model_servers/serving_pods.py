"""The replicas of model servers, found by the labels of the cluster's pods.

A pod is read from the first time that it is ready: before, a server loads its model and answers nobody. One that stops
being ready is read on, since an overloaded server fails its probe just when its figures matter, until it has ended.
Limits: at most `MAX_SERVERS` are read. Those that the file names come first; of the others, namespaces take places in
turn, within one its services, within one its replicas by name. So no namespace's pods crowd out another's. What is left
out is logged and counted.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cotenant.drivers.kube.kinds.pod.serving import SERVING_PODS, ServingPod, read_serving_pod
from cotenant.services.kube_process.watches import ObjectHandler, Watches
from cotenant.services.traces.model_servers.server_file import MAX_SERVERS, ModelServer, ModelServerFile, ServingPods

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Replica:
    """A pod that was ready once, and what it serves now."""

    uid: str
    servers: tuple[ModelServer, ...]


class FoundServers(Collector):
    """Gives `follow` all servers, those that are named by address among them, whenever there are others."""

    def __init__(self, file: ModelServerFile, follow: Callable[[Sequence[ModelServer]], None]) -> None:
        self._file, self._follow = file, follow
        self._pods: dict[str, _Replica] = {}
        # of each service, in the order of namespaces: what its pods serve, by name
        services = sorted({pods.service for pods in file.pods}, key=lambda service: service.split("/"))
        self._services: dict[str, list[ModelServer]] = {service: [] for service in services}
        self._urls = Counter(server.url for server in file.servers)
        self._followed: tuple[ModelServer, ...] = file.servers
        self._left_out = 0

    def watch(self, watches: Watches) -> None:
        """Watch the pods of the namespaces; before the watches run."""
        for namespace in sorted({pods.namespace for pods in self._file.pods}):
            handler = ObjectHandler(read_serving_pod, self.seen, self.gone)
            watches.handle(SERVING_PODS, handler, namespace=namespace, optional=True)

    def seen(self, pod: ServingPod) -> None:
        """A pod as it is now."""
        known = self._pods.get(pod.key)
        same = known is not None and known.uid == pod.uid
        if pod.ended or not pod.address or not (pod.is_ready or same):
            self.gone(pod.key)
            return
        servers = tuple(dict.fromkeys(_served(pod, self._file.pods)))
        self._put(pod.key, _Replica(pod.uid, servers) if servers or same else None)

    def gone(self, key: str) -> None:
        """A pod that is no more."""
        self._put(key, None)

    def _put(self, key: str, replica: _Replica | None) -> None:
        known = self._pods.pop(key, None)
        if replica is not None:
            self._pods[key] = replica
        before, after = known.servers if known else (), replica.servers if replica else ()
        if before == after:
            return
        for server in before:
            of_service = self._services[server.service]
            del of_service[bisect_left(of_service, _place(server), key=_place)]
            self._urls[server.url] -= 1
            if not self._urls[server.url]:
                del self._urls[server.url]
        for server in after:
            insort(self._services[server.service], server, key=_place)
            self._urls[server.url] += 1
        self._changed()

    def _changed(self) -> None:
        by_url = {server.url: server for server in self._file.servers}
        for server in self._in_turn():
            if len(by_url) == MAX_SERVERS:
                break
            by_url.setdefault(server.url, server)
        left_out = len(self._urls) - len(by_url)
        if left_out and not self._left_out:
            _log.warning("%d model servers are not read: at most %d are", left_out, MAX_SERVERS)
        self._left_out = left_out
        followed = tuple(by_url.values())
        if followed != self._followed:
            self._followed = followed
            self._follow(followed)

    def _in_turn(self) -> Iterator[ModelServer]:
        by_namespace = groupby(self._services, key=lambda service: service.partition("/")[0])
        return _turns([_turns([iter(self._services[service]) for service in of]) for _, of in by_namespace])

    def collect(self) -> Iterator[Metric]:
        """How many there are."""
        family = GaugeMetricFamily(
            "cotenant_model_servers", "Model servers, by whether they are read.", labels=("read",)
        )
        family.add_metric(("True",), len(self._followed))
        family.add_metric(("False",), self._left_out)
        yield family


def _served(pod: ServingPod, all_pods: Sequence[ServingPods]) -> Iterator[ModelServer]:
    for pods in all_pods:
        if pods.namespace == pod.namespace and pods.selects(pod.labels):
            yield pods.server(pod.address, pod.name, pod.node)


def _place(server: ModelServer) -> tuple[str, str]:
    return server.pod, server.url


def _turns(queues: Iterable[Iterator[T]]) -> Iterator[T]:
    """The first of each queue, then the second of each that has one, and so on."""
    waiting = deque(queues)
    while waiting:
        queue = waiting.popleft()
        for first in queue:
            yield first
            waiting.append(queue)
            break
