"""Pods as a question of size: containers with requests, limits, what programs are told, and a resize that goes on.

A struct of its own over the same kind: the scheduler's pods have no arguments, environment and restart counts, and a
copy of a cluster must not have them. What cannot be read of a container's amounts makes the pod unreadable, as a size
that is wrong in one part is wrong. Who resized a pod is what the server notes of its writers (`managedFields`): an
entry goes when another writer has taken over all of its fields.
Limits: main containers only; of a sidecar that is an init container only that there is one.
Source: Kubernetes API reference, v1.36 (Container, ContainerStatus, PodCondition, ManagedFieldsEntry).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Quantities, Text, Time
from cotenant.drivers.kube.kinds.parts import ObjectMeta, Resources, Something
from cotenant.model.cpus.spec import RESOURCE_STATUS, ResourceStatus
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import format_bytes, format_milli, milli, whole
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.model.sizes.container import ContainerProgram, ContainerSize, SizedContainer, SizedPod

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
MAX_WORDS, MAX_WORD = 512, 4096  # of a command: more are not read
RESIZER = "cotenant-right-sizing"  # the writer of our resizes; those of earlier versions have the client's name
_OURS = (RESIZER, "cotenant-manager")


class _Variable(ApiStruct, frozen=True):
    name: str = ""
    value: Text = None
    value_from: Something | None = None


class _ResizePolicy(ApiStruct, frozen=True):
    resource_name: str = ""
    restart_policy: str = ""


class _Container(ApiStruct, frozen=True):
    name: str = ""
    resources: Resources | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[_Variable, ...] | None = None
    env_from: tuple[Something, ...] | None = None
    resize_policy: tuple[_ResizePolicy, ...] | None = None


class _Terminated(ApiStruct, frozen=True):
    reason: Text = None


class _Ended(ApiStruct, frozen=True):
    terminated: _Terminated | None = None


class _ContainerStatus(ApiStruct, frozen=True):
    name: str = ""
    restart_count: int = 0
    resources: Resources | None = None
    allocated_resources: Quantities = None
    state: _Ended | None = None
    last_state: _Ended | None = None


class _Condition(ApiStruct, frozen=True):
    type: str = ""
    status: str = ""
    reason: Text = None
    message: Text = None


class _InitContainer(ApiStruct, frozen=True):
    restart_policy: Text = None


class _Spec(ApiStruct, frozen=True):
    node_name: Text = None
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_InitContainer, ...] | None = None
    resources: Resources | None = None  # of the whole pod


class _Status(ApiStruct, frozen=True):
    phase: Text = None
    conditions: tuple[_Condition, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Writer(ApiStruct, frozen=True):
    manager: Text = None
    subresource: Text = None
    time: Time | None = None


class _Meta(ObjectMeta, frozen=True):
    managed_fields: tuple[_Writer, ...] | None = None


class SizedPodObject(ApiStruct, frozen=True):
    """v1 Pod."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status | None = None


SIZED_PODS = Kind("Pod", "", "v1", "pods", True, SizedPodObject)


def read_sized_pod(obj: SizedPodObject, *, has_programs: bool = True) -> SizedPod:
    """A pod. `has_programs`: False where the object is of a copy without them. Raises `InvalidInput`."""
    meta, status = obj.metadata, obj.status or _Status()
    owner = next((found for found in meta.owner_references or () if found.controller), None)
    statuses = {found.name: found for found in status.container_statuses or ()}
    conditions = {found.type: found for found in status.conditions or () if found.status == "True"}
    pending, progress = conditions.get(PENDING), conditions.get(IN_PROGRESS)
    others = [
        found for found in meta.managed_fields or () if found.subresource == "resize" and found.manager not in _OURS
    ]
    return SizedPod(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        uid=meta.uid or "",
        node=obj.spec.node_name or "",
        owner_kind=owner.kind if owner else "",
        owner_name=owner.name if owner else "",
        owner_uid=owner.uid if owner else "",
        is_running=status.phase == "Running" and meta.deletion_timestamp is None,
        is_ready="Ready" in conditions,
        containers=tuple(
            _container(found, statuses.get(found.name, _ContainerStatus()), has_programs)
            for found in obj.spec.containers
        ),
        pending=(pending.reason or "") if pending else "",
        pending_why=(pending.message or "") if pending else "",
        in_progress=progress is not None,
        progress_error=(progress.message or "") if progress is not None and progress.reason == "Error" else "",
        allocated_by=_allocated((meta.annotations or {}).get(RESOURCE_STATUS, "")),
        has_sidecars=any(found.restart_policy == "Always" for found in obj.spec.init_containers or ()),
        has_pod_resources=obj.spec.resources is not None
        and bool(obj.spec.resources.requests or obj.spec.resources.limits),
        resized_by_others_s=max((found.time.timestamp() for found in others if found.time is not None), default=-inf),
    )


