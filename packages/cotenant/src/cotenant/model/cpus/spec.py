"""A pod's demands on CPUs and NUMA nodes beyond amounts, and its allocation: annotations as values.

Koordinator's users write these demands as JSON in annotations, and the node's agent reads the allocation there. One
frozen value per annotation, parsed strictly (an unknown word is an error that lists the known ones), formatted
canonically.
Limits: of `numaNodeResources` only CPU and memory are read.

Source: Koordinator, apis/extension/resource.go and numa_aware.go (names and values).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject, json_object
from cotenant.model.quantities import format_bytes, format_milli, milli, whole

RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"  # on pods: JSON
RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"  # on pods, by the scheduler: JSON
NUMA_TOPOLOGY_SPEC = "scheduling.koordinator.sh/numa-topology-spec"  # on pods: JSON
CPU_BIND_POLICY = "node.koordinator.sh/cpu-bind-policy"  # label on nodes: None, FullPCPUsOnly, SpreadByPCPUs
NUMA_ALLOCATE_STRATEGY = "node.koordinator.sh/numa-allocate-strategy"  # label on nodes
NUMA_TOPOLOGY_POLICY = "node.koordinator.sh/numa-topology-policy"  # label on nodes


class BindPolicy(StrEnum):
    """How the CPUs of one pod are spread over cores."""

    DEFAULT = "Default"  # the cluster's default
    FULL_CORES = "FullPCPUs"
    SPREAD = "SpreadByPCPUs"
    CONSTRAINED_BURST = "ConstrainedBurst"


class ExclusivePolicy(StrEnum):
    """Which pods may not share a core or a NUMA node with this one: pods with the same policy."""

    NONE = "None"
    CORE = "PCPULevel"
    NUMA = "NUMANodeLevel"


class NumaStrategy(StrEnum):
    """Which of the NUMA nodes with enough free capacity is chosen."""

    MOST_ALLOCATED = "MostAllocated"
    LEAST_ALLOCATED = "LeastAllocated"
    DISTRIBUTE_EVENLY = "DistributeEvenly"  # where one NUMA node is not enough, the same amount from each that is used


class TopologyPolicy(StrEnum):
    """How strictly a pod's resources have to be on the same NUMA nodes."""

    NONE = ""
    BEST_EFFORT = "BestEffort"
    RESTRICTED = "Restricted"
    SINGLE_NUMA_NODE = "SingleNUMANode"


