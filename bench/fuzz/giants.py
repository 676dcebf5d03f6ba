"""Pods as large as an API server admits: one list after the other, each filled to a size in bytes.

A list that a pod's owner writes may have tens of thousands of elements, and one loop over it inside another stops a
scheduler. Every list of a pod that the scheduler reads, with elements that are all different and that all apply
(selectors that match every pod, keys that nodes have), which is the costly case, and once with elements that apply to
nothing. Two lists are filled half and half.
Limits: lists that no code reads (env, mounts) are not filled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from cotenant.model.cluster.labels import HOSTNAME, ZONE

LARGEST_BYTES = 1_500_000  # etcd takes 1.5 MiB of a request
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class List:
    """A list of a pod: its i-th element, and where the elements go."""

    name: str
    element: Callable[[int], Any]
    put: Callable[[Document, list[Any]], None]


def small_pod(name: str, namespace: str = "default") -> Document:
    """An ordinary pod."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}}}
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "labels": {"app": "giant"}}
    spec = {"schedulerName": "cotenant", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def giant(name: str, lists: tuple[List, ...], size: int = LARGEST_BYTES, most: int = 10**9) -> Document:
    """A pod in which these lists have equal parts of `size` bytes, and no more than `most` elements each."""
    made = small_pod(name)
    for list_ in lists:
        count = min(most, max(1, size // len(lists) // (len(msgspec.json.encode(list_.element(12_345))) + 1)))
        list_.put(made, [list_.element(i) for i in range(count)])
    return made


def _every(i: int) -> Document:
    """A selector of every pod, unlike the others."""
    return {"matchExpressions": [{"key": f"k{i}", "operator": "DoesNotExist"}]}


def _none(i: int) -> Document:
    return {"matchLabels": {"a": f"v{i}"}}


def _at(*path: str) -> Callable[[Document, list[Any]], None]:
    def put(document: Document, elements: list[Any]) -> None:
        for key in path[:-1]:
            document = document.setdefault(key, {})
        document[path[-1]] = [*document.get(path[-1], ()), *elements]

    return put


def _into(*path: str) -> Callable[[Document, list[Any]], None]:
    def put(document: Document, elements: list[Any]) -> None:
        for key in path:
            document = document.setdefault(key, {})
        document.update(elements)

    return put


def _of_container(key: str) -> Callable[[Document, list[Any]], None]:
    return lambda document, elements: document["spec"]["containers"][0].update({key: elements})


def _requests(document: Document, elements: list[Any]) -> None:
    document["spec"]["containers"][0]["resources"]["requests"].update(elements)


def _one_term(document: Document, elements: list[Any]) -> None:
    _at("spec", "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms")(document, [{"matchExpressions": elements}])


def _values(document: Document, elements: list[Any]) -> None:
    _one_term(document, [{"key": HOSTNAME, "operator": "NotIn", "values": elements}])


def _selector_values(document: Document, elements: list[Any]) -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": elements}]}
    _at("spec", "affinity", "podAntiAffinity", _PREFERRED)(
        document, [{"weight": 1, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": selector}}]
    )


def _spread(i: int, selector: Document, when: str) -> Document:
    return {
        "maxSkew": 10**6,
        "topologyKey": (ZONE, HOSTNAME)[i % 2],
        "whenUnsatisfiable": when,
        "labelSelector": selector,
    }


def _term(i: int, selector: Document, **more: Any) -> Document:
    return {"topologyKey": (ZONE, HOSTNAME)[i % 2], "labelSelector": selector, **more}


def _weighted(i: int, selector: Document, **more: Any) -> Document:
    return {"weight": 1 + i % 100, "podAffinityTerm": _term(i, selector, **more)}


_NEAR, _AWAY, _NODES = (("spec", "affinity", entry) for entry in ("podAffinity", "podAntiAffinity", "nodeAffinity"))

LISTS: tuple[List, ...] = (
    List("spread", lambda i: _spread(i, _every(i), "DoNotSchedule"), _at("spec", "topologySpreadConstraints")),
    List("spread of none", lambda i: _spread(i, _none(i), "DoNotSchedule"), _at("spec", "topologySpreadConstraints")),
    List("soft spread", lambda i: _spread(i, _every(i), "ScheduleAnyway"), _at("spec", "topologySpreadConstraints")),
    List("spread of many keys", lambda i: {**_spread(i, {}, "ScheduleAnyway"), "topologyKey": f"t{i}"},
        _at("spec", "topologySpreadConstraints")),
    List("affinity", lambda i: _term(i, _every(i)), _at(*_NEAR, _REQUIRED)),
    List("soft affinity", lambda i: _weighted(i, _every(i)), _at(*_NEAR, _PREFERRED)),
    List("anti-affinity", lambda i: _term(i, _none(i)), _at(*_AWAY, _REQUIRED)),
    List("anti-affinity to all", lambda i: _term(i, _every(i)), _at(*_AWAY, _REQUIRED)),
    List("anti-affinity everywhere",
        lambda i: {"topologyKey": f"t{i}", "labelSelector": _every(i), "namespaceSelector": {}},
        _at(*_AWAY, _REQUIRED)),
    List("soft anti-affinity", lambda i: _weighted(i, _every(i), namespaceSelector={}), _at(*_AWAY, _PREFERRED)),
    List("anti-affinity, namespaces", lambda i: f"n{i}",
        lambda document, names: _at(*_AWAY, _REQUIRED)(document, [_term(0, {}, namespaces=names)])),
    List("selector values", lambda i: f"v{i}", _selector_values),
    List("host ports",
        lambda i: {"containerPort": 1 + i % 65535, "hostPort": 1 + i % 65535, "hostIP": f"10.0.0.{i // 65535}"},
        _of_container("ports")),
    List("node terms", lambda i: {"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": [f"x{i}"]}]},
        _at(*_NODES, _REQUIRED, "nodeSelectorTerms")),
    List("node terms of none", lambda i: {"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]},
        _at(*_NODES, _REQUIRED, "nodeSelectorTerms")),
    List("node expressions", lambda i: {"key": f"k{i}", "operator": "DoesNotExist"}, _one_term),
    List("node values", lambda i: f"v{i}", _values),
    List("soft node terms",
        lambda i: {"weight": 1 + i % 100,
        "preference": {"matchExpressions": [{"key": f"k{i}", "operator": "DoesNotExist"}]}}, _at(*_NODES, _PREFERRED)),
    List("node selector", lambda i: (f"k{i}", "v"), _into("spec", "nodeSelector")),
    List("tolerations", lambda i: {"key": f"k{i}", "operator": "Exists"}, _at("spec", "tolerations")),
    List("labels", lambda i: (f"l{i}", "v"), _into("metadata", "labels")),
    List("annotations", lambda i: (f"a{i}", "v"), _into("metadata", "annotations")),
    List("gates", lambda i: {"name": f"g{i}"}, _at("spec", "schedulingGates")),
    List("containers", lambda i: {"name": f"c{i}", "image": f"i{i}", "resources": {"requests": {"cpu": "1m"}}},
        _at("spec", "containers")),
    List("init containers", lambda i: {"name": f"c{i}", "image": f"i{i}", "restartPolicy": "Always"},
        _at("spec", "initContainers")),
    List("resources", lambda i: (f"e.io/r{i}", "1"), _requests),
    List("claims", lambda i: {"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}},
        _at("spec", "volumes")),
    List("disks", lambda i: {"name": f"v{i}", "awsElasticBlockStore": {"volumeID": f"c{i}"}}, _at("spec", "volumes")),
    List("ephemeral volumes", lambda i: {"name": f"v{i}", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        _at("spec", "volumes")),
    List("resource claims", lambda i: {"name": f"r{i}", "resourceClaimName": f"c{i}"}, _at("spec", "resourceClaims")),
    List("owners", lambda i: {"apiVersion": "v1", "kind": "Node", "name": f"n{i}", "uid": f"u{i}"},
        _at("metadata", "ownerReferences")),
)  # fmt: skip
