"""Whatever a server or a user sends: named, counted, passed over; never an exception that would stop the watch."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.drivers.kube.cache.decoding import Bookmark, InvalidLine, ListWatchDecoder, MalformedEvent, WatchEvent
from cotenant.drivers.kube.client.errors import Unavailable
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.namespace import NAMESPACES, read_namespace
from cotenant.drivers.kube.kinds.node import NODES, read_node
from cotenant.drivers.kube.kinds.pod.annotations import read_hints
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodAnnotations, PodObject
from cotenant.drivers.kube.kinds.pod_disruption_budget import POD_DISRUPTION_BUDGETS, read_budget
from cotenant.drivers.kube.kinds.storage.persistent_volume import PERSISTENT_VOLUMES
from cotenant.drivers.kube.kinds.storage.persistent_volume_claim import PERSISTENT_VOLUME_CLAIMS
from cotenant.drivers.kube.kinds.storage.storage_class import STORAGE_CLASSES
from cotenant.drivers.kube.kinds.storage.volume_index import VolumeIndex
from cotenant.model.errors import InvalidInput

EXPRESSION = {"key": "k", "operator": "In", "values": ["v"]}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [EXPRESSION]}
POD_TERM = {
    "topologyKey": "zone",
    "labelSelector": SELECTOR,
    "namespaceSelector": SELECTOR,
    "namespaces": ["x"],
    "matchLabelKeys": ["a"],
    "mismatchLabelKeys": ["b"],
}
PAIR = {
    "requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": POD_TERM}],
}
CONTAINER = {
    "name": "c",
    "restartPolicy": "Always",
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": 2}},
    "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP", "hostIP": "1.2.3.4"}],
}
POD = {
    "metadata": {
        "name": "p",
        "namespace": "d",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"koordinator.sh/qosClass": "LS", "koordinator.sh/priority": "1", "a": "b"},
        "annotations": {
            "cotenant.io/objective-p99-ms": "5",
            "cotenant.io/estimate": '{"use_cpu_cores":1,"use_memory_bytes":2}',
            "cotenant.io/deadline": "2026-01-01T00:00:00Z",
            "cotenant.io/group-limit": "2",
            "cotenant.io/load-limit": "0.5",
        },
    },
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [CONTAINER],
        "overhead": {"cpu": "1m"},
        "resources": {"requests": {"cpu": "3"}},
        "priority": 9000,
        "nodeName": "n",
        "nodeSelector": {"a": "b"},
        "hostNetwork": True,
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [EXPRESSION], "matchFields": [EXPRESSION]}]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [EXPRESSION]}}
                ],
            },
            "podAffinity": PAIR,
            "podAntiAffinity": PAIR,
        },
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": SELECTOR,
                "minDomains": 1,
                "nodeAffinityPolicy": "Honor",
                "matchLabelKeys": ["a"],
            }
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "w", "ephemeral": {}}],
        "schedulingGates": [{"name": "g"}],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}
        ],
    },
}
NODE = {
    "metadata": {"name": "n", "labels": {"a": "b"}},
    "spec": {"unschedulable": False, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
BUDGET = {
    "metadata": {"name": "b", "namespace": "d", "generation": 1},
    "spec": {"selector": SELECTOR},
    "status": {"disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}, "observedGeneration": 1},
}
VOLUME = {
    "metadata": {"name": "v", "labels": {"a": "b"}},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "s",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}},
    },
    "status": {"phase": "Available"},
}
CLAIM = {
    "metadata": {"name": "c", "namespace": "d", "uid": "u"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "selector": SELECTOR,
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "s",
    },
    "status": {"phase": "Pending"},
}
CLASS = {
    "metadata": {"name": "s"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
}
JUNK = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8)
    | st.sampled_from(
        ["", "0", "-1", "1e999", "1" * 400, "9Ei", "9999999999999999", "0001-01-01T00:00:00Z", "Exists", "Gt"]
    )
    | st.just([])
    | st.just({})
    | st.just([None])
    | st.just({"": ""})
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a manifest."""
    found = [path] if path else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        found += places(value, (*path, key))
    return found


@st.composite
def spoilt(draw: st.DrawFn, manifest: dict[str, Any]) -> bytes:
    """A manifest with junk in one to three places."""
    made = copy.deepcopy(manifest)
    for path in draw(st.lists(st.sampled_from(places(manifest)), min_size=1, max_size=3)):
        node = made
        try:
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = copy.deepcopy(draw(JUNK))
        except (KeyError, IndexError, TypeError):
            continue  # an earlier piece of junk stands in the way
    return json.dumps(made).encode()


