"""A node's GPU resources: the sums over the healthy GPUs of its Device object.

A kubelet knows whole cards at most, and pods request parts of them; a card that fails must leave the totals, and a
total must be recomputable. Each resource is the sum over healthy GPUs with one term for each size of GPU, as all
amounts of the manager have; `koordinator.sh/gpu` is the sum of gpu-core on NVIDIA GPUs and on those without a vendor.
Resources that a kubelet counts itself (`cpu`, `memory`, `nvidia.com/gpu` and the like) are never totals, whatever a
Device object lists.
Limits: healthy GPUs only; RDMA cards and FPGAs have no totals; `koordinator.sh/gpu.shared` (behind a gate upstream, off
by default) is not written.
Source: Koordinator, pkg/slo-controller/noderesource/plugins/gpudeviceresource (calculate, Prepare).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import GPU_VENDOR, NodeDevices
from cotenant.model.devices.partition import GPU_MODEL
from cotenant.model.devices.request import CARDS, NVIDIA
from cotenant.model.resources import GPU, GPU_CORE
from cotenant.policy.overcommit.facts import Amount, AmountTerm

GPU_DRIVER = "node.koordinator.sh/gpu-driver-version"
COPIED_LABELS = (GPU_MODEL, GPU_VENDOR, GPU_DRIVER)  # from the Device object to its node; never removed
POLICY = "healthy GPUs"


@dataclass(frozen=True, slots=True)
class GpuTotals:
    """What stands on a node for its GPUs: amounts by Kubernetes name with their terms, and labels. `listed`: the
    resources of all its GPUs, healthy or not.
    """

    amounts: tuple[Amount, ...] = ()
    labels: Mapping[str, str] | None = None
    listed: frozenset[str] = frozenset()


NO_GPUS = GpuTotals()


def is_total(name: str) -> bool:
    """Whether a resource may be a total of ours: a kubelet and its device plugins count the others."""
    return "/" in name and not name.startswith("kubernetes.io/") and name not in CARDS


def gpu_totals(devices: NodeDevices) -> GpuTotals:
    """The totals of a node with these devices."""
    gpus = [device for device in devices.devices if device.type is DeviceType.GPU]
    if not gpus:
        return NO_GPUS
    healthy = [gpu for gpu in gpus if gpu.healthy]
    is_nvidia = (devices.labels.get(GPU_VENDOR) or NVIDIA).lower() == NVIDIA
    names = sorted({name for gpu in gpus for name, _ in gpu.total if is_total(name) and name != GPU})
    amounts = [_sum(name, name, healthy) for name in names]
    if is_nvidia and GPU_CORE in names:
        amounts.append(_sum(GPU, GPU_CORE, healthy))
    labels = {name: value for name in COPIED_LABELS if (value := devices.labels.get(name))}
    found = tuple(sorted((amount for amount in amounts if amount.terms), key=lambda amount: amount.resource))
    return GpuTotals(found, labels, frozenset({*names, GPU}))


def _sum(resource: str, counted: str, gpus: list[Device]) -> Amount:
    """The sum of one resource of the GPUs, a term for each amount that some of them have."""
    sizes = Counter(gpu.total.get(counted) for gpu in gpus if counted in gpu.total)
    terms = tuple(AmountTerm(_name(size, count), size * count) for size, count in sorted(sizes.items(), reverse=True))
    return Amount(resource, POLICY, sum(term.amount for term in terms), terms)


def _name(size: int, count: int) -> str:
    return f"1 GPU of {size}" if count == 1 else f"{count} GPUs of {size}"
