"""Which devices each simulated node has: a number of GPUs, or a file that says it for several drivers.

A file has the fields of ResourceSlices, written once for all nodes and, with `for`, for numbered devices: `{node}` and
the names of `for` are replaced in every text, `int: "{gpu}"` becomes a number. The classes of the drivers are made with
the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject, JsonValue

GPU_DRIVER = "gpu.cotenant.io"
MAX_DEVICES = 1024  # of a driver on a node
MAX_GPUS = 16  # of a node
_OPTION = "--dra"
_MAX_SETS, _MAX_DEVICES, _MAX_ADVANCED = 8, 128, 64  # of a slice
_NUMBER_FIELDS = frozenset({"int"})


class DriverShape(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The devices of one driver on a node. `device_class`: the DeviceClass to make for them, with the name of their
    extended resource where they have one.
    """

    name: str
    device_class: str = msgspec.field(default="", name="class")
    extended_resource_name: str = ""
    devices: tuple[JsonObject, ...] = ()
    shared_counters: tuple[JsonObject, ...] = ()


class DeviceShape(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """The devices of a node."""

    drivers: tuple[DriverShape, ...] = ()


NO_DEVICES = DeviceShape()


@dataclass(frozen=True, slots=True)
class PublishedPool:
    """What a driver publishes of a node: the contents of its slices, each with counters or devices."""

    driver: str
    slices: tuple[Manifest, ...]


def read_shape(text: str) -> DeviceShape:
    """The devices that an option asks for. Raises `InvalidInput`."""
    if not text or text == "0":
        return NO_DEVICES
    if text.isdigit():
        return gpus(int(text))
    expected = "a number of GPUs, or a file of drivers with their devices"
    try:
        found = msgspec.yaml.decode(Path(text).expanduser().read_bytes(), type=DeviceShape)
    except OSError as error:
        raise InvalidInput(_OPTION, text, expected, error.strerror or "") from None
    except msgspec.DecodeError as error:
        raise InvalidInput(_OPTION, text, expected, str(error)) from None
    for driver in found.drivers:
        pool_of(driver, "node", frozenset())
    return found


def gpus(count: int) -> DeviceShape:
    """GPUs of one model, half of them on each of two NUMA nodes."""
    if not 0 <= count <= MAX_DEVICES:
        raise InvalidInput(_OPTION, count, f"0 to {MAX_DEVICES} devices of a node")
    device: Manifest = {
        "for": {"gpu": count},
        "name": "gpu-{gpu}",
        "attributes": {
            "uuid": {"string": "GPU-{node}-{gpu}"},
            "model": {"string": "simulated-80g"},
            "index": {"int": "{gpu}"},
            "driverVersion": {"version": "1.0.0"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }
    return DeviceShape((DriverShape(GPU_DRIVER, GPU_DRIVER, devices=(device,)),))


def device_class(driver: DriverShape) -> Manifest | None:
    """The DeviceClass of a driver's devices; None where it has none."""
    if not driver.device_class:
        return None
    spec: Manifest = {"selectors": [{"cel": {"expression": f'device.driver == "{driver.name}"'}}]}
    if driver.extended_resource_name:
        spec["extendedResourceName"] = driver.extended_resource_name
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": driver.device_class},
        "spec": spec,
    }


def pool_of(driver: DriverShape, node: str, unhealthy: frozenset[str]) -> PublishedPool:
    """What the driver publishes of a node, with a taint on the devices that are unhealthy. Raises `InvalidInput`."""
    sets = [found for given in driver.shared_counters for found in _numbered(given, node)]
    devices = [found for given in driver.devices for found in _numbered(given, node)]
    if len(devices) > MAX_DEVICES:
        raise InvalidInput(_OPTION, f"{len(devices)} devices of {driver.name}", f"at most {MAX_DEVICES} on a node")
    for device in devices:
        if device.get("name") in unhealthy:
            taint = {"key": "cotenant.io/unhealthy", "effect": "NoExecute"}
            device["taints"] = [*device.get("taints", ()), taint]
    is_advanced = any("taints" in device or "consumesCounters" in device for device in devices)
    size = _MAX_ADVANCED if is_advanced else _MAX_DEVICES
    slices: list[Manifest] = [{"sharedCounters": list(part)} for part in _parts(sets, _MAX_SETS)]
    slices += [{"devices": list(part)} for part in _parts(devices, size)]
    return PublishedPool(driver.name, tuple(slices))


def _parts(found: list[Manifest], size: int) -> list[list[Manifest]]:
    return [found[at : at + size] for at in range(0, len(found), size)]


def _numbered(given: Manifest, node: str) -> list[Manifest]:
    """One for each combination of numbers."""
    loops = given.get("for", {})
    if not isinstance(loops, dict) or not all(isinstance(count, int) and count >= 0 for count in loops.values()):
        raise InvalidInput(_OPTION, loops, "`for`: names with how many there are, such as {gpu: 8}")
    plain = {name: value for name, value in given.items() if name != "for"}
    found = []
    for numbers in product(*(range(count) for count in loops.values())):
        words = {"node": node, **{name: str(number) for name, number in zip(loops, numbers, strict=True)}}
        found.append(_filled(plain, words, ""))
        if len(found) > MAX_DEVICES:
            raise InvalidInput(_OPTION, loops, f"at most {MAX_DEVICES} devices on a node")
    return found


def _filled(value: object, words: dict[str, str], name: str) -> JsonValue:
    if isinstance(value, dict):
        return {key: _filled(part, words, key) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, words, name) for part in value]
    if not isinstance(value, str):
        return value
    for word, text in words.items():
        value = value.replace(f"{{{word}}}", text)
    return int(value) if name in _NUMBER_FIELDS and value.lstrip("-").isdigit() else value
