"""What a pod asks of CPUs and NUMA nodes beyond their number, and what it was given: annotations as values.

Problem: Koordinator's users write these wishes as JSON in annotations, and the node's agent reads the answer there. Choice: one frozen value
an annotation, read strictly (a wrong word is refused with the words that are known), written canonically. Limits: amounts of NUMA nodes are
kept for CPU and memory; other resources of `numaNodeResources` are read past.

Source: Koordinator, apis/extension/resource.go and numa_aware.go (names and values).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object
from cotenant.model.quantities import format_bytes, format_milli, milli, whole

RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"  # on pods: JSON
RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"  # on pods, by the scheduler: JSON
NUMA_TOPOLOGY_SPEC = "scheduling.koordinator.sh/numa-topology-spec"  # on pods: JSON
CPU_BIND_POLICY = "node.koordinator.sh/cpu-bind-policy"  # label on nodes: None, FullPCPUsOnly, SpreadByPCPUs
NUMA_ALLOCATE_STRATEGY = "node.koordinator.sh/numa-allocate-strategy"  # label on nodes
NUMA_TOPOLOGY_POLICY = "node.koordinator.sh/numa-topology-policy"  # label on nodes


class BindPolicy(StrEnum):
    """How the CPUs of one pod lie on cores."""

    DEFAULT = "Default"  # as the cluster's default says
    FULL_CORES = "FullPCPUs"
    SPREAD = "SpreadByPCPUs"
    CONSTRAINED_BURST = "ConstrainedBurst"


class ExclusivePolicy(StrEnum):
    """From whom a pod keeps away: from pods with the same policy, on one core or one NUMA node."""

    NONE = "None"
    CORE = "PCPULevel"
    NUMA = "NUMANodeLevel"


class NumaStrategy(StrEnum):
    """Which of the NUMA nodes with room is taken."""

    MOST_ALLOCATED = "MostAllocated"
    LEAST_ALLOCATED = "LeastAllocated"
    DISTRIBUTE_EVENLY = "DistributeEvenly"  # where one NUMA node does not suffice, as many from each that is used


class TopologyPolicy(StrEnum):
    """How strictly a pod's resources have to lie on the same NUMA nodes."""

    NONE = ""
    BEST_EFFORT = "BestEffort"
    RESTRICTED = "Restricted"
    SINGLE_NUMA_NODE = "SingleNUMANode"


