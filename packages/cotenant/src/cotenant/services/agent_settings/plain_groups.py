"""Groups that are configured by their paths, and treated as pods: on a machine without Kubernetes, or beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.model.quantities import milli, whole

MIN_OBJECTIVE_MS, MAX_OBJECTIVE_MS = 0.001, 3_600_000  # a microsecond to an hour


class PlainEviction(StrEnum):
    """How a plain group is evicted; pods of a cluster go through its eviction API."""

    TOLD = "told"  # only reported in the log, the metrics and the decisions
    KILL = "kill"  # every process of the group, at once (cgroup.kill)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAmounts:
    """Requests or limits in Kubernetes' notation: `500m`, `1.5Gi`, or numbers of cores and bytes. Absent = none."""

    cpu: str | int | float = 0
    memory: str | int | float = 0

    def __post_init__(self) -> None:
        if min(self.cpu_m, self.memory_bytes) < 0:
            raise InvalidInput("cpu, memory", f"{self.cpu}, {self.memory}", "amounts that are not negative")

    @property
    def cpu_m(self) -> int:
        """Milli-CPU."""
        return milli(self.cpu, "cpu")

    @property
    def memory_bytes(self) -> int:
        """Bytes."""
        return whole(self.memory, "memory")


NO_AMOUNTS = WrittenAmounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainGroup:
    """An existing cgroup treated as a pod: on a machine without Kubernetes, or a program beside it."""

    group: str
    name: str  # namespace/name
    qos: QoSClass
    tenant: str = ""
    priority: int = 0
    objective_p99_ms: float | None = None
    requests: WrittenAmounts = NO_AMOUNTS
    limits: WrittenAmounts = NO_AMOUNTS
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_group("group", self.group)
        namespace, slash, name = self.name.partition("/")
        if not (namespace and slash and name) or "/" in name or not self.name.isprintable():
            raise InvalidInput("name", self.name, "namespace/name")
        if self.objective_p99_ms is not None and not MIN_OBJECTIVE_MS <= self.objective_p99_ms <= MAX_OBJECTIVE_MS:
            raise InvalidInput(
                "objective_p99_ms", self.objective_p99_ms, f"milliseconds, {MIN_OBJECTIVE_MS} to {MAX_OBJECTIVE_MS}"
            )

    def pod(self) -> NodePod:
        """The group as a pod."""
        namespace, _, name = self.name.partition("/")
        return NodePod(
            uid=f"group:{self.group}",
            namespace=namespace,
            name=name,
            group=self.group,
            qos=self.qos,
            tenant=self.tenant or namespace,
            priority=self.priority,
            objective_p99_us=None if self.objective_p99_ms is None else round(self.objective_p99_ms * 1000),
            containers=(
                NodeContainer(
                    name=name,
                    group=self.group,
                    cpu_request_m=self.requests.cpu_m,
                    cpu_limit_m=self.limits.cpu_m,
                    memory_request_bytes=self.requests.memory_bytes,
                    memory_limit_bytes=self.limits.memory_bytes,
                ),
            ),
            labels=Labels.of(self.labels),
            host_application=True,
        )


def check_group(field_name: str, path: str) -> None:
    """Raise `InvalidInput` for what is no group below the tree's root."""
    if not path:
        raise InvalidInput(field_name, "(empty)", "a group below the root", "the root itself is not the agent's")
    if "\n" in path:
        raise InvalidInput(field_name, repr(path), "one line: no group's name has a line break")
    try:
        KnobTarget(path, Knob.CPU_MAX)
    except InvalidInput as error:
        raise InvalidInput(field_name, path, error.expected) from None
