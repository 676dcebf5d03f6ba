"""Shapes of the built-in kinds, and typed decoding."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.drivers.kube.manifests.decoding import strict_error
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.schema.builtin import builtin_schema, definitions

POD = builtin_schema("", "v1", "Pod")


def pod(**container: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", **container}]},
    }


def test_unknown_fields_are_reported_with_their_paths_and_dropped() -> None:
    obj = pod(imagee="x", image="y")
    obj["spec"]["foo"] = {}
    assert POD.unknown_fields(obj) == ["spec.containers[0].imagee", "spec.foo"]
    assert obj == pod(image="y")


def test_nulls_and_empty_values_are_dropped() -> None:
    obj = pod(image="y", env=[], args=None, command=[])
    obj["metadata"]["creationTimestamp"] = None
    obj["metadata"]["labels"] = {}
    obj["spec"]["nodeName"] = ""
    POD.prune(obj)
    assert obj == pod(image="y")


def test_empty_structs_are_kept() -> None:
    obj = pod(resources={})
    obj["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    POD.prune(obj)
    assert obj["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_an_empty_storage_class_differs_from_an_absent_one() -> None:
    claim = {"spec": {"storageClassName": ""}}
    builtin_schema("", "v1", "PersistentVolumeClaim").prune(claim)
    assert claim == {"spec": {"storageClassName": ""}}


@pytest.mark.parametrize(
    ("container", "words"),
    [
        (
            {"ports": [{"containerPort": "80"}]},
            "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of "
            "type int32",
        ),
        (
            {"image": 3},
            "json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string",
        ),
        ({"resources": {"requests": {"cpu": "a lot"}}}, "quantities must match the regular expression"),
        (
            {"stdin": "yes"},
            "json: cannot unmarshal string into Go struct field Container.spec.containers.stdin of type bool",
        ),
        (
            {"ports": {}},
            "json: cannot unmarshal object into Go struct field Container.spec.containers.ports of type "
            "[]ContainerPort",
        ),
    ],
)
def test_a_wrong_type_is_refused_with_the_real_servers_message(container: Manifest, words: str) -> None:
    with pytest.raises(ApiError) as refused:
        POD.prune(pod(**container))
    assert refused.value.code == 400
    assert refused.value.message.startswith('Pod in version "v1" cannot be handled as a Pod: ' + words)


def test_quantities_are_written_in_canonical_form() -> None:
    obj = pod(resources={"requests": {"cpu": 1, "memory": "1024Mi", "nvidia.com/gpu": "0"}, "limits": {"cpu": "1500m"}})
    POD.prune(obj)
    assert obj["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "0"},
        "limits": {"cpu": "1500m"},
    }


def test_times_are_written_in_utc_whole_seconds() -> None:
    obj: Manifest = {"metadata": {"creationTimestamp": "2026-01-01T02:00:00.25+02:00"}}
    POD.prune(obj)
    assert obj["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    with pytest.raises(ApiError, match="parsing time"):
        POD.prune({"metadata": {"creationTimestamp": "yesterday"}})


def test_strict_validation_lists_every_unknown_field() -> None:
    assert strict_error("Pod", "v1", ["spec.a", "spec.b"]).message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.a", unknown field '
        '"spec.b"'
    )


def test_recursive_types_compile() -> None:
    crd = builtin_schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    props = crd.tree.fields["spec"].fields["versions"].item.fields["schema"].fields["openAPIV3Schema"]
    assert props.fields["properties"].item is props


def test_an_unknown_kind_has_no_schema() -> None:
    with pytest.raises(ApiError, match="no schema of example/v1, Kind=Nothing"):
        builtin_schema("example", "v1", "Nothing")
    assert "io.k8s.api.core.v1.Pod" in definitions()