def _allocated(written: str) -> tuple[str, ...]:
    """Of CPU and memory, those that are held as CPUs and NUMA amounts. What cannot be read holds both."""
    if not written:
        return ()
    try:
        status = ResourceStatus.parse(written)
    except InvalidInput:
        return (CPU_NAME, MEMORY_NAME)
    has_cpu = bool(status.cpus) or any(amount.cpu_m is not None for amount in status.numa)
    has_memory = any(amount.memory_bytes is not None for amount in status.numa)
    return (*((CPU_NAME,) if has_cpu else ()), *((MEMORY_NAME,) if has_memory else ()))


def _container(container: _Container, status: _ContainerStatus, has_programs: bool) -> SizedContainer:
    where = f"container {container.name}"
    policies = {found.resource_name: found.restart_policy for found in container.resize_policy or ()}
    words, env = (*(container.command or ()), *(container.args or ())), container.env or ()
    is_long = max(len(words), len(env)) > MAX_WORDS
    program = ContainerProgram(
        tuple(word[:MAX_WORD] for word in words[:MAX_WORDS]),
        tuple(
            (found.name, None if found.value_from is not None else (found.value or "")[:MAX_WORD])
            for found in env[:MAX_WORDS]
        ),
        bool(container.env_from),
        has_programs,
        is_long or any(len(text) > MAX_WORD for text in (*words, *(found.value or "" for found in env))),
    )
    ended = (status.last_state or _Ended()).terminated or (status.state or _Ended()).terminated
    return SizedContainer(
        container.name,
        read_size(container.resources, where),
        program,
        policies.get(CPU_NAME) == "RestartContainer",
        policies.get(MEMORY_NAME) == "RestartContainer",
        read_size(status.resources, where) if status.resources is not None else None,
        status.restart_count,
        ended is not None and ended.reason == "OOMKilled",
    )


def read_size(resources: Resources | None, where: str) -> ContainerSize:
    """Requests and limits; a limit without a request is the request too, as the API server has it."""
    resources = resources or Resources()
    requests, limits = resources.requests or {}, resources.limits or {}
    cpu_limit = _amount(limits, CPU_NAME, where)
    memory_limit = _amount(limits, MEMORY_NAME, where)
    cpu, memory = _amount(requests, CPU_NAME, where), _amount(requests, MEMORY_NAME, where)
    return ContainerSize(
        cpu_limit if cpu is None else cpu, cpu_limit, memory_limit if memory is None else memory, memory_limit
    )


def written_size(size: ContainerSize) -> dict[str, dict[str, str]]:
    """As a container's `resources` has it; what is not set is absent."""
    found: dict[str, dict[str, str]] = {}
    for part, cpu_m, memory_bytes in (
        ("requests", size.cpu_request_m, size.memory_request_bytes),
        ("limits", size.cpu_limit_m, size.memory_limit_bytes),
    ):
        amounts = {
            **({} if cpu_m is None else {CPU_NAME: format_milli(cpu_m)}),
            **({} if memory_bytes is None else {MEMORY_NAME: format_bytes(memory_bytes)}),
        }
        if amounts:
            found[part] = amounts
    return found


def _amount(amounts: Mapping[str, str | int | float], name: str, where: str) -> int | None:
    if name not in amounts:
        return None
    found = (milli if name == CPU_NAME else whole)(amounts[name], f"{where}: {name}")
    if found < 0:
        raise InvalidInput(f"{where}: {name}", amounts[name], "0 or more")
    return found
