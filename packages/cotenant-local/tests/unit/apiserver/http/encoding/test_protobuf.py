"""Protobuf bodies, encoded by hand from the published field numbers."""

from __future__ import annotations

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.http.bodies import decode_object
from cotenant_local.apiserver.kinds.built_in import BUILT_IN, DEVICE_API, WORKLOAD_API

_MEDIA = "application/vnd.kubernetes.protobuf"


def field(number: int, value: bytes | str | int) -> bytes:
    """One field: a number as a varint below 128, anything else length-delimited (below 128 bytes)."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    raw = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(raw)]) + raw


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_maps_texts_and_unset_fields() -> None:
    entry = field(1, "a") + field(2, "b")
    raw = field(1, field(1, "c") + field(2, "") + field(8, b"")) + field(2, entry)
    assert decode_object(body("v1", "ConfigMap", raw), _MEDIA, "ConfigMap") == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "c"},
        "data": {"a": "b"},
    }


def test_a_zero_behind_a_pointer_is_kept() -> None:
    raw = field(2, field(1, 0) + field(5, 0))  # spec.replicas is a pointer, minReadySeconds is not
    assert decode_object(body("apps/v1", "Deployment", raw), _MEDIA, "Deployment")["spec"] == {"replicas": 0}


def test_bytes_times_and_quantities() -> None:
    secret = field(2, field(1, "k") + field(2, b"\x00\xff"))
    assert decode_object(body("v1", "Secret", secret), _MEDIA, "Secret")["data"] == {"k": "AP8="}
    meta = field(1, field(8, field(1, 100)))
    assert decode_object(body("v1", "Secret", meta), _MEDIA, "Secret")["metadata"] == {
        "creationTimestamp": "1970-01-01T00:01:40Z"
    }
    node = field(3, field(1, field(1, "cpu") + field(2, field(1, "4"))))
    assert decode_object(body("v1", "Node", node), _MEDIA, "Node")["status"] == {"capacity": {"cpu": "4"}}


def test_embedded_types_are_flat_as_in_json() -> None:
    volume = field(1, "v") + field(2, field(2, b""))
    pod = field(2, field(1, volume))
    assert decode_object(body("v1", "Pod", pod), _MEDIA, "Pod")["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_delete_options() -> None:
    raw = field(1, 0) + field(4, "Foreground")
    told = decode_object(body("v1", "DeleteOptions", raw), _MEDIA, "DeleteOptions")
    assert (told["gracePeriodSeconds"], told["propagationPolicy"]) == (0, "Foreground")


def test_unknown_fields_are_skipped() -> None:
    assert decode_object(body("v1", "ConfigMap", field(15, "x")), _MEDIA, "ConfigMap") == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
    }


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"k8s\x00",
        b"k8s\x00\xff",
        body("v1", "Nonsense", b""),
        body("v1", "ConfigMap", b"\x0a\x7f"),
        body("v1", "ConfigMap", field(1, 7)),
        body("v1", "ConfigMap", field(1, field(1, b"\xff"))),
        b"k8s\x00" + b"\x80" * 20,
    ],
)
def test_a_malformed_body_is_a_bad_request(raw: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        decode_object(raw, _MEDIA, "ConfigMap")
    assert caught.value.code == 400


WITHOUT = {"scheduling.k8s.io": {"Workload", "PodGroup", "CompositePodGroup"}}
"""Kinds of 1.37: their messages are in no published Go types that could be read."""


def test_every_built_in_kind_that_a_go_client_may_create_is_decoded() -> None:
    for resource in (*BUILT_IN, *WORKLOAD_API, *DEVICE_API):
        if resource.kind in WITHOUT.get(resource.group, ()):
            continue
        raw = field(1, field(1, "x"))
        found = decode_object(body(resource.api_version, resource.kind, raw), _MEDIA, resource.kind)
        assert found["apiVersion"] == resource.api_version


def test_versions_of_a_kind_have_their_own_fields() -> None:
    basic = field(2, field(1, field(1, "model") + field(2, field(4, "a"))))
    told = field(6, field(1, "d") + basic)
    old = decode_object(body("resource.k8s.io/v1beta1", "ResourceSlice", field(2, told)), _MEDIA, "ResourceSlice")
    assert old["spec"]["devices"] == [{"name": "d", "basic": {"attributes": {"model": {"string": "a"}}}}]
    plain = field(6, field(1, "d") + field(2, field(1, "model") + field(2, field(4, "a"))))
    new = decode_object(body("resource.k8s.io/v1", "ResourceSlice", field(2, plain)), _MEDIA, "ResourceSlice")
    assert new["spec"]["devices"] == [{"name": "d", "attributes": {"model": {"string": "a"}}}]


def test_an_autoscaler_of_kubectl() -> None:
    target = field(1, "Deployment") + field(2, "web") + field(3, "apps/v1")
    metric = field(1, "Resource") + field(4, field(1, "cpu") + field(2, field(1, "Utilization") + field(4, 60)))
    raw = field(2, field(1, target) + field(2, 1) + field(3, 9) + field(4, metric))
    found = decode_object(body("autoscaling/v2", "HorizontalPodAutoscaler", raw), _MEDIA, "HorizontalPodAutoscaler")
    assert found["spec"] == {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "minReplicas": 1,
        "maxReplicas": 9,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
            }
        ],
    }
