"""How a pod's devices are to be chosen: three annotations as values.

Network cards follow GPUs, a job may require one PCIe switch or NUMA node, a partition table may be enforced.
Koordinator's annotations, parsed strictly; a selector that cannot be parsed makes the pod unschedulable rather than
select anything.
Limits: `exclusivePolicy` PCIeLevel is parsed, but nothing here keeps other pods off that switch (nor does upstream's
allocator).

Source: Koordinator, apis/extension/device_share.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from cotenant.model.cluster.labels import LabelSelector, Requirement, SelectorOperator
from cotenant.model.devices.device import DeviceType
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject, json_object
from cotenant.model.quantities import whole

ALLOCATE_HINT = "scheduling.koordinator.sh/device-allocate-hint"  # on pods: JSON, by device type
JOINT_ALLOCATE = "scheduling.koordinator.sh/device-joint-allocate"  # on pods: JSON
PARTITION_SPEC = "scheduling.koordinator.sh/gpu-partition-spec"  # on pods: JSON


class DeviceScope(IntEnum):
    """A part of a node that contains devices; larger values are closer."""

    NODE = 1
    NUMA = 2
    PCIE = 3
    DEVICE = 4


_SCOPES = {
    "Node": DeviceScope.NODE,
    "NUMANode": DeviceScope.NUMA,
    "PCIe": DeviceScope.PCIE,
    "Device": DeviceScope.DEVICE,
}
SCOPE_WORDS = {scope: word for word, scope in _SCOPES.items()}


class CountBy(StrEnum):
    """Meaning of the requested number of cards; by default (""), an amount of one card or a number of cards."""

    AMOUNT = ""
    ALL = "ApplyForAll"  # the amount from every selected card
    REQUESTS = "RequestsAsCount"  # as many cards as the requested percentage


@dataclass(frozen=True, slots=True)
class DeviceHint:
    """Allocation hints for one device type."""

    type: DeviceType
    selector: LabelSelector | None = None  # which devices; None = any
    function_selector: LabelSelector | None = (
        None  # a virtual function of a matching group is required; None = no function
    )
    count_by: CountBy = CountBy.AMOUNT
    scope: DeviceScope = DeviceScope.NODE  # required
    whole_device: bool = False  # exclusivePolicy DeviceLevel: with REQUESTS, each card is allocated whole


@dataclass(frozen=True, slots=True)
class JointAllocation:
    """Device types allocated together; the first one decides the location."""

    types: tuple[DeviceType, ...]
    same_pcie: bool = False


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """Which partitions of the table are accepted."""

    best_only: bool = False  # only those with the best score
    bandwidth: int | None = None  # minimum ring-bus bandwidth, in the table's unit


def parse_hints(text: str) -> tuple[DeviceHint, ...]:
    """Parse the annotation. Raises `InvalidInput`."""
    found = []
    for name, data in sorted(json_object(ALLOCATE_HINT, text).items()):
        type_ = _type(ALLOCATE_HINT, name)
        field = f"{ALLOCATE_HINT}: {name}"
        if not isinstance(data, dict):
            raise InvalidInput(field, data, "an object")
        exclusive = _one_of(data, field, "exclusivePolicy", ("", "DeviceLevel", "PCIeLevel"))
        found.append(
            DeviceHint(
                type_,
                _selector(data.get("selector"), f"{field}.selector"),
                _selector(data.get("vfSelector"), f"{field}.vfSelector"),
                CountBy(_one_of(data, field, "allocateStrategy", tuple(CountBy))),
                _SCOPES[_one_of(data, field, "requiredTopologyScope", ("Node", *_SCOPES))],
                exclusive == "DeviceLevel",
            )
        )
    return tuple(found)


def parse_joint(text: str) -> JointAllocation | None:
    """Parse the annotation; None where it names no types. Raises `InvalidInput`."""
    data = json_object(JOINT_ALLOCATE, text)
    names = data.get("deviceTypes") or []
    if not isinstance(names, list) or len(set(map(str, names))) < len(names):
        raise InvalidInput(f"{JOINT_ALLOCATE}: deviceTypes", names, "a list of device types, each once")
    scope = _one_of(data, JOINT_ALLOCATE, "requiredScope", ("", "SamePCIe"))
    types = tuple(_type(JOINT_ALLOCATE, name) for name in names)
    return JointAllocation(types, scope == "SamePCIe") if types else None


def parse_partition_spec(text: str) -> PartitionSpec:
    """Parse the annotation. Raises `InvalidInput`."""
    data = json_object(PARTITION_SPEC, text)
    policy = _one_of(data, PARTITION_SPEC, "allocatePolicy", ("BestEffort", "Restricted"))
    bandwidth = data.get("ringBusBandwidth")
    field = f"{PARTITION_SPEC}: ringBusBandwidth"
    return PartitionSpec(policy == "Restricted", None if bandwidth is None else whole(bandwidth, field))


def _type(annotation: str, name: object) -> DeviceType:
    if not isinstance(name, str) or name not in tuple(DeviceType):
        raise InvalidInput(annotation, name, f"one of {', '.join(DeviceType)}")
    return DeviceType(name)


def _one_of(data: JsonObject, field: str, key: str, words: tuple[str, ...]) -> str:
    """The word under a key; the first of `words` where it is absent."""
    word = data.get(key) or words[0]
    if word not in words:
        raise InvalidInput(f"{field}: {key}", word, f"one of {', '.join(filter(None, words))}")
    return str(word)


def _selector(data: object, field: str) -> LabelSelector | None:
    if data is None:
        return None
    labels = data.get("matchLabels") or {} if isinstance(data, dict) else None
    expressions = data.get("matchExpressions") or [] if isinstance(data, dict) else None
    if not isinstance(labels, dict) or not isinstance(expressions, list):
        raise InvalidInput(field, data, "a label selector")
    requirements = []
    for expression in expressions:
        operator = expression.get("operator") if isinstance(expression, dict) else None
        values = (expression.get("values") or []) if isinstance(expression, dict) else None
        if operator not in tuple(SelectorOperator) or not isinstance(values, list):
            raise InvalidInput(field, expression, "a key, an operator and values")
        requirements.append(Requirement(str(expression.get("key") or ""), SelectorOperator(operator), tuple(values)))
    return LabelSelector.of(labels, tuple(requirements))
