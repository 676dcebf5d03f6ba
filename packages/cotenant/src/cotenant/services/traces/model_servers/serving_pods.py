"""The replicas of model servers, found by the labels of the cluster's pods.

A pod is read from the first time that it is ready: before, a server loads its model and answers nobody. One that stops
being ready is read on, since an overloaded server fails its probe just when its figures matter, until it has ended.
Limits: beyond `MAX_SERVERS` replicas, in the order of namespaces and names, none is read, so that many pods of one
namespace crowd out those of later ones; that is logged and counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cotenant.drivers.kube.kinds.pod.serving import SERVING_PODS, ServingPod, read_serving_pod
from cotenant.services.kube_process.watches import ObjectHandler, Watches
from cotenant.services.traces.model_servers.server_file import MAX_SERVERS, ModelServer, ModelServerFile, ServingPods

_log = logging.getLogger(__name__)


class FoundServers(Collector):
    """Gives `follow` all servers, those that are named by address among them, whenever there are others."""

    def __init__(self, file: ModelServerFile, follow: Callable[[Sequence[ModelServer]], None]) -> None:
        self._file, self._follow = file, follow
        self._pods: dict[str, ServingPod] = {}  # that were ready once
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
        elif any(pods.namespace == pod.namespace and pods.selects(pod.labels) for pods in self._file.pods) or same:
            self._pods[pod.key] = pod
            self._changed()

    def gone(self, key: str) -> None:
        """A pod that is no more."""
        if self._pods.pop(key, None) is not None:
            self._changed()

    def _changed(self) -> None:
        by_url = {server.url: server for server in self._file.servers}
        for key in sorted(self._pods):
            for server in _served(self._pods[key], self._file.pods):
                by_url.setdefault(server.url, server)
        found = tuple(by_url.values())
        left_out = max(0, len(found) - MAX_SERVERS)
        if left_out and not self._left_out:
            _log.warning("%d model servers are not read: at most %d are", left_out, MAX_SERVERS)
        self._left_out = left_out
        if found[:MAX_SERVERS] != self._followed:
            self._followed = found[:MAX_SERVERS]
            self._follow(self._followed)

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
            yield ModelServer(pods.service, pods.at(pod.address), pod.name, pod.node)
