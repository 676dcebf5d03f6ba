"""GPU resources of nodes follow the Device object: sums over healthy GPUs with their terms, removed with it, and
never taken where no Device explains them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cotenant.engine.manager.gpu_nodes import GpuNode, GpuNodes, written_names
from cotenant.engine.manager.node_writes import SETTLE_S
from cotenant.model.cluster.labels import Labels
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import GPU_VENDOR, NodeDevices
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, RDMA, Amounts

GIB = 1 << 30


def gpu(minor: int, gib: int = 80, **fields: Any) -> Device:
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY: gib * GIB, GPU_MEMORY_RATIO: 100})
    return Device(DeviceType.GPU, minor, fields.pop("total", total), **fields)


def inventory(*devices: Device, **labels: str) -> NodeDevices:
    return NodeDevices("n", devices, labels=Labels.of({f"node.koordinator.sh/gpu-{k}": v for k, v in labels.items()}))


class World:
    """One node whose amounts are what was written."""

    def __init__(self, node: GpuNode | None = None) -> None:
        self.now_s = 100.0
        self.engine = GpuNodes()
        self.node = node or GpuNode("n", "u")
        self.engine.node_seen(self.node, self.now_s)
        self.loses = False

    def run(self, passes_s: float = SETTLE_S) -> int:
        """How many writes were issued."""
        self.now_s += passes_s
        found = self.engine.decide(self.now_s)
        for write in found:
            assert (write.node, write.uid) == (self.node.name, self.node.uid)
            if not self.loses:
                amounts = {**self.node.amounts, **write.amounts}
                self.node = replace(
                    self.node,
                    amounts={name: amount for name, amount in amounts.items() if amount is not None},
                    written=write.annotation or "",
                    labels={**self.node.labels, **write.labels},
                )
                self.engine.node_seen(self.node, self.now_s)
        return len(found)

    def devices(self, *devices: Device, **labels: str) -> None:
        self.engine.devices_seen(inventory(*devices, **labels), self.now_s)


def test_totals_are_sums_over_healthy_gpus_and_stand_with_their_terms() -> None:
    w = World()
    w.devices(
        gpu(0), gpu(1), gpu(2, gib=40), gpu(3, healthy=False), Device(DeviceType.RDMA, 0, Amounts.of({RDMA: 100}))
    )
    assert w.run() == 1
    assert w.node.amounts == {GPU: 300, GPU_CORE: 300, GPU_MEMORY: 200 * GIB, GPU_MEMORY_RATIO: 300}
    written = json.loads(w.node.written)
    assert written[GPU_CORE] == {"value": 300, "terms": [["3 GPUs of 100", 300]]}
    assert written[GPU_MEMORY]["terms"] == [[f"2 GPUs of {80 * GIB}", 160 * GIB], [f"1 GPU of {40 * GIB}", 40 * GIB]]
    assert all(sum(amount for _, amount in entry["terms"]) == entry["value"] for entry in written.values())
    assert w.run() == 0


def test_a_gpu_that_fails_leaves_the_totals_and_returns() -> None:
    w = World()
    w.devices(gpu(0), gpu(1))
    w.run()
    w.devices(gpu(0), gpu(1, healthy=False))
    assert w.run() == 1
    assert w.node.amounts[GPU_CORE] == 100
    w.devices(gpu(0, healthy=False), gpu(1, healthy=False))
    assert w.run() == 1
    assert (w.node.amounts, w.node.written) == ({}, "")
    w.devices(gpu(0), gpu(1))
    assert w.run() == 1
    assert w.node.amounts[GPU_CORE] == 200


def test_totals_go_with_the_device_object_also_after_a_restart() -> None:
    w = World()
    w.devices(gpu(0))
    w.run()
    w.engine.devices_gone("n", w.now_s)
    assert w.run() == 1
    assert (w.node.amounts, w.node.written) == ({}, "")

    again = World(
        replace(
            w.node, amounts={GPU: 100, GPU_CORE: 100}, written='{"koordinator.sh/gpu-core":{},"koordinator.sh/gpu":{}}'
        )
    )
    again.engine.leads_now(again.now_s)
    assert again.run() == 1
    assert again.node.amounts == {}


def test_totals_that_no_device_explains_and_no_annotation_names_stay() -> None:
    """Another manager's: upstream's, on a node whose agent writes no Device here."""
    w = World(GpuNode("n", "u", {GPU_CORE: 800}))
    assert w.run() == 0


def test_a_node_taken_over_from_another_manager_is_corrected() -> None:
    w = World(GpuNode("n", "u", {GPU_CORE: 800, GPU: 800}))
    w.devices(gpu(0))
    assert w.run() == 1
    assert w.node.amounts[GPU_CORE] == w.node.amounts[GPU] == 100


def test_what_a_kubelet_counts_is_never_a_total() -> None:
    w = World()
    w.devices(gpu(0, total=Amounts.of({GPU_CORE: 100, NVIDIA_GPU: 1, "cpu": 4000})))
    w.run()
    assert w.node.amounts == {GPU: 100, GPU_CORE: 100}


@pytest.mark.parametrize(("vendor", "has_sum"), [("", True), ("nvidia", True), ("NVIDIA", True), ("huawei", False)])
def test_koordinator_gpu_is_of_nvidia_and_of_gpus_without_a_vendor(vendor: str, has_sum: bool) -> None:
    w = World()
    w.devices(gpu(0), **({"vendor": vendor} if vendor else {}))
    w.run()
    assert (GPU in w.node.amounts) is has_sum


def test_labels_are_copied_and_never_removed() -> None:
    w = World()
    w.devices(gpu(0), model="A100", vendor="nvidia")
    w.run()
    assert w.node.labels == {"node.koordinator.sh/gpu-model": "A100", GPU_VENDOR: "nvidia"}
    w.engine.devices_gone("n", w.now_s)
    w.run()
    assert w.node.labels == {"node.koordinator.sh/gpu-model": "A100", GPU_VENDOR: "nvidia"}


def test_a_lost_write_is_issued_again_ever_more_rarely_and_at_once_by_a_new_leader() -> None:
    w = World()
    w.loses = True
    w.devices(gpu(0))
    assert w.run() == 1
    assert [w.run(10.0) for _ in range(9)] == [0, 0, 1, 0, 0, 0, 0, 0, 1]
    w.engine.leads_now(w.now_s)
    w.loses = False
    assert w.run() == 1
    assert w.run(1000.0) == 0


def test_a_node_without_gpus_is_never_written() -> None:
    w = World()
    w.devices(Device(DeviceType.RDMA, 0, Amounts.of({RDMA: 100})))
    w.engine.leads_now(w.now_s)
    assert w.run() == 0


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("", set()),
        ("{", set()),
        ('["koordinator.sh/gpu"]', set()),
        ('"koordinator.sh/gpu"', set()),
        ("7", set()),
        ("null", set()),
        ('{"koordinator.sh/gpu": {}, "koordinator.sh/gpu-core": 1}', {"koordinator.sh/gpu", "koordinator.sh/gpu-core"}),
        ('{"cpu": {}, "kubernetes.io/batch-cpu": {}, "nvidia.com/gpu": {}}', set()),  # others count these
    ],
)
def test_only_names_that_may_be_totals_of_ours_are_taken_from_an_annotation(written: str, names: set[str]) -> None:
    assert written_names(written) == names
