"""The CPU account of one node: the reported topology, the claims of pods, and the free CPUs.

A topology may be reported after the pods, change while pods run, or disappear. The CPUs of a pod come from an
annotation that any client can write, so two pods may claim the same CPU, or one that is offline or reserved for the
kubelet. Claims are stored as reported, by pod number, in order of arrival. For each claim the ledger holds what was
free when the claim was entered. It is recomputed from the claims when the reported topology changes, or when a pod
leaves while there are conflicting claims.
Limits: which of two conflicting pods holds a CPU in the ledger does not matter: the CPU is not free either way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cpus.amplification import NOT_AMPLIFIED, PPM, Ratios, amplified
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.cpus.spec import ExclusivePolicy, NumaAmount, ResourceStatus, TopologyPolicy
from cotenant.model.cpus.topology import mask_of, numbers_in
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger
from cotenant.policy.placement.cpus.node_fit import AS_USUAL, CpuNode, GivenCpus, NodeOptions, node_options
from cotenant.policy.placement.cpus.numa_amounts import NumaAmounts
from cotenant.policy.placement.cpus.numa_resized import resized_amounts


@dataclass(frozen=True, slots=True)
class CpuClaim:
    """What one pod holds, chosen by the engine or reported by its annotation. `cpus` is a mask."""

    pod: str  # namespace/name
    cpus: int
    exclusive: ExclusivePolicy = ExclusivePolicy.NONE
    numa: tuple[NumaAmount, ...] = ()

    @classmethod
    def reported(
        cls, pod: str, status: ResourceStatus, exclusive: ExclusivePolicy, cpu_m: int, memory_bytes: int
    ) -> CpuClaim:
        """From the pod's annotation, with NUMA amounts for what it requests now."""
        numa = resized_amounts(status.numa, cpu_m, memory_bytes, owns_cpus=bool(status.cpus))
        return cls(pod, mask_of(status.cpus), exclusive, numa)

    @classmethod
    def chosen(cls, pod: str, given: GivenCpus, exclusive: ExclusivePolicy) -> CpuClaim:
        """From the engine's choice."""
        return cls(pod, given.cpus, exclusive, given.numa)


@dataclass(slots=True)
class _Derived:
    """What follows from the reported topology and the claims."""

    node: CpuNode
    conflicts: dict[int, int]  # pod number -> mask of CPUs that it claims and does not have in the ledger