class NodeBindPolicy(StrEnum):
    """What a node demands of every pod with CPUs of its own."""

    NONE = "None"
    FULL_CORES_ONLY = "FullPCPUsOnly"
    SPREAD = "SpreadByPCPUs"


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """How a pod's CPUs shall lie; `required` is kept or the pod waits, `preferred` where it can be."""

    required: BindPolicy | None = None
    preferred: BindPolicy = BindPolicy.DEFAULT
    exclusive: ExclusivePolicy = ExclusivePolicy.NONE

    @classmethod
    def parse(cls, text: str) -> ResourceSpec:
        """From the annotation. Raises `InvalidInput`."""
        told = json_object(RESOURCE_SPEC, text)
        required = _word(told, RESOURCE_SPEC, "requiredCPUBindPolicy", BindPolicy)
        return cls(
            None if required in (None, BindPolicy.DEFAULT) else required,
            _word(told, RESOURCE_SPEC, "preferredCPUBindPolicy", BindPolicy) or BindPolicy.DEFAULT,
            _word(told, RESOURCE_SPEC, "preferredCPUExclusivePolicy", ExclusivePolicy) or ExclusivePolicy.NONE,
        )

    def format(self) -> str:
        """The annotation; what is as by default is left out."""
        told = {}
        if self.required is not None:
            told["requiredCPUBindPolicy"] = self.required.value
        if self.preferred != BindPolicy.DEFAULT:
            told["preferredCPUBindPolicy"] = self.preferred.value
        if self.exclusive != ExclusivePolicy.NONE:
            told["preferredCPUExclusivePolicy"] = self.exclusive.value
        return json.dumps(told, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class NumaAmount:
    """What a pod holds of one NUMA node; None where the annotation says nothing of that resource."""

    node: int
    cpu_m: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """The CPUs and NUMA amounts that a pod was given."""

    cpus: tuple[int, ...] = ()  # ascending
    numa: tuple[NumaAmount, ...] = ()

    @classmethod
    def parse(cls, text: str) -> ResourceStatus:
        """From the annotation. Raises `InvalidInput`."""
        told = json_object(RESOURCE_STATUS, text)
        cpus = told.get("cpuset", "")
        if not isinstance(cpus, str):
            raise InvalidInput(f"{RESOURCE_STATUS}: cpuset", cpus, "a list of CPUs such as 0-3,8")
        amounts = told.get("numaNodeResources")
        amounts = [] if amounts is None else amounts
        if not isinstance(amounts, list):
            raise InvalidInput(f"{RESOURCE_STATUS}: numaNodeResources", amounts, "a list of objects")
        return cls(parse_cpus(cpus, f"{RESOURCE_STATUS}: cpuset"), tuple(_numa_amount(each) for each in amounts))

    def format(self) -> str:
        """The annotation."""
        told: dict[str, Any] = {}
        if self.cpus:
            told["cpuset"] = format_cpus(self.cpus)
        if self.numa:
            told["numaNodeResources"] = [_numa_object(amount) for amount in self.numa]
        return json.dumps(told, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class NumaTopologySpec:
    """A pod's own wish for NUMA alignment."""

    policy: TopologyPolicy = TopologyPolicy.NONE
    single_node_exclusive: bool = False  # Required; Preferred is read as False: it changes no admission

    @classmethod
    def parse(cls, text: str) -> NumaTopologySpec:
        """From the annotation. Raises `InvalidInput`."""
        told = json_object(NUMA_TOPOLOGY_SPEC, text)
        exclusive = told.get("singleNUMANodeExclusive") or "Preferred"
        if exclusive not in ("Preferred", "Required"):
            raise InvalidInput(f"{NUMA_TOPOLOGY_SPEC}: singleNUMANodeExclusive", exclusive, "Preferred or Required")
        policy = _word(told, NUMA_TOPOLOGY_SPEC, "numaTopologyPolicy", TopologyPolicy) or TopologyPolicy.NONE
        return cls(policy, exclusive == "Required")


Word = TypeVar("Word", bound=StrEnum)


def _word(told: Mapping[str, Any], annotation: str, key: str, words: type[Word]) -> Word | None:
    value = told.get(key)
    if value is None or value == "":
        return None
    if value not in [word.value for word in words]:
        known = ", ".join(word.value for word in words if word.value)
        raise InvalidInput(f"{annotation}: {key}", value, f"one of {known}")
    return words(value)


def _numa_amount(told: Any) -> NumaAmount:
    field = f"{RESOURCE_STATUS}: numaNodeResources"
    node = told.get("node", 0) if isinstance(told, dict) else None
    resources = (told.get("resources") or {}) if isinstance(told, dict) else None
    if not isinstance(node, int) or isinstance(node, bool) or node < 0 or not isinstance(resources, dict):
        raise InvalidInput(field, told, 'objects such as {"node": 0, "resources": {"cpu": "4"}}')
    return NumaAmount(
        node,
        milli(resources["cpu"], field) if "cpu" in resources else None,
        whole(resources["memory"], field) if "memory" in resources else None,
    )


def _numa_object(amount: NumaAmount) -> dict[str, Any]:
    resources = {}
    if amount.cpu_m is not None:
        resources["cpu"] = format_milli(amount.cpu_m)
    if amount.memory_bytes is not None:
        resources["memory"] = format_bytes(amount.memory_bytes)
    return {"node": amount.node, "resources": resources}
