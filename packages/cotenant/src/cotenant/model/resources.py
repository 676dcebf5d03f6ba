"""Resources: their names, their units, and amounts of several at once.

Every component must agree on the unit of an integer amount. A resource is identified by its Kubernetes name, an amount
is an integer in that resource's one unit, and `Amounts` is an immutable sorted list of (name, amount).
Limits: amounts stay below 2^53, which is exact in the float64 of compiled scores and exceeds every machine.

Sources: Kubernetes' resource model (extended resources are whole numbers; a pod's requests are the larger of its init
phase and its running phase, plus overhead; sidecar rule of KEP-753); Koordinator's co-location resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import format_bytes, format_milli, parse_quantity

CPU_NAME = "cpu"
MEMORY_NAME = "memory"
PODS_NAME = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
BATCH_CPU = "kubernetes.io/batch-cpu"
BATCH_MEMORY = "kubernetes.io/batch-memory"
MID_CPU = "kubernetes.io/mid-cpu"
MID_MEMORY = "kubernetes.io/mid-memory"
LENT_CPU = (BATCH_CPU, MID_CPU)  # what a manager offers of CPU that services leave idle
LENT_MEMORY = (BATCH_MEMORY, MID_MEMORY)
GPU = "koordinator.sh/gpu"
GPU_SHARED = "koordinator.sh/gpu.shared"
GPU_CORE = "koordinator.sh/gpu-core"
GPU_MEMORY = "koordinator.sh/gpu-memory"
GPU_MEMORY_RATIO = "koordinator.sh/gpu-memory-ratio"
RDMA = "koordinator.sh/rdma"
FPGA = "koordinator.sh/fpga"
NVIDIA_GPU = "nvidia.com/gpu"

# The order of the first columns of every resource axis (model/arrays.py).
FIRST = (CPU_NAME, MEMORY_NAME, PODS_NAME)

NOWHERE = "resources that no node has"  # a column for all of them that are not told apart (engine/encoding)

MAX_AMOUNT = 2**53
_PLAIN = 12  # characters: such an amount is far below the largest


class Unit(Enum):
    """Unit of an amount; the value is its text for users."""

    MILLI_CPU = "milli-CPU"
    BYTES = "bytes"
    PERCENT = "percent of a device"
    COUNT = "count"


_UNITS = {
    CPU_NAME: Unit.MILLI_CPU,
    BATCH_CPU: Unit.MILLI_CPU,
    MID_CPU: Unit.MILLI_CPU,
    MEMORY_NAME: Unit.BYTES,
    EPHEMERAL_STORAGE: Unit.BYTES,
    BATCH_MEMORY: Unit.BYTES,
    MID_MEMORY: Unit.BYTES,
    GPU_MEMORY: Unit.BYTES,
    GPU: Unit.PERCENT,
    GPU_CORE: Unit.PERCENT,
    GPU_MEMORY_RATIO: Unit.PERCENT,
    RDMA: Unit.PERCENT,
    FPGA: Unit.PERCENT,
}

# Short names used by the co-location literature and by our own tables.
_SHORT = {
    "batch-cpu": BATCH_CPU,
    "batch-memory": BATCH_MEMORY,
    "mid-cpu": MID_CPU,
    "mid-memory": MID_MEMORY,
    "gpu-core": GPU_CORE,
    "gpu-memory": GPU_MEMORY,
    "gpu-memory-ratio": GPU_MEMORY_RATIO,
}


# Names of earlier versions of the protocol (founding text, v0.7), read as those of today.
EARLIER = {f"kubernetes.io/{short}": _SHORT[short] for short in ("gpu-core", "gpu-memory", "gpu-memory-ratio")}


def unit_of(name: str) -> Unit:
    """The unit of a resource's amounts; an unknown resource is counted."""
    if name.startswith("hugepages-"):
        return Unit.BYTES
    return _UNITS.get(name, Unit.COUNT)