class CpuAccount:
    """The CPU account of one node. Nothing is free while no topology is reported."""

    def __init__(self) -> None:
        self.reported: NodeTopology | None = None
        self.labels: Labels = NO_LABELS
        self.annotation: str | None = None  # the node's ratios
        self.ratios = NOT_AMPLIFIED
        self.claims: dict[int, CpuClaim] = {}
        self._standing: _Derived | None = None

    @property
    def node(self) -> CpuNode | None:
        """The node as the policy sees it; None while no topology is reported."""
        return self._standing.node if self._standing is not None else None

    @property
    def options(self) -> NodeOptions:
        """From the node's labels and the kubelet's settings."""
        return self._standing.node.options if self._standing is not None else AS_USUAL

    @property
    def aligns(self) -> bool:
        """Whether the node has a NUMA policy."""
        return self.options.policy is not TopologyPolicy.NONE

    @property
    def is_idle(self) -> bool:
        """Whether no topology is reported and no pod claims anything."""
        return self.reported is None and not self.claims

    @property
    def is_amplified(self) -> bool:
        """Whether the node advertises more CPU than it has."""
        return self.reported is not None and self.ratios.cpu_ppm > PPM

    def surplus_m(self, number: int) -> int:
        """Milli-CPU that a pod takes of an amplified node beside its request: its own CPUs count amplified."""
        own_m = 1000 * self.claims[number].cpus.bit_count()
        return amplified(own_m, self.ratios.cpu_ppm) - own_m if self.is_amplified else 0

    def report(self, reported: NodeTopology | None) -> None:
        """Set the reported topology; None = no longer reported."""
        self.reported = reported
        self._set_ratios()
        self._standing = self._made()

    def describe_node(self, node: Node) -> None:
        """Set the node's labels and the annotation of its amplification."""
        self.labels, self.annotation = node.labels, node.annotations.get(AMPLIFICATION_RATIO)
        before = self.ratios
        self._set_ratios()
        if before != self.ratios:
            self._standing = self._made()
        elif self.reported is not None and self._standing is not None:
            standing = self._standing.node
            options = node_options(self.labels, self.reported, self.ratios)
            self._standing.node = CpuNode(standing.ledger, standing.amounts, options)

    def is_described_by(self, node: Node) -> bool:
        """Whether labels and annotation are those of the node."""
        return self.labels == node.labels and self.annotation == node.annotations.get(AMPLIFICATION_RATIO)

    def _set_ratios(self) -> None:
        """By the node's annotation, else by the reported topology; an annotation that cannot be read counts as
        absent.
        """
        topology = self.reported
        reported = Ratios(topology.ratio_ppm, topology.memory_ratio_ppm) if topology is not None else NOT_AMPLIFIED
        try:
            self.ratios = Ratios.parse(self.annotation) if self.annotation else reported
        except InvalidInput:
            self.ratios = reported

    def claim(self, number: int, claim: CpuClaim) -> int:
        """Enter a pod's claim. Returns the mask of claimed CPUs that it cannot have: claimed by others, reserved,
        or absent.
        """
        if number in self.claims:
            raise Permanent(f"{claim.pod} holds CPUs of this node already")
        self.claims[number] = claim
        if self._standing is None:
            return 0
        _enter(self._standing, number, claim, self.ratios.cpu_ppm)
        return self._standing.conflicts.get(number, 0)

    def release(self, number: int) -> CpuClaim:
        """Remove a pod's claim."""
        claim = self.claims.pop(number)
        standing = self._standing
        if standing is None:
            return claim
        standing.conflicts.pop(number, None)
        if standing.conflicts:  # another pod may have a conflicting claim on these CPUs
            self._standing = self._made()
            return claim
        before = standing.node
        uid = str(number)
        standing.node = CpuNode(before.ledger.returned(uid), before.amounts.returned(uid), before.options)
        return claim

    def without(self, numbers: Collection[int]) -> CpuNode | None:
        """The node as if these pods claimed nothing; None while no topology is reported. The account is unchanged."""
        standing = self._standing
        if standing is None or not any(number in self.claims for number in numbers):
            return self.node
        if standing.conflicts:
            made = self._made(numbers)
            return made.node if made is not None else None
        ledger, amounts = standing.node.ledger, standing.node.amounts
        for number in numbers:
            ledger, amounts = ledger.returned(str(number)), amounts.returned(str(number))
        return CpuNode(ledger, amounts, standing.node.options)

    def conflicts(self) -> dict[int, int]:
        """By pod number: mask of the CPUs that the pod claims and cannot have."""
        return dict(self._standing.conflicts) if self._standing is not None else {}

    def validate(self, name: str) -> None:
        """Check that the derived state is current and that no CPU has two holders in the ledger. Raises `Permanent`."""
        made = self._made()
        if (made is None) != (self._standing is None):
            raise Permanent(
                f"node {name}: the CPU ledger and the reported topology must both be present or both be absent"
            )
        if made is None or self._standing is None:
            return
        made.node.ledger.validate()
        taken = 0
        for holding in made.node.ledger.holdings:
            if holding.cpus & taken:
                raise Permanent(f"CPUs {format_cpus(numbers_in(holding.cpus & taken))} of node {name} have two holders")
            taken |= holding.cpus
        if made != self._standing:
            raise Permanent(f"the CPU ledger of node {name} differs from the claims of its pods")

    def _made(self, without: Collection[int] = ()) -> _Derived | None:
        if self.reported is None:
            return None
        ledger = CpuLedger.empty(self.reported.topology, reserved=self.reported.reserved)
        standing = _Derived(
            CpuNode(
                ledger,
                NumaAmounts.empty(self.reported, self.ratios),
                node_options(self.labels, self.reported, self.ratios),
            ),
            {},
        )
        for number, claim in self.claims.items():
            if number not in without:
                _enter(standing, number, claim, self.ratios.cpu_ppm)
        return standing


def validate_accounts(accounts: Mapping[str, CpuAccount], assigned: Mapping[str, Mapping[int, CpuClaim]]) -> None:
    """Check each account, and that it holds the claims of the pods on its node: `assigned`, by node and pod number.
    Raises `Permanent`.
    """
    for name, account in accounts.items():
        account.validate(name)
        if account.claims != assigned.get(name, {}):
            raise Permanent(f"the CPU claims of node {name} differ from the pods assigned to it")
    unknown = sorted(assigned.keys() - accounts.keys())
    if unknown:
        raise Permanent(f"pods hold CPUs of nodes without an account: {', '.join(unknown)}")


def _enter(standing: _Derived, number: int, claim: CpuClaim, ratio_ppm: int) -> None:
    """CPUs of its own count amplified on their NUMA nodes, as on the node."""
    node, uid = standing.node, str(number)
    ledger, amounts = node.ledger, node.amounts
    had = claim.cpus & ledger.free
    if claim.cpus != had:
        standing.conflicts[number] = claim.cpus & ~had
    if had:
        ledger = ledger.given(CpuHolding(uid, had, claim.exclusive))
    held = claim.numa or tuple(
        NumaAmount(cpu_group.id, (cpu_group.mask & claim.cpus).bit_count() * 1000)
        for cpu_group in ledger.topology.numa
        if cpu_group.mask & claim.cpus
    )
    if claim.cpus and ratio_ppm > PPM:
        own_m = {cpu_group.id: 1000 * (cpu_group.mask & claim.cpus).bit_count() for cpu_group in ledger.topology.numa}
        held = tuple(_amplified(numa_amount, own_m.get(numa_amount.node, 0), ratio_ppm) for numa_amount in held)
    if held:
        amounts = amounts.given(uid, held)
    standing.node = CpuNode(ledger, amounts, node.options)


def _amplified(amount: NumaAmount, own_m: int, ratio_ppm: int) -> NumaAmount:
    more_m = amplified(own_m, ratio_ppm) - own_m
    return amount if not more_m else replace(amount, cpu_m=(amount.cpu_m or 0) + more_m)
