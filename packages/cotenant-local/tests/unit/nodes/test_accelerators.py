from __future__ import annotations

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.device import DeviceObject, read_devices
from cotenant.model.devices.device import DeviceType
from cotenant_local.nodes.accelerators import device_manifest, devices_of


@pytest.mark.parametrize("gpus", [1, 2, 3, 8, 16])
def test_the_device_object_of_a_simulated_node_round_trips(gpus: int) -> None:
    obj = msgspec.convert(device_manifest("n", "uid", gpus), DeviceObject)
    assert read_devices(obj) == devices_of("n", gpus)
    assert obj.metadata.owner_references is not None
    assert obj.metadata.owner_references[0].uid == "uid"


def test_gpus_are_paired_under_switches_and_split_over_numa_nodes() -> None:
    found = devices_of("n", 8).devices
    gpus = [device for device in found if device.type is DeviceType.GPU]
    cards = [device for device in found if device.type is DeviceType.RDMA]
    assert [gpu.numa for gpu in gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [gpu.pcie for gpu in gpus] == [card.pcie for card in cards for _ in range(2)]
