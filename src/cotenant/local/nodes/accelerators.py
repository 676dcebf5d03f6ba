"""The GPUs of simulated nodes, as the Device object that an agent on such a node would write.

Eight to a NUMA pair: two GPUs under each PCIe switch with a network card beside them, half of the switches on each of two NUMA nodes, as on common
training servers. Limits: they do nothing and never fail by themselves; say that one is ill by changing its `health` in the object.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cotenant.drivers.kube.kinds.device import written_devices
from cotenant.local.apiserver.contract import Manifest
from cotenant.model.devices.device import Device, DeviceType, FunctionGroup, VirtualFunction
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA, Amounts

MEMORY_BYTES = 80 << 30
MOST_GPUS = 16
_UNDER_A_SWITCH = 2
_FUNCTIONS = 4


def devices_of(name: str, gpus: int) -> NodeDevices:
    """What a node with so many GPUs has."""
    switches = -(-gpus // _UNDER_A_SWITCH)
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: MEMORY_BYTES})
    found = []
    for minor in range(gpus):
        switch = minor // _UNDER_A_SWITCH
        numa, pcie = _numa(switch, switches), _switch(switch)
        found.append(Device(DeviceType.GPU, minor, total, numa=numa, pcie=pcie, id=f"GPU-{name}-{minor}"))
    for switch in range(switches):
        functions = tuple(VirtualFunction(k, f"0000:{switch:02x}:01.{k}") for k in range(_FUNCTIONS))
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
    """The object, which goes with its node."""
    obj: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(written_devices(devices_of(name, gpus))))
    if uid:
        obj["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]
    return obj


def _numa(switch: int, switches: int) -> int:
    return int(2 * switch >= switches and switches > 1)


def _switch(switch: int) -> str:
    return f"pci0000:{16 * switch:02x}"