def heard(kind: Kind[Any], raw: bytes) -> Any:
    """The object of a watch's line, None where it is named as unreadable."""
    said = ListWatchDecoder(kind).line(b'{"type":"ADDED","object":' + raw + b"}")
    assert isinstance(said, WatchEvent | MalformedEvent | InvalidLine)
    page = ListWatchDecoder(kind).page(b'{"metadata":{"resourceVersion":"1"},"items":[' + raw + b"]}")
    assert len(page.objects) + len(page.malformed) == 1
    return said.obj if isinstance(said, WatchEvent) else None


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(300))
@given(spoilt(POD))
def test_spoilt_pods(raw: bytes) -> None:
    pod = heard(PODS, raw)
    if pod is not None:
        PodReader().pod(pod)


@pytest.mark.slow
@settings(deadline=None)
@given(spoilt(NODE), spoilt(BUDGET))
def test_spoilt_nodes_and_budgets(node: bytes, budget: bytes) -> None:
    for kind, raw, read in ((NODES, node, read_node), (POD_DISRUPTION_BUDGETS, budget, read_budget)):
        obj = heard(kind, raw)
        if obj is not None:
            with contextlib.suppress(InvalidInput):
                read(obj)  # type: ignore[operator]


@settings(deadline=None)
@given(spoilt({"metadata": {"name": "n", "labels": {"a": "b"}}}))
def test_spoilt_namespaces(raw: bytes) -> None:
    obj = heard(NAMESPACES, raw)
    if obj is not None:
        read_namespace(obj)


@pytest.mark.slow
@settings(deadline=None)
@given(spoilt(VOLUME), spoilt(CLAIM), spoilt(CLASS))
def test_spoilt_volumes(volume: bytes, claim: bytes, storage_class: bytes) -> None:
    index = VolumeIndex()
    index.put_volume("v", heard(PERSISTENT_VOLUMES, volume))
    index.put_claim("d/c", heard(PERSISTENT_VOLUME_CLAIMS, claim))
    index.put_class("s", heard(STORAGE_CLASSES, storage_class))
    PodReader(index).pod(msgspec.json.decode(msgspec.json.encode(POD), type=PodObject))


@pytest.mark.slow
@settings(deadline=None)
@given(st.builds(PodAnnotations, *[st.none() | st.text() | JUNK.map(str)] * 7))
def test_any_annotations(written: PodAnnotations) -> None:
    read_hints(written)


def test_the_unspoilt_ones_are_read() -> None:
    pod = PodReader().pod(heard(PODS, msgspec.json.encode(POD)))
    assert [why for why in pod.unsupported if "matchFields" not in why] == []
    assert pod.pod.estimate is not None
    assert read_node(heard(NODES, msgspec.json.encode(NODE))).ready


DEEP = b"[" * 100_000 + b"]" * 100_000


def test_json_nested_beyond_reason() -> None:
    reader = ListWatchDecoder(PODS)
    assert isinstance(
        reader.line(b'{"type":"ADDED","object":{"metadata":{"name":"a"},"x":' + DEEP + b"}}"), InvalidLine
    )
    with pytest.raises(Unavailable):
        reader.page(b'{"items":[{"x":' + DEEP + b"}]}")
    hints = read_hints(PodAnnotations(estimate='{"x":' + DEEP.decode() + "}"))
    assert "cotenant.io/estimate" in hints.wrong[0]


@pytest.mark.parametrize(
    ("line", "form"),
    [
        (b"", InvalidLine),
        (b"null", InvalidLine),
        (b"\xff\xfe", InvalidLine),
        (b'{"type":"ADDED"}', InvalidLine),
        (b'{"type":5,"object":{}}', InvalidLine),
        (b'{"type":"WHAT","object":{}}', InvalidLine),
        (b'{"type":"ADDED","object":null}', MalformedEvent),
        (b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}', Bookmark),
        (b'{"type":"ERROR","object":{"code":410}}', Exception),
        (b'{"type":"ERROR","object":7}', InvalidLine),
    ],
)
def test_lines(line: bytes, form: type[Any]) -> None:
    assert isinstance(ListWatchDecoder(PODS).line(line), form)
    assert isinstance(ListWatchDecoder(NODES).line(line), form)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"items":5}', b'{"items":[', b"<html>"])
def test_pages_that_are_none(body: bytes) -> None:
    with pytest.raises(Unavailable):
        ListWatchDecoder(PODS).page(body)


def test_a_page_without_items_is_empty() -> None:
    assert ListWatchDecoder(PODS).page(b'{"metadata":{"resourceVersion":"5"},"items":null}').objects == []
