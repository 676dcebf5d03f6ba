"""A copy without names: none is left, what refers to what stays, and amounts stay."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.drivers.kube.snapshot.anonymise import Words, anonymised
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, KindRead, KindReading

NAMES = ("acme", "web-1", "web-rs", "worker-7", "4711", "gold-disk", "registry.acme.example/web:1", "acme.example/pool")
DEVICES = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}'
POD = {
    "metadata": {
        "name": "web-1",
        "namespace": "acme",
        "uid": "web-1",
        "resourceVersion": "4711",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"acme.example/pool": "4711", "koordinator.sh/qosClass": "LS", "app": "web-1"},
        "annotations": {
            "cotenant.io/tenant": "4711",
            "cotenant.io/objective-p99-ms": "250",
            "gang.scheduling.koordinator.sh/groups": '["acme/web-rs"]',
            "scheduling.koordinator.sh/device-allocated": DEVICES,
        },
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-rs", "uid": "web-rs"}],
    },
    "spec": {
        "nodeName": "worker-7",
        "nodeSelector": {"acme.example/pool": "4711"},
        "containers": [
            {
                "name": "web-1",
                "image": "registry.acme.example/web:1",
                "resources": {"requests": {"cpu": "500m", "acme.example/pool": "2"}},
            }
        ],
        "tolerations": [{"key": "acme.example/pool", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "topology.kubernetes.io/zone",
                        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web-1"]}]},
                    }
                ]
            }
        },
    },
    "status": {"phase": "Running"},
}
NODE = {
    "metadata": {"name": "worker-7", "labels": {"kubernetes.io/hostname": "worker-7", "kubernetes.io/arch": "amd64"}},
    "status": {"allocatable": {"cpu": "8", "memory": "16Gi"}, "conditions": [{"type": "Ready", "status": "True"}]},
}


def made(*pods: object) -> ClusterSnapshot:
    objects = {"v1/nodes": [json.dumps(NODE).encode()], "v1/pods": [json.dumps(pod).encode() for pod in pods]}
    kinds = (KindRead("v1/nodes", KindReading.READ), KindRead("batch/v1/jobs", KindReading.DENIED, "acme may not"))
    return ClusterSnapshot(0.0, objects, kinds, source="the API server https://acme.example", notes=("acme",))


def test_no_name_is_left() -> None:
    found = anonymised(made(POD), Words(b"secret"))
    text = repr(found)
    for name in NAMES:
        assert name not in text
    assert found.is_anonymised


def test_references_and_amounts_stay() -> None:
    found = anonymised(made(POD), Words(b"secret"))
    pod, node = json.loads(found.objects["v1/pods"][0]), json.loads(found.objects["v1/nodes"][0])
    assert pod["spec"]["nodeName"] == node["metadata"]["name"] == node["metadata"]["labels"]["kubernetes.io/hostname"]
    meta, spec = pod["metadata"], pod["spec"]
    own = next(key for key in spec["nodeSelector"])
    assert meta["labels"][own] == spec["nodeSelector"][own]
    assert spec["tolerations"] == [{"key": own, "operator": "Exists", "effect": "NoSchedule"}]
    requests = spec["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "500m", own: "2"}
    term = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert term["topologyKey"] == "topology.kubernetes.io/zone"
    expression = term["labelSelector"]["matchExpressions"][0]
    assert meta["labels"][expression["key"]] == expression["values"][0] == meta["name"]
    assert meta["annotations"]["cotenant.io/objective-p99-ms"] == "250"
    assert json.loads(meta["annotations"]["scheduling.koordinator.sh/device-allocated"]) == {
        "gpu": [{"minor": 0, "resources": {"koordinator.sh/gpu-core": "50"}}]
    }
    namespace, group = json.loads(meta["annotations"]["gang.scheduling.koordinator.sh/groups"])[0].split("/")
    assert (namespace, group) == (meta["namespace"], meta["ownerReferences"][0]["name"])
    assert meta["labels"]["koordinator.sh/qosClass"] == "LS"
    assert meta["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert node["status"]["allocatable"] == {"cpu": "8", "memory": "16Gi"}
    assert pod["status"] == {"phase": "Running"}


def test_words_depend_on_a_secret_and_are_stable_with_it() -> None:
    first, again, other = Words(b"a"), Words(b"a"), Words(b"b")
    assert first.of("acme") == first.of("acme") == again.of("acme") != other.of("acme")


@given(st.lists(st.text(max_size=40), max_size=60, unique=True))
def test_words_are_names_and_no_two_names_have_one_word(names: list[str]) -> None:
    words = Words(b"secret")
    found = [words.of(name) for name in names]
    assert len(set(found)) == len(found)
    for name, word in zip(names, found, strict=True):
        assert word == name or re.fullmatch(r"[a-z]+-[a-z]+-[0-9a-f]{8,}", word)


@given(st.text(min_size=8, max_size=60))
def test_a_label_value_in_any_script_is_replaced(value: str) -> None:
    pod = {"metadata": {"name": "p", "labels": {"app": f"zz{value}"}}}
    found = json.loads(anonymised(made(pod), Words(b"s")).objects["v1/pods"][0])
    assert f"zz{value}" not in found["metadata"]["labels"].values()


@pytest.mark.parametrize("key", ["cpu", "hugepages-2Mi", "kubernetes.io/batch-cpu", "scheduling.koordinator.sh/x"])
def test_known_keys_stay(key: str) -> None:
    assert Words(b"s").key(key) == key