class NodeBindPolicy(StrEnum):
    """What a node requires of every pod with own CPUs."""

    NONE = "None"
    FULL_CORES_ONLY = "FullPCPUsOnly"
    SPREAD = "SpreadByPCPUs"


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """CPU binding of a pod; `required` is enforced or the pod waits, `preferred` is best effort."""

    required: BindPolicy | None = None
    preferred: BindPolicy = BindPolicy.DEFAULT
    exclusive: ExclusivePolicy = ExclusivePolicy.NONE

    @classmethod
    def parse(cls, text: str) -> ResourceSpec:
        """Parse the annotation. Raises `InvalidInput`."""
        data = json_object(RESOURCE_SPEC, text)
        required = _word(data, RESOURCE_SPEC, "requiredCPUBindPolicy", BindPolicy)
        return cls(
            None if required in (None, BindPolicy.DEFAULT) else required,
            _word(data, RESOURCE_SPEC, "preferredCPUBindPolicy", BindPolicy) or BindPolicy.DEFAULT,
            _word(data, RESOURCE_SPEC, "preferredCPUExclusivePolicy", ExclusivePolicy) or ExclusivePolicy.NONE,
        )

    def format(self) -> str:
        """Format the annotation; default values are omitted."""
        data = {}
        if self.required is not None:
            data["requiredCPUBindPolicy"] = self.required.value
        if self.preferred != BindPolicy.DEFAULT:
            data["preferredCPUBindPolicy"] = self.preferred.value
        if self.exclusive != ExclusivePolicy.NONE:
            data["preferredCPUExclusivePolicy"] = self.exclusive.value
        return json.dumps(data, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class NumaAmount:
    """A pod's allocation on one NUMA node; None where the annotation does not mention the resource."""

    node: int
    cpu_m: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """The CPUs and NUMA amounts allocated to a pod."""

    cpus: tuple[int, ...] = ()  # ascending
    numa: tuple[NumaAmount, ...] = ()

    @classmethod
    def parse(cls, text: str) -> ResourceStatus:
        """Parse the annotation. Raises `InvalidInput`."""
        data = json_object(RESOURCE_STATUS, text)
        cpus = data.get("cpuset", "")
        if not isinstance(cpus, str):
            raise InvalidInput(f"{RESOURCE_STATUS}: cpuset", cpus, "a list of CPUs such as 0-3,8")
        amounts = data.get("numaNodeResources")
        amounts = [] if amounts is None else amounts
        if not isinstance(amounts, list):
            raise InvalidInput(f"{RESOURCE_STATUS}: numaNodeResources", amounts, "a list of objects")
        return cls(parse_cpus(cpus, f"{RESOURCE_STATUS}: cpuset"), tuple(_numa_amount(amount) for amount in amounts))

    def format(self) -> str:
        """Format the annotation."""
        data: JsonObject = {}
        if self.cpus:
            data["cpuset"] = format_cpus(self.cpus)
        if self.numa:
            data["numaNodeResources"] = [_numa_object(amount) for amount in self.numa]
        return json.dumps(data, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class NumaTopologySpec:
    """A pod's own NUMA alignment policy."""

    policy: TopologyPolicy = TopologyPolicy.NONE
    single_node_exclusive: bool = False  # Required; Preferred is read as False, since it does not affect admission

    @classmethod
    def parse(cls, text: str) -> NumaTopologySpec:
        """Parse the annotation. Raises `InvalidInput`."""
        data = json_object(NUMA_TOPOLOGY_SPEC, text)
        exclusive = data.get("singleNUMANodeExclusive") or "Preferred"
        if exclusive not in ("Preferred", "Required"):
            raise InvalidInput(f"{NUMA_TOPOLOGY_SPEC}: singleNUMANodeExclusive", exclusive, "Preferred or Required")
        policy = _word(data, NUMA_TOPOLOGY_SPEC, "numaTopologyPolicy", TopologyPolicy) or TopologyPolicy.NONE
        return cls(policy, exclusive == "Required")


Word = TypeVar("Word", bound=StrEnum)


def _word(data: JsonMapping, annotation: str, key: str, words: type[Word]) -> Word | None:
    value = data.get(key)
    if value is None or value == "":
        return None
    if value not in [word.value for word in words]:
        known = ", ".join(word.value for word in words if word.value)
        raise InvalidInput(f"{annotation}: {key}", value, f"one of {known}")
    return words(value)


def _numa_amount(data: object) -> NumaAmount:
    field = f"{RESOURCE_STATUS}: numaNodeResources"
    node = data.get("node", 0) if isinstance(data, dict) else None
    resources = (data.get("resources") or {}) if isinstance(data, dict) else None
    if not isinstance(node, int) or isinstance(node, bool) or node < 0 or not isinstance(resources, dict):
        raise InvalidInput(field, data, 'objects such as {"node": 0, "resources": {"cpu": "4"}}')
    return NumaAmount(
        node,
        milli(resources["cpu"], field) if "cpu" in resources else None,
        whole(resources["memory"], field) if "memory" in resources else None,
    )


def _numa_object(amount: NumaAmount) -> dict[str, object]:
    resources = {}
    if amount.cpu_m is not None:
        resources["cpu"] = format_milli(amount.cpu_m)
    if amount.memory_bytes is not None:
        resources["memory"] = format_bytes(amount.memory_bytes)
    return {"node": amount.node, "resources": resources}
