"""The resource metrics API (`metrics.k8s.io/v1beta1`), for `kubectl top nodes` and `kubectl top pods`.

What nodes and pods use changes continuously and is not an object to store. Computed for each request from a source of
usage, in the form of metrics-server; nothing is served without a source.
Limits: get and list with a label selector; no watch and no paging.
Source: k8s.io/metrics, v1beta1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import Resource, ResourceScope
from cotenant_local.apiserver.http.exchange import Exchange
from cotenant_local.apiserver.http.options import list_options, parse_query
from cotenant_local.apiserver.http.routing import ResourceRoute
from cotenant_local.apiserver.selectors import parse_labels
from cotenant_local.apiserver.verbs.context import timestamp

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
_READ = frozenset({"get", "list"})
RESOURCES: dict[str, Resource] = {
    "nodes": Resource(GROUP, VERSION, "NodeMetrics", "nodes", "", ResourceScope.CLUSTER, _READ),
    "pods": Resource(GROUP, VERSION, "PodMetrics", "pods", "", ResourceScope.NAMESPACED, _READ),
}


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """Cores and bytes in use."""

    cpu_cores: float
    memory_bytes: float

    def manifest(self) -> Manifest:
        """As metrics-server writes it."""
        return {"cpu": f"{round(self.cpu_cores * 1e9)}n", "memory": f"{round(self.memory_bytes / 1024)}Ki"}


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """The usage of a node (no namespace) or of a pod, by container; a node has one entry with the name ""."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    usage: Mapping[str, ResourceUsage]


class UsageSource(Protocol):
    """What is in use now."""

    window_s: float  # over which usage is measured

    def nodes(self) -> Iterable[MeasuredUsage]:
        """Every node that runs, in order of name."""

    def pods(self, namespace: str) -> Iterable[MeasuredUsage]:
        """Every pod that runs in a namespace (in all if it is empty), in order of namespace and name."""


class MetricsApi:
    """Answers the requests of the group."""

    def __init__(self, source: UsageSource, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock

    def answer(self, exchange: Exchange, route: ResourceRoute) -> Manifest:
        """The document of a request. Raises ApiError 404 or 405."""
        resource = RESOURCES.get(route.plural)
        is_namespaced = resource is not None and resource.scope is ResourceScope.NAMESPACED
        if resource is None or route.subresource or (route.namespace and not is_namespaced):
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        if exchange.method != "GET":
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        options = list_options(parse_query(exchange.query_string))
        selector = parse_labels(options.labels)
        found = self._source.pods(route.namespace) if is_namespaced else self._source.nodes()
        if route.name:
            for measured in found:
                if measured.name == route.name:
                    return self._item(resource, measured)
            raise ApiError(
                404,
                "NotFound",
                f'{resource.plural}.{GROUP} "{route.name}" not found',
                name=route.name,
                group=GROUP,
                kind=resource.plural,
            )
        items = [self._item(resource, measured) for measured in found if selector.matches(measured.labels)]
        kind = f"{resource.kind}List"
        return {"kind": kind, "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": items}

    def _item(self, resource: Resource, measured: MeasuredUsage) -> Manifest:
        now = timestamp(self._clock())
        metadata: Manifest = {"name": measured.name, "creationTimestamp": now}
        if measured.namespace:
            metadata["namespace"] = measured.namespace
        if measured.labels:
            metadata["labels"] = dict(measured.labels)
        item: Manifest = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": metadata,
            "timestamp": now,
            "window": f"{self._source.window_s:g}s",
        }
        if resource.scope is ResourceScope.CLUSTER:
            item["usage"] = next(iter(measured.usage.values())).manifest()
        else:
            item["containers"] = [{"name": name, "usage": usage.manifest()} for name, usage in measured.usage.items()]
        return item
