"""The GPUs of simulated nodes, as the Device object that a node's agent would write.

Two GPUs under each PCIe switch with one network card, half of the switches on each of two NUMA nodes, as on common
training servers.
Limits: the devices do nothing and never fail by themselves; to simulate a fault, change `health` in the object.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.kinds.custom.device import written_devices
from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.devices.device import Device, DeviceType, FunctionGroup, VirtualFunction
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.json_object import JsonObject
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA, Amounts

MEMORY_BYTES = 80 << 30
_GPUS_PER_SWITCH = 2
_VIRTUAL_FUNCTIONS = 4


def devices_of(name: str, gpus: int) -> NodeDevices:
    """The devices of a node with this many GPUs."""
    switches = -(-gpus // _GPUS_PER_SWITCH)
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: MEMORY_BYTES})
    found = []
    for minor in range(gpus):
        switch = minor // _GPUS_PER_SWITCH
        numa, pcie = _numa(switch, switches), _switch(switch)
        found.append(Device(DeviceType.GPU, minor, total, numa=numa, pcie=pcie, id=f"GPU-{name}-{minor}"))
    for switch in range(switches):
        functions = tuple(VirtualFunction(k, f"0000:{switch:02x}:01.{k}") for k in range(_VIRTUAL_FUNCTIONS))
        found.append(
            Device(
                DeviceType.RDMA,
                switch,
                Amounts.of({RDMA: 100}),
                numa=_numa(switch, switches),
                pcie=_switch(switch),
                id=f"0000:{switch:02x}:00.0",
                function_groups=(FunctionGroup(functions),),
            )
        )
    return NodeDevices(name, tuple(found))


def device_manifest(name: str, uid: str, gpus: int) -> Manifest:
    """The Device object, owned by its node and deleted with it."""
    obj: JsonObject = msgspec.json.decode(msgspec.json.encode(written_devices(devices_of(name, gpus))))
    if uid:
        obj["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]
    return obj


def _numa(switch: int, switches: int) -> int:
    return int(2 * switch >= switches and switches > 1)


def _switch(switch: int) -> str:
    return f"pci0000:{16 * switch:02x}"
