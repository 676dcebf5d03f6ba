"""Who has which CPUs of one node for himself.

Problem: what is free must be known at once, also where a CPU may be given several times. Choice: a frozen value; for each number of users a
mask of the CPUs that have so many or more, kept by adding with carry, and every holding by its pod, from which all of it can be made again.
Limits: pods without CPUs of their own are not here; they share what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.cpus.spec import ExclusivePolicy
from cotenant.model.cpus.topology import CpuTopology, numbers_in
from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class CpuHolding:
    """What one pod was given. `cpus` is a mask."""

    uid: str
    cpus: int
    exclusive: ExclusivePolicy = ExclusivePolicy.NONE


@dataclass(frozen=True, slots=True)
class CpuLedger:
    """`at_least[k]` are the CPUs with more than k users; nothing of `reserved` (kubelet's, the system's) is ever given."""

    topology: CpuTopology
    most_users: int
    reserved: int
    at_least: tuple[int, ...]  # one mask for each number of users up to `most_users`
    holdings: tuple[CpuHolding, ...] = ()

    @classmethod
    def empty(cls, topology: CpuTopology, most_users: int = 1, reserved: int = 0) -> CpuLedger:
        """Nobody has any. `most_users`: how many pods may be given the same CPU."""
        if most_users < 1:
            raise InvalidInput("most_users", most_users, "1 or more")
        return cls(topology, most_users, reserved & topology.mask, (0,) * most_users)

    @property
    def free(self) -> int:
        """CPUs that can be given once more."""
        return self.topology.mask & ~self.reserved & ~self.at_least[-1]

    def users(self, cpu: int) -> int:
        """How many pods have this CPU."""
        return sum(mask >> cpu & 1 for mask in self.at_least)

    def exclusive(self, policy: ExclusivePolicy) -> int:
        """All CPUs that a pod of this policy avoids: those beside a holder of the same policy. Nothing for `NONE`."""
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
        """With this holding. Raises `InvalidInput` where a CPU cannot be given once more, or the pod holds some already."""
        if holding.cpus & ~self.free:
            taken = format_cpus(numbers_in(holding.cpus & ~self.free))
            raise InvalidInput("cpus", taken, "CPUs that are free", f"{holding.uid} was given others' or reserved ones")
        if any(other.uid == holding.uid for other in self.holdings):
            raise InvalidInput("uid", holding.uid, "a pod without CPUs of its own")
        return replace(self, at_least=_counted(self.at_least, holding.cpus), holdings=(*self.holdings, holding))

    def returned(self, uid: str) -> CpuLedger:
        """Without what this pod held; unchanged where it held nothing."""
        left = tuple(holding for holding in self.holdings if holding.uid != uid)
        if len(left) == len(self.holdings):
            return self
        return replace(self, at_least=_recounted(left, self.most_users), holdings=left)

    def validate(self) -> None:
        """Count again from the holdings; `InvalidInput` at a difference."""
        if self.at_least != _recounted(self.holdings, self.most_users):
            raise InvalidInput("cpu ledger", self.at_least, "the holdings' sums")
        for holding in self.holdings:
            if holding.cpus & ~self.topology.mask or holding.cpus & self.reserved:
                raise InvalidInput("cpu ledger", holding.uid, "CPUs of the node that are not reserved")


def _counted(at_least: tuple[int, ...], cpus: int) -> tuple[int, ...]:
    """One more user for each of `cpus`: those that had k already go on to the next mask."""
    counted = []
    for mask in at_least:
        counted.append(mask | cpus)
        cpus &= mask
    return tuple(counted)


def _recounted(holdings: tuple[CpuHolding, ...], most_users: int) -> tuple[int, ...]:
    at_least: tuple[int, ...] = (0,) * most_users
    for holding in holdings:
        at_least = _counted(at_least, holding.cpus)
    return at_least
