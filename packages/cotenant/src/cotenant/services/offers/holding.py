"""Which pods hold a node's lent resources, and which pods' idle requests they are.

An amount says how much is lent and not where it went. Of each lent resource the pods on the node that request it,
largest first; beside them the pods of production and other classes that request more CPU or memory than they use.
Limits: requests say what a pod holds, not what it uses; a pod that was not measured lends nothing that can be named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from cotenant.drivers.kube.kinds.managed_node import SHORT
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.qos import PriorityClass, effective_class
from cotenant.model.machine.node_metric import MeasuredPod, Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME

_BORROWING = (PriorityClass.BATCH, PriorityClass.FREE)


class HolderView(msgspec.Struct, frozen=True):
    """A pod and what it requests of a lent resource, in the resource's unit."""

    pod: str
    amount: int


class LenderView(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that requests more than it uses: milli-CPU and bytes."""

    pod: str
    requested_cpu: int
    used_cpu: int
    requested_memory: int
    used_memory: int


def holders_of(resource: str, pods: Iterable[ObservedPod]) -> tuple[HolderView, ...]:
    """The pods that request a resource, a lent one by its short name, largest first."""
    name = SHORT.get(resource, resource)
    found = [
        HolderView(pod.pod.key, amount)
        for pod in pods
        if not pod.phase.is_final and (amount := pod.pod.requests.get(name))
    ]
    return tuple(sorted(found, key=lambda holder_view: (-holder_view.amount, holder_view.pod)))


def lenders(pods: Iterable[ObservedPod], measured: Mapping[str, MeasuredPod]) -> tuple[LenderView, ...]:
    """The measured pods of prod and mid priority that leave a part of their requests idle, the most idle CPU first."""
    found = []
    for observed_pod in pods:
        pod = observed_pod.pod
        if (
            observed_pod.phase.is_final
            or pod.key not in measured
            or effective_class(pod.priority_class, pod.qos) in _BORROWING
        ):
            continue
        asked, use = Use(pod.requests.get(CPU_NAME), pod.requests.get(MEMORY_NAME)), measured[pod.key].use
        if asked.cpu_m > use.cpu_m or asked.memory_bytes > use.memory_bytes:
            found.append(LenderView(pod.key, asked.cpu_m, use.cpu_m, asked.memory_bytes, use.memory_bytes))
    return tuple(
        sorted(found, key=lambda lender_view: (lender_view.used_cpu - lender_view.requested_cpu, lender_view.pod))
    )