def kubernetes_name(name: str) -> str:
    """The Kubernetes name for a short one (`batch-cpu` -> `kubernetes.io/batch-cpu`); other names are returned
    unchanged.
    """
    return _SHORT.get(name, name)


def parse_amount(name: str, text: str | int | float, field: str | None = None) -> int:
    """One resource's amount in its unit.

    CPU is written in cores and rounded up to milli-CPU; batch-cpu and mid-cpu are written as whole numbers of
    milli-CPU. Bytes round up. Everything else must be a whole number, as the API server requires of extended resources.
    Raises `InvalidInput` for negative amounts and for 2^53 or more.
    """
    field = field or name
    if (
        name == CPU_NAME and isinstance(text, str) and len(text) <= _PLAIN and text.isascii()
    ):  # as nearly all are written
        digits = text.removesuffix("m")
        if digits.isdecimal():
            return int(digits) * (1000 if len(digits) == len(text) else 1)
    quantity = parse_quantity(text, field)
    if quantity.nano < 0:
        raise InvalidInput(field, str(quantity), "an amount that is not negative")
    amount = quantity.milli(field) if name == CPU_NAME else quantity.value()
    if unit_of(name) is not Unit.BYTES and name != CPU_NAME and quantity.nano % 1_000_000_000:
        raise InvalidInput(field, str(quantity), "a whole number", f"{name} cannot be divided")
    _check(field, amount)
    return amount


def format_amount(name: str, amount: int) -> str:
    """Canonical Kubernetes text of an amount."""
    unit = unit_of(name)
    if name == CPU_NAME:
        return format_milli(amount)
    return format_bytes(amount) if unit is Unit.BYTES else str(amount)


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts of several resources, sorted by name; a resource that is absent counts as 0 in arithmetic."""

    items: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.items]
        if names != sorted(set(names)):
            object.__setattr__(self, "items", tuple(sorted(self.items)))
            if len(set(names)) < len(names):
                raise InvalidInput("resources", ", ".join(names), "each resource once")
        for name, amount in self.items:
            _check(name, amount)

    @classmethod
    def of(cls, amounts: Mapping[str, int] | Iterable[tuple[str, int]]) -> Amounts:
        """From integers already in each resource's unit."""
        return cls(tuple(sorted(amounts.items() if isinstance(amounts, Mapping) else amounts)))

    @classmethod
    def parse(cls, amounts: Mapping[str, str | int | float], field: str = "resources") -> Amounts:
        """From a manifest's resource list, with the names of today; errors are reported on `field.NAME`."""
        if not isinstance(amounts, Mapping):
            raise InvalidInput(field, amounts, "a mapping of resource names to quantities")
        return cls(
            tuple(
                sorted(
                    (now := EARLIER.get(name, name), parse_amount(now, text, f"{field}.{name}"))
                    for name, text in amounts.items()
                )
            )
        )

    def get(self, name: str) -> int:
        """The amount of one resource, 0 where it is absent."""
        for other, amount in self.items:
            if other == name:
                return amount
        return 0

    def names(self) -> tuple[str, ...]:
        """Names of the resources present, sorted."""
        return tuple(name for name, _ in self.items)

    def __contains__(self, name: object) -> bool:
        return any(other == name for other, _ in self.items)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self.items)

    def __bool__(self) -> bool:
        return bool(self.items)

    def __add__(self, other: Amounts) -> Amounts:
        if not (self.items and other.items):
            return self if self.items else other
        total = dict(self.items)
        for name, amount in other.items:
            total[name] = total.get(name, 0) + amount
        return Amounts.of(total)

    def maximum(self, other: Amounts) -> Amounts:
        """The larger amount of each resource."""
        if not (self.items and other.items):
            return self if self.items else other
        larger = dict(self.items)
        for name, amount in other.items:
            larger[name] = max(larger.get(name, 0), amount)
        return Amounts.of(larger)

    def replaced(self, other: Amounts) -> Amounts:
        """These amounts, overridden by those present in `other`."""
        return Amounts.of({**dict(self.items), **dict(other.items)}) if other.items else self

    def __str__(self) -> str:
        return ", ".join(f"{name} {format_amount(name, amount)}" for name, amount in self.items) or "nothing"


