"""A class, a claim, a slice and a taint rule mean the same in every version that is read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.claims import schema
from cotenant.drivers.kube.kinds.claims.claim_reading import read_claim, read_class, read_slice, read_taint_rule
from cotenant.model.claims.devices import (
    AttributeValues,
    CounterUse,
    DeviceCapacity,
    DeviceTaint,
    OfferedDevice,
    Reach,
    ResourceSlice,
    TaintRule,
    Version,
)
from cotenant.model.claims.requests import (
    AllocationMode,
    ClaimRequest,
    ClaimSpec,
    DeviceConstraint,
    DeviceToleration,
    ExactRequest,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import parse_quantity

SELECTOR = {"cel": {"expression": "true"}}
DEVICE: dict[str, Any] = {
    "attributes": {
        "model": {"string": "A100"},
        "index": {"int": 3},
        "driver": {"version": "1.2.0"},
        "roots": {"strings": ["pci0", "pci1"]},
        "zones": {"ints": [0, 1]},
        "modes": {"bools": [True]},
        "releases": {"versions": ["1.0.0"]},
    },
    "capacity": {"memory": {"value": "40Gi"}},
    "taints": [{"key": "broken", "effect": "NoExecute"}],
    "consumesCounters": [{"counterSet": "slots", "counters": {"slots": {"value": "2"}}}],
    "allowMultipleAllocations": True,
    "bindsToNode": True,
    "bindingConditions": ["ready"],
    "bindingFailureConditions": ["failed"],
}
ASKED: dict[str, Any] = {
    "deviceClassName": "gpu",
    "selectors": [SELECTOR],
    "allocationMode": "ExactCount",
    "count": 2,
    "adminAccess": True,
    "tolerations": [{"key": "broken", "operator": "Exists"}],
    "capacity": {"requests": {"memory": "8Gi"}},
}


def obj(form: type[Any], spec: dict[str, Any]) -> Any:
    manifest = {"metadata": {"name": "x", "namespace": "d", "uid": "u"}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(manifest), type=form)


@pytest.mark.parametrize("version", schema.VERSIONS)
def test_slices(version: str) -> None:
    device = {"name": "gpu-0", "basic": DEVICE} if version == "v1beta1" else {"name": "gpu-0", **DEVICE}
    pool = {"name": "p", "generation": 2, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n0", "devices": [device]}
    found = read_slice(obj(schema.slices(version).form, spec))
    assert found == ResourceSlice(
        "x",
        "d.example.com",
        "p",
        2,
        1,
        Reach("n0"),
        (
            OfferedDevice(
                "gpu-0",
                (
                    ("driver", Version("1.2.0")),
                    ("index", 3),
                    ("model", "A100"),
                    ("modes", AttributeValues("bool", (True,))),
                    ("releases", AttributeValues("version", (Version("1.0.0"),))),
                    ("roots", AttributeValues("string", ("pci0", "pci1"))),
                    ("zones", AttributeValues("int", (0, 1))),
                ),
                (("memory", DeviceCapacity(parse_quantity("40Gi"))),),
                (DeviceTaint("broken", "", "NoExecute"),),
                (CounterUse("slots", (("slots", 2 * 10**9),)),),
                is_shared=True,
                binds_to_node=True,
                binding_conditions=("ready",),
                failure_conditions=("failed",),
            ),
        ),
    )


@pytest.mark.parametrize("version", schema.VERSIONS)
def test_claims(version: str) -> None:
    first = {"name": "a", **ASKED} if version == "v1beta1" else {"name": "a", "exactly": ASKED}
    listed = {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "gpu", "allocationMode": "All"}]}
    constraints = [{"requests": ["a"], "matchAttribute": "d/x"}, {"distinctAttribute": "d/y"}]
    spec = {"devices": {"requests": [first, listed], "constraints": constraints}}
    assert read_claim(obj(schema.claims(version).form, spec)).spec == ClaimSpec(
        (
            ClaimRequest(
                "a",
                (
                    ExactRequest(
                        "a",
                        "gpu",
                        ("true",),
                        AllocationMode.EXACT_COUNT,
                        2,
                        True,
                        (DeviceToleration("broken", "Exists"),),
                        (("memory", parse_quantity("8Gi")),),
                    ),
                ),
            ),
            ClaimRequest("b", (ExactRequest("c", "gpu", (), AllocationMode.ALL, parent="b"),), is_list=True),
        ),
        (DeviceConstraint("d/x", False, ("a",)), DeviceConstraint("d/y", True)),
    )


@pytest.mark.parametrize("version", schema.VERSIONS)
def test_classes(version: str) -> None:
    spec = {"selectors": [SELECTOR], "extendedResourceName": "example.com/gpu"}
    found = read_class(obj(schema.device_classes(version).form, spec))
    assert (found.name, found.selectors, found.extended_resource) == ("x", ("true",), "example.com/gpu")


@pytest.mark.parametrize("version", ["v1beta2", "v1alpha3"])
def test_taint_rules(version: str) -> None:
    taint = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
    spec = {"deviceSelector": {"driver": "d", "pool": "p", "device": "gpu-0"}, "taint": taint}
    found = read_taint_rule(obj(schema.taint_rules(version).form, spec))
    assert found == TaintRule("x", DeviceTaint("broken", "yes", "NoSchedule"), "d", "p", "gpu-0")


def test_an_attribute_of_a_later_version_is_refused_by_its_name() -> None:
    spec = {
        "driver": "d",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"span": {"ranges": [1]}}}],
    }
    with pytest.raises(InvalidInput, match=r"spec\.devices\[0\]\.attributes\[span\]"):
        read_slice(obj(schema.slices("v1").form, spec))
