"""Batch and mid amounts of a pod: read from its specification or its annotation, and summed for the pod's group.

A kubelet computes a pod's groups from native `cpu` and `memory` only, so a pod that requests batch or mid resources has
the least weight and no limit; whoever sets them needs the kubelet's sum, in which sidecars and init containers count
and which does not change while containers start and end. The kubelet's formula over all amounts, native and extended:
sidecars plus containers, or an init container plus the sidecars before it where that is more, plus overhead. A limit
exists only where every container has one of batch or mid amounts: beside a native one it would stand in the way of a
resize in place, as the kubelet raises that container below a group that it thinks is without a limit, and cgroup v1
refuses a quota above its parent's. Where only the container runtime is known, the annotation that admission
leaves on the pod gives batch amounts per container.
Limits: the annotation has neither init containers nor overhead nor mid resources; pod-level `spec.resources` is not
read.

Source: kubelet, `ResourceConfigForPod` (pkg/kubelet/cm/helpers_linux.go); Koordinator, annotation
`node.koordinator.sh/extended-resource-spec`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NOT_EXTENDED, ExtendedAmounts
from cotenant.model.quantities import whole
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY

_MOST_CPU_M = 100_000_000  # of a limit; the kernel refuses quotas of some 2^44 us


class Role(StrEnum):
    """When a container runs."""

    CONTAINER = "container"
    SIDECAR = "sidecar"  # an init container with restartPolicy Always: beside all that follow
    INIT = "init"  # alone, before the containers


@dataclass(frozen=True, slots=True)
class PodInfoAmounts:
    """One container's amounts. 0 = no request, no limit."""

    role: Role = Role.CONTAINER
    cpu_request_m: int = 0
    cpu_limit_m: int = 0
    memory_limit_bytes: int = 0
    extended_cpu: bool = False
    extended_memory: bool = False


def pod_amounts(containers: Iterable[PodInfoAmounts], overhead: PodInfoAmounts | None = None) -> ExtendedAmounts:
    """The amounts of the pod's group; init containers in their order, before the containers."""
    parts = tuple(containers)
    extra = overhead or PodInfoAmounts()
    cpu = any(part.extended_cpu for part in (*parts, extra))
    memory = any(part.extended_memory for part in (*parts, extra))
    if not (cpu or memory):
        return NOT_EXTENDED
    roles = [part.role for part in parts]
    cpu_limits = [part.cpu_limit_m for part in parts]
    memory_limits = [part.memory_limit_bytes for part in parts]
    return ExtendedAmounts(
        cpu_request_m=max_at_once(roles, [part.cpu_request_m for part in parts]) + extra.cpu_request_m if cpu else None,
        cpu_limit_m=max_at_once(roles, cpu_limits) + extra.cpu_request_m
        if cpu and all(part.cpu_limit_m and part.extended_cpu for part in parts)
        else None,
        memory_limit_bytes=max_at_once(roles, memory_limits) + extra.memory_limit_bytes
        if memory and all(part.memory_limit_bytes and part.extended_memory for part in parts)
        else None,
    )


def cpu_limit(milli: int) -> int:
    """A limit in milli-CPU as a quota can state it. 0 = no limit, as is one that no machine reaches."""
    return milli if 0 < milli <= _MOST_CPU_M else 0


def max_at_once(roles: list[Role], amounts: list[int]) -> int:
    """The most that runs at a time; init containers in their order, before the containers."""
    running = most = 0
    for role, amount in zip(roles, amounts, strict=True):
        if role is Role.INIT:
            most = max(most, running + amount)
        else:
            running += amount
    return max(most, running)


@dataclass(frozen=True, slots=True)
class _Resources:
    requests: Mapping[str, str | int] | None = None
    limits: Mapping[str, str | int] | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    containers: Mapping[str, _Resources] | None = None


def read_annotation(text: str | None) -> dict[str, PodInfoAmounts]:
    """Batch amounts by container's name from `EXTENDED_SPEC`; empty where it is absent or malformed."""
    if text is None:
        return {}
    try:
        written = msgspec.json.decode(text, type=_Written)
        found = {name: _of_annotation(container) for name, container in (written.containers or {}).items()}
    except (msgspec.DecodeError, UnicodeError, RecursionError, InvalidInput):
        return {}
    return {name: amounts for name, amounts in found.items() if amounts.extended_cpu or amounts.extended_memory}


def _of_annotation(resources: _Resources) -> PodInfoAmounts:
    limits = resources.limits or {}
    requests = {**limits, **(resources.requests or {})}  # a limit without a request is the request
    return PodInfoAmounts(
        cpu_request_m=max(0, whole(requests.get(BATCH_CPU, 0))),
        cpu_limit_m=cpu_limit(whole(limits.get(BATCH_CPU, 0))),
        memory_limit_bytes=max(0, whole(limits.get(BATCH_MEMORY, 0))),
        extended_cpu=BATCH_CPU in requests,
        extended_memory=BATCH_MEMORY in requests,
    )


def is_extended(names: Iterable[str], native: str) -> bool:
    """Whether the amounts of `native` ("cpu" or "memory") are those of a batch or mid resource: a native amount,
    where there is one, wins.
    """
    given = set(names)
    return native not in given and bool(given & _EXTENDED[native])


_EXTENDED = {"cpu": {BATCH_CPU, MID_CPU}, "memory": {BATCH_MEMORY, MID_MEMORY}}
