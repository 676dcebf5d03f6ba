"""One node's CPUs as a cluster's engine books them: what the node tells, who claims what, and what is free.

Problem: topologies come after pods, change under them and go away; pods' CPUs are told by annotations that anybody can write, so two may claim the
same CPU, or one that is offline or the kubelet's. Choice: claims are kept as told, by the pod's number, in the order of coming; the ledger has of
each what was free when its turn came, and is made anew from the claims when the node tells something else, or a pod goes whose claim met
another's. Limits: which of two pods that claim a CPU has it in the ledger is of no consequence: it is not free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.cpus.spec import ExclusivePolicy, NumaAmount, ResourceStatus, TopologyPolicy
from cotenant.model.cpus.topology import mask_of, numbers_in
from cotenant.model.errors import Permanent
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger
from cotenant.policy.placement.cpus.node_fit import AS_USUAL, CpuNode, Given, NodeOptions, node_options
from cotenant.policy.placement.cpus.numa_amounts import NumaAmounts


@dataclass(frozen=True, slots=True)
class Claim:
    """What one pod holds, as chosen or told. `cpus` is a mask."""

    pod: str  # namespace/name
    cpus: int
    exclusive: ExclusivePolicy = ExclusivePolicy.NONE
    numa: tuple[NumaAmount, ...] = ()

    @classmethod
    def told(cls, pod: str, status: ResourceStatus, exclusive: ExclusivePolicy) -> Claim:
        """From the annotation."""
        return cls(pod, mask_of(status.cpus), exclusive, status.numa)

    @classmethod
    def chosen(cls, pod: str, given: Given, exclusive: ExclusivePolicy) -> Claim:
        """From what was chosen."""
        return cls(pod, given.cpus, exclusive, given.numa)


@dataclass(slots=True)
class _Standing:
    """What is derived."""

    node: CpuNode
    met: dict[int, int]  # number -> CPUs that it claims and does not have in the ledger


class CpuBooks:
    """One node. Nothing is free while it tells no topology."""

    def __init__(self) -> None:
        self.told: NodeTopology | None = None
        self.labels: Labels = NO_LABELS
        self.claims: dict[int, Claim] = {}
        self._standing: _Standing | None = None

    @property
    def node(self) -> CpuNode | None:
        """For the policy; None while it tells no topology."""
        return self._standing.node if self._standing is not None else None

    @property
    def options(self) -> NodeOptions:
        """As labels and kubelet say."""
        return self._standing.node.options if self._standing is not None else AS_USUAL

    @property
    def aligns(self) -> bool:
        """Whether the node has a NUMA policy."""
        return self.options.policy is not TopologyPolicy.NONE

    @property
    def is_idle(self) -> bool:
        """Whether nothing is known of it, and nobody claims anything."""
        return self.told is None and not self.claims

    def tell(self, told: NodeTopology | None) -> None:
        """What the node tells now."""
        self.told = told
        self._standing = self._made()

    def relabel(self, labels: Labels) -> None:
        """The node's labels now."""
        self.labels = labels
        if self.told is not None and self._standing is not None:
            before = self._standing.node
            self._standing.node = CpuNode(before.ledger, before.amounts, node_options(labels, self.told))

    def claim(self, number: int, claim: Claim) -> int:
        """A pod takes its CPUs; those that it cannot have, as a mask: others claim them, they are kept, or not there."""
        if number in self.claims:
            raise Permanent(f"{claim.pod} holds CPUs of this node already")
        self.claims[number] = claim
        if self._standing is None:
            return 0
        _enter(self._standing, number, claim)
        return self._standing.met.get(number, 0)

    def release(self, number: int) -> Claim:
        """A pod gives its CPUs back."""
        claim = self.claims.pop(number)
        standing = self._standing
        if standing is None:
            return claim
        standing.met.pop(number, None)
        if standing.met:  # somebody may have waited for these
            self._standing = self._made()
            return claim
        before = standing.node
        uid = str(number)
        standing.node = CpuNode(before.ledger.returned(uid), before.amounts.returned(uid), before.options)
        return claim

    def met(self) -> dict[int, int]:
        """By number: CPUs that a pod claims and cannot have, as masks."""
        return dict(self._standing.met) if self._standing is not None else {}

    def validate(self, name: str) -> None:
        """What is derived is what would be derived now, and no CPU is two pods' in the ledger. Raises `Permanent`."""
        made = self._made()
        if (made is None) != (self._standing is None):
            raise Permanent(f"the CPUs of node {name} are kept, and nobody tells of them, or the other way round")
        if made is None or self._standing is None:
            return
        made.node.ledger.validate()
        taken = 0
        for holding in made.node.ledger.holdings:
            if holding.cpus & taken:
                raise Permanent(f"CPUs {format_cpus(numbers_in(holding.cpus & taken))} of node {name} are held twice")
            taken |= holding.cpus
        if made != self._standing:
            raise Permanent(f"the CPUs of node {name} are booked otherwise than its pods' claims say")

    def _made(self) -> _Standing | None:
        if self.told is None:
            return None
        ledger = CpuLedger.empty(self.told.topology, reserved=self.told.reserved)
        standing = _Standing(CpuNode(ledger, NumaAmounts.empty(self.told), node_options(self.labels, self.told)), {})
        for number, claim in self.claims.items():
            _enter(standing, number, claim)
        return standing


def validate_books(books: Mapping[str, CpuBooks], seated: Mapping[str, Mapping[int, Claim]]) -> None:
    """Every node's books are right, and say what the pods that sit there claim: `seated`, by node and number. Raises `Permanent`."""
    for name, each in books.items():
        each.validate(name)
        if each.claims != seated.get(name, {}):
            raise Permanent(f"who holds CPUs of node {name} differs from who sits there")
    unknown = sorted(seated.keys() - books.keys())
    if unknown:
        raise Permanent(f"CPUs of {', '.join(unknown)} are held and not booked")


def _enter(standing: _Standing, number: int, claim: Claim) -> None:
    node, uid = standing.node, str(number)
    ledger, amounts = node.ledger, node.amounts
    had = claim.cpus & ledger.free
    if claim.cpus != had:
        standing.met[number] = claim.cpus & ~had
    if had:
        ledger = ledger.given(CpuHolding(uid, had, claim.exclusive))
    held = claim.numa or tuple(
        NumaAmount(each.id, (each.mask & claim.cpus).bit_count() * 1000)
        for each in ledger.topology.numa
        if each.mask & claim.cpus
    )
    if held:
        amounts = amounts.given(uid, held)
    standing.node = CpuNode(ledger, amounts, node.options)