NOTHING = Amounts()


@dataclass(frozen=True, slots=True)
class ContainerAmounts:
    """Requests and limits of one container. A limit without a request is the request, as the API server defaults it."""

    requests: Amounts = NOTHING
    limits: Amounts = NOTHING
    is_sidecar: bool = (
        False  # an init container with restartPolicy Always: it keeps running beside the following containers
    )

    def effective(self) -> Amounts:
        """Requests, with the limit where only a limit is set."""
        return self.limits.replaced(self.requests)


def pod_requests(
    containers: Sequence[ContainerAmounts],
    init_containers: Sequence[ContainerAmounts] = (),
    overhead: Amounts = NOTHING,
    pod_level: Amounts = NOTHING,
) -> Amounts:
    """The effective request of a pod: max(init phase, running phase) + overhead, per resource.

    The running phase is the sum of all containers and sidecars. An init container runs beside the sidecars that started
    before it, so the init phase is the largest such sum. Pod-level amounts replace the sum over the containers.
    """
    running: dict[str, int] = {}  # of containers and sidecars; a pod may have ten thousand of them
    for container in containers:
        _add(running, container.effective())
    sidecars: dict[str, int] = {}
    init_peak: dict[str, int] = {}  # of what the init containers themselves request
    for container in init_containers:
        asked = container.effective()
        if container.is_sidecar:
            _add(sidecars, asked)
            _add(running, asked)
            continue
        for name, amount in asked:
            init_peak[name] = max(init_peak.get(name, 0), sidecars.get(name, 0) + amount)
    return Amounts.of(running).maximum(Amounts.of(init_peak)).replaced(pod_level) + overhead


def _add(total: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts:
        total[name] = total.get(name, 0) + amount


@dataclass(frozen=True, slots=True)
class ResourceAxis:
    """The columns of the resource axis: cpu, memory, pods, then other resources in order of first appearance."""

    names: tuple[str, ...] = FIRST

    def __post_init__(self) -> None:
        if self.names[: len(FIRST)] != FIRST:
            raise InvalidInput("resource axis", ", ".join(self.names), f"{', '.join(FIRST)} first")
        if len(set(self.names)) < len(self.names):
            raise InvalidInput("resource axis", ", ".join(self.names), "each resource once")

    def __len__(self) -> int:
        return len(self.names)

    def column(self, name: str) -> int:
        """The column of a resource; raises `InvalidInput` where the axis has none."""
        try:
            return self.names.index(name)
        except ValueError:
            raise InvalidInput("resource", name, f"one of {', '.join(self.names)}") from None

    def extended(self, names: Iterable[str]) -> ResourceAxis:
        """This axis with the new ones of `names` appended."""
        new = [name for name in dict.fromkeys(names) if name not in self.names]
        return ResourceAxis((*self.names, *new)) if new else self

    def row(self, amounts: Amounts) -> list[int]:
        """Amounts in column order, 0 where absent. A resource outside the axis is 1 in the column `NOWHERE`; raises
        `InvalidInput` where the axis has no such column.
        """
        row = [0] * len(self.names)
        for name, amount in amounts:
            if name not in self.names and NOWHERE in self.names:
                row[self.column(NOWHERE)] = 1
            else:
                row[self.column(name)] = amount
        return row


def _check(field: str, amount: int) -> None:
    if isinstance(amount, bool) or not isinstance(amount, int):
        raise InvalidInput(field, amount, "an integer")
    if amount < 0:
        raise InvalidInput(field, amount, "an amount that is not negative")
    if amount >= MAX_AMOUNT:
        raise InvalidInput(field, amount, f"less than {MAX_AMOUNT}", "no machine has that much")
