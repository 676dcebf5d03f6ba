"""Own CPUs of one node and their holders.

The free CPUs must be known at once, also where a CPU may have several users. A frozen value; for each number of users a
mask of the CPUs with at least that many, updated by addition with carry, and every holding by its pod, from which the
masks can be recomputed.
Limits: pods without own CPUs are not included; they share the remainder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.cpus.spec import ExclusivePolicy
from cotenant.model.cpus.topology import CpuTopology, numbers_in
from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class CpuHolding:
    """CPUs allocated to one pod. `cpus` is a mask."""

    uid: str
    cpus: int
    exclusive: ExclusivePolicy = ExclusivePolicy.NONE


@dataclass(frozen=True, slots=True)
class CpuLedger:
    """`at_least[k]` are the CPUs with more than k users; CPUs in `reserved` (the kubelet's, the system's) are never
    allocated.
    """

    topology: CpuTopology
    max_users: int
    reserved: int
    at_least: tuple[int, ...]  # one mask per number of users up to `max_users`
    holdings: tuple[CpuHolding, ...] = ()

    @classmethod
    def empty(cls, topology: CpuTopology, max_users: int = 1, reserved: int = 0) -> CpuLedger:
        """A ledger without holdings. `max_users`: how many pods may hold the same CPU."""
        if max_users < 1:
            raise InvalidInput("max_users", max_users, "1 or more")
        return cls(topology, max_users, reserved & topology.mask, (0,) * max_users)

    @property
    def free(self) -> int:
        """CPUs that can be allocated once more."""
        return self.topology.mask & ~self.reserved & ~self.at_least[-1]

    def users(self, cpu: int) -> int:
        """Number of pods that hold this CPU."""
        return sum(mask >> cpu & 1 for mask in self.at_least)

    def exclusive(self, policy: ExclusivePolicy) -> int:
        """All CPUs that a pod of this policy avoids: those on a core or NUMA node with a holder of the same policy.
        Nothing for `NONE`.
        """
        if policy is ExclusivePolicy.NONE:
            return 0
        held = 0
        for holding in self.holdings:
            if holding.exclusive is policy:
                held |= holding.cpus
        if not held:
            return 0
        groups = self.topology.cores if policy is ExclusivePolicy.CORE else self.topology.numa
        avoided = 0
        for group in groups:
            if group.mask & held:
                avoided |= group.mask
        return avoided

    def given(self, holding: CpuHolding) -> CpuLedger:
        """The ledger with this holding. Raises `InvalidInput` where a CPU cannot be allocated once more, or the pod
        already holds some.
        """
        if holding.cpus & ~self.free:
            taken = format_cpus(numbers_in(holding.cpus & ~self.free))
            raise InvalidInput(
                "cpus", taken, "CPUs that are free", f"{holding.uid} holds CPUs of others or reserved ones"
            )
        if any(other.uid == holding.uid for other in self.holdings):
            raise InvalidInput("uid", holding.uid, "a pod without own CPUs")
        return replace(self, at_least=_counted(self.at_least, holding.cpus), holdings=(*self.holdings, holding))

    def returned(self, uid: str) -> CpuLedger:
        """The ledger without this pod's holding; unchanged where there is none."""
        left = tuple(holding for holding in self.holdings if holding.uid != uid)
        if len(left) == len(self.holdings):
            return self
        return replace(self, at_least=_recounted(left, self.max_users), holdings=left)

    def validate(self) -> None:
        """Recompute from the holdings; raises `InvalidInput` on a difference."""
        if self.at_least != _recounted(self.holdings, self.max_users):
            raise InvalidInput("cpu ledger", self.at_least, "the sums of the holdings")
        for holding in self.holdings:
            if holding.cpus & ~self.topology.mask or holding.cpus & self.reserved:
                raise InvalidInput("cpu ledger", holding.uid, "CPUs of the node that are not reserved")


def _counted(at_least: tuple[int, ...], cpus: int) -> tuple[int, ...]:
    """One more user for each of `cpus`: CPUs with k users move on to the next mask."""
    counted = []
    for mask in at_least:
        counted.append(mask | cpus)
        cpus &= mask
    return tuple(counted)


def _recounted(holdings: tuple[CpuHolding, ...], max_users: int) -> tuple[int, ...]:
    at_least: tuple[int, ...] = (0,) * max_users
    for holding in holdings:
        at_least = _counted(at_least, holding.cpus)
    return at_least
