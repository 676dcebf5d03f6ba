"""What a pod may hold at all, by its own class and requests.

What a pod was given stands in annotations, which its owner can write. Without a seal of the scheduler (seal.py), what
an annotation says is believed as far as the pod could have been given it: own CPUs for a class that gets them and as
many as it requests, NUMA amounts and devices within its requests. The rest counts as absent.
Limits: which CPUs, and which devices, an entitled pod's owner can still choose: only a seal stops that. Of a shared
GPU's memory, the form that the pod did not request is not checked; nor is the reservation that a pod says it drew from.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.model.cluster.demands import NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass, QoSClass, effective_class
from cotenant.model.cpus.spec import BindPolicy, ResourceSpec, ResourceStatus
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.request import device_requests, type_of
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, Amounts

_OWNERS = frozenset({QoSClass.LSE, QoSClass.LSR})
_USUAL = ResourceSpec()


def gets_own_cpus(
    qos: QoSClass, priority_class: PriorityClass, spec: ResourceSpec | None, default: BindPolicy = BindPolicy.FULL_CORES
) -> bool:
    """Whether pods of this class, with this annotation, get CPUs of their own. `default`: the bind policy where the
    pod names none.
    """
    written = spec or _USUAL
    bind = written.required or (default if written.preferred is BindPolicy.DEFAULT else written.preferred)
    entitled = qos in _OWNERS and effective_class(priority_class, qos) is PriorityClass.PROD
    requires = written.required is not None and qos is not QoSClass.BE
    return bind is not BindPolicy.CONSTRAINED_BURST and (entitled or requires)


def entitled(pod: Pod, demands: Demands, holds: Holdings) -> Holdings:
    """What of these holdings the pod could have been given."""
    if holds is NO_HOLDINGS:
        return holds
    cpus = holds.cpus if holds.cpus is not None and _may_have(pod, demands, holds.cpus) else None
    devices = holds.devices if holds.devices and _may_share(pod.requests, demands, holds.devices) else ()
    found = replace(holds, cpus=cpus, devices=devices)
    return found if found != NO_HOLDINGS else NO_HOLDINGS


def _may_have(pod: Pod, demands: Demands, status: ResourceStatus) -> bool:
    cpu_m = pod.requests.get(CPU_NAME)
    if status.cpus and not gets_own_cpus(pod.qos, pod.priority_class, demands.cpus):
        return False
    cpus = [numa_amount.cpu_m for numa_amount in status.numa if numa_amount.cpu_m is not None]
    memory = [numa_amount.memory_bytes for numa_amount in status.numa if numa_amount.memory_bytes is not None]
    return (
        1000 * len(status.cpus) <= cpu_m
        and min(cpus, default=0) >= 0
        and sum(cpus) <= cpu_m
        and min(memory, default=0) >= 0
        and sum(memory) <= pod.requests.get(MEMORY_NAME)
    )


def _may_share(requests: Amounts, demands: Demands, parts: tuple[DeviceAllocation, ...]) -> bool:
    asked = Amounts.of((name, amount) for name, amount in requests if type_of(name) is not None)
    try:
        by_type = {request.type: request for request in device_requests(asked)}
    except InvalidInput:
        return False
    hinted = {hint.type for hint in demands.device_hints}  # a hint may ask for the amount of every device
    for part in parts:
        wanted = by_type.get(part.type)
        if wanted is None or any(part.amounts.get(name) > amount for name, amount in wanted.amounts):
            return False
    return all(
        kind in hinted or sum(part.type is kind for part in parts) <= wanted.count for kind, wanted in by_type.items()
    )
