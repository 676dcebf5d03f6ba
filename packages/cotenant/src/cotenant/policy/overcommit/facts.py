"""What a policy of overcommitment knows of one node, and the amounts that it answers with.

Upstream writes one number on the node and nobody can recompute it (issues 2297, 1729). An amount carries the terms that
it is the sum of, as signed integers in the resource's unit, so that `sum(terms) == value` holds to the milli-CPU and to
the byte; every cut (floor at zero, upper limit, rounding) is a term too.
Limits: CPU and memory only; GPUs and RDMA devices are sums over their Device object.
Source: Koordinator, pkg/slo-controller/noderesource.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import NO_USE, HostApplication, MeasuredPod, Use


class Policy(StrEnum):
    """How batch amounts are computed; the values are those of `cpuCalculatePolicy`. PEAK and PREDICTED are
    additions of ours.
    """

    USAGE = "usage"
    REQUEST = "request"
    MAX_USAGE_REQUEST = "maxUsageRequest"
    PEAK = "peak"
    PREDICTED = "predicted"

    @property
    def is_at_risk(self) -> bool:
        """Whether the amount is what will not be used at a stated risk, and no formula of the present."""
        return self in (Policy.PEAK, Policy.PREDICTED)


@dataclass(frozen=True, slots=True)
class ActivePod:
    """A pod that is Pending or Running on the node, with its classes as they are after defaulting."""

    key: str  # namespace/name
    priority_class: PriorityClass
    request: Use
    qos: QoSClass = QoSClass.NONE
    zones: tuple[int, ...] | None = None  # NUMA nodes allocated to it; None = any
    uid: str = ""
    service: str = ""  # its application label


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node: sizes, pods, and the last measurement. A pod without an entry in `measured` has no sample; an entry
    without a pod is dangling.
    """

    capacity: Use
    allocatable: Use  # raw: before amplification
    pods: tuple[ActivePod, ...] = ()
    annotated_reservation: Use = NO_USE
    usage: Use | None = None
    system: Use = NO_USE
    measured: Mapping[str, MeasuredPod] = field(default_factory=dict)
    host_applications: tuple[HostApplication, ...] = ()
    prod_reclaimable: Use | None = None
    zones: tuple[Use, ...] = ()  # capacity of each NUMA node; empty = no topology is known

    @property
    def reserved(self) -> Use:
        """What pods cannot have: the kubelet's own reservation or the annotated one, the larger of each."""
        return larger(self.capacity.beyond(self.allocatable), self.annotated_reservation)


@dataclass(frozen=True, slots=True)
class AmountTerm:
    """One summand of an amount, negative where it is taken away."""

    name: str
    amount: int


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of one resource and its terms. Raises `InvalidInput` where they do not add up."""

    resource: str  # short name, e.g. batch-cpu
    policy: str
    value: int
    terms: tuple[AmountTerm, ...]

    def __post_init__(self) -> None:
        total = sum(term.amount for term in self.terms)
        if total != self.value:
            raise InvalidInput(self.resource, self.value, f"the sum of its terms, {total}")

    def then(self, name: str, value: int) -> Amount:
        """This amount changed to `value`; the difference is a term of that name. The same amount where nothing
        changes.
        """
        if value == self.value:
            return self
        return Amount(self.resource, self.policy, value, (*self.terms, AmountTerm(name, value - self.value)))


def summed(resource: str, policy: str, *terms: tuple[str, int]) -> Amount:
    """The sum of the terms, at least zero; terms that are zero are kept, for they say that nothing was subtracted."""
    total = sum(amount for _, amount in terms)
    amount = Amount(resource, policy, total, tuple(AmountTerm(*term) for term in terms))
    return amount.then("floor at zero", max(0, total))


def larger(a: Use, b: Use) -> Use:
    """The larger CPU and the larger memory."""
    return Use(max(a.cpu_m, b.cpu_m), max(a.memory_bytes, b.memory_bytes))


def percent(amount: int, share: int) -> int:
    """So many percent of an amount, rounded down."""
    return amount * share // 100


def reservation(cpu_m: int, memory_bytes: int, reserved_cpus: int | None) -> Use:
    """The node annotation's reservation; a set of reserved CPUs, given by its size, replaces the amount of CPU."""
    return Use(cpu_m if reserved_cpus is None else reserved_cpus * 1000, memory_bytes)
