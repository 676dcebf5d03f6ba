"""Device, the object with a node's GPUs and network cards: read as the model's value and written from it.

These objects are written by agents of several vendors, some entries are of unknown kinds, and a wrong one must not cost
the node its other devices. An entry of a known kind that cannot be used becomes a device that is never allocated, with
a sentence; other kinds are skipped. As in Go, an entry without a health is not healthy.
Limits: `status` is neither read nor written: allocations are in the pods' annotations.

Source: Koordinator, apis/scheduling/v1alpha1/device_types.go.
"""

from __future__ import annotations

from msgspec import field

from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Kind, Quantities, Strings, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.cluster.labels import Labels
from cotenant.model.devices.device import LARGEST_MINOR, Device, DeviceType, FunctionGroup, VirtualFunction
from cotenant.model.devices.inventory import LINK_DOMAIN, NodeDevices
from cotenant.model.devices.partition import GPU_PARTITIONS, PartitionTable
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import Amounts, format_amount

_UNKNOWN_PLACE = -1  # what upstream's agents write where a NUMA node is not known


class DeviceTopology(ApiStruct, frozen=True):
    """The place of a device in the machine."""

    socket_id: Int32 | None = field(default=None, name="socketID")
    node_id: Int32 | None = field(default=None, name="nodeID")
    pcie_id: Text = field(default=None, name="pcieID")
    bus_id: Text = field(default=None, name="busID")


class VirtualFunctionInfo(ApiStruct, frozen=True):
    """A virtual function."""

    minor: Int32 | None = None
    bus_id: Text = field(default=None, name="busID")


class VirtualFunctionGroup(ApiStruct, frozen=True):
    """Virtual functions with the same labels."""

    labels: Strings = None
    vfs: tuple[VirtualFunctionInfo, ...] | None = None


class DeviceInfo(ApiStruct, frozen=True):
    """One device."""

    type: Text = None
    id: Text = None
    minor: Int32 | None = None
    health: bool | None = None
    labels: Strings = None
    resources: Quantities = None
    topology: DeviceTopology | None = None
    vf_groups: tuple[VirtualFunctionGroup, ...] | None = None


class DeviceSpec(ApiStruct, frozen=True):
    """The devices."""

    devices: tuple[DeviceInfo, ...] | None = None


class DeviceObject(ApiStruct, frozen=True):
    """scheduling.koordinator.sh/v1alpha1 Device. Its name is the node's."""

    api_version: str = ""  # set on creation: a server refuses a custom object without it
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceSpec | None = None


DEVICES = Kind("Device", "scheduling.koordinator.sh", "v1alpha1", "devices", False, DeviceObject)


def read_devices(obj: DeviceObject) -> NodeDevices:
    """What a node has. Raises `InvalidInput` only where the partition table cannot be read: without it wrong sets
    could be given.
    """
    meta, name = obj.metadata, obj.metadata.name or ""
    wrong: list[str] = []
    found: dict[tuple[DeviceType, int], Device] = {}
    for place, info in enumerate((obj.spec.devices if obj.spec is not None else None) or ()):
        where = f"Device {name}: spec.devices[{place}]"
        if info.type not in tuple(DeviceType):
            continue
        device = _device(info, where, wrong)
        if device is None:
            continue
        key = (device.type, device.minor)
        if key in found:
            wrong.append(str(InvalidInput(f"{where}.minor", device.minor, "each minor once")))
            device = Device(device.type, device.minor, healthy=False)
        found[key] = device
    table = (meta.annotations or {}).get(GPU_PARTITIONS)
    return NodeDevices(
        name,
        tuple(found.values()),
        PartitionTable.parse(table) if table else None,
        Labels.of(meta.labels or {}),
        tuple(wrong),
    )


def written_devices(devices: NodeDevices) -> DeviceObject:
    """The object with these devices; the partition table is not written."""
    return DeviceObject(
        api_version=DEVICES.api_version,
        kind=DEVICES.name,
        metadata=ObjectMeta(name=devices.node, labels=dict(devices.labels) or None),
        spec=DeviceSpec(devices=tuple(_info(device) for device in devices.devices)),
    )


def _device(info: DeviceInfo, where: str, wrong: list[str]) -> Device | None:
    """A device; an unhealthy one where a part of it is wrong, None where not even its minor is known."""
    type_ = DeviceType(info.type or "")
    if info.minor is None:
        wrong.append(str(InvalidInput(f"{where}.minor", "", "a number")))
        return None
    try:
        labels = info.labels or {}
        place = info.topology or DeviceTopology()
        return Device(
            type_,
            info.minor,
            Amounts.parse(info.resources or {}, f"{where}.resources"),
            bool(info.health),
            None if place.node_id is None or place.node_id <= _UNKNOWN_PLACE else place.node_id,
            place.pcie_id or None,
            labels.get(LINK_DOMAIN),
            info.id or place.bus_id or "",
            Labels.of(labels),
            tuple(_functions(group, where) for group in info.vf_groups or ()),
        )
    except InvalidInput as error:
        wrong.append(str(error))
        return Device(type_, info.minor, healthy=False) if 0 <= info.minor <= LARGEST_MINOR else None


def _functions(group: VirtualFunctionGroup, where: str) -> FunctionGroup:
    found = []
    for one in group.vfs or ():
        if not one.bus_id:
            raise InvalidInput(f"{where}.vfGroups: busID", "", "a PCI address")
        found.append(VirtualFunction(one.minor or 0, one.bus_id))
    return FunctionGroup(tuple(found), Labels.of(group.labels or {}))


def _info(device: Device) -> DeviceInfo:
    labels = dict(device.labels)
    if device.link is not None:
        labels[LINK_DOMAIN] = device.link
    place = None
    if device.numa is not None or device.pcie is not None:
        place = DeviceTopology(
            socket_id=_UNKNOWN_PLACE,
            node_id=_UNKNOWN_PLACE if device.numa is None else device.numa,
            pcie_id=device.pcie or "",
        )
    groups = tuple(
        VirtualFunctionGroup(
            labels=dict(group.labels) or None,
            vfs=tuple(VirtualFunctionInfo(minor=one.index, bus_id=one.bus) for one in group.functions),
        )
        for group in device.function_groups
    )
    return DeviceInfo(
        type=device.type.value,
        id=device.id or None,
        minor=device.minor,
        health=device.healthy,
        labels=labels or None,
        resources={name: format_amount(name, amount) for name, amount in device.total},
        topology=place,
        vf_groups=groups or None,
    )
