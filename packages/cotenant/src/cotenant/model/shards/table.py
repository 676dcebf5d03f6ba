"""The one object on which the shards of a scheduler agree.

It is a register in the API server that is only ever replaced by compare-and-swap on its version, so its versions are
one sequence for all. Everything that decides who may bind what is in it: nothing follows from clocks of two machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from cotenant.model.resources import NOTHING, Amounts

MAX_SHARDS = 64
ROOMS_FORMAT = 2  # of the table, from which on room of quotas is lent: also for gangs, and what nobody may preempt


@dataclass(frozen=True, slots=True)
class SlotMember:
    """A replica that holds the Lease of a slot. `token` distinguishes its terms; it acts by no ring older than
    `settled`. `format`: the newest form of the table that it can keep; 0 = it does not say, and erases what it does not
    know.
    """

    slot: int
    identity: str
    token: str
    settled: int
    format: int = 0


@dataclass(frozen=True, slots=True)
class ShardRing:
    """The slots among which nodes and pods are divided, from this epoch on."""

    epoch: int
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Loan:
    """A node that one shard asks of another; only while `is_lent` may the borrower bind to it, and nobody else then."""

    borrower: int
    is_lent: bool = False


class RoomFor(NamedTuple):
    """For which pods of a quota a room is: what may be preempted and what may not count differently, and a gang has a
    room of its own, so that all of it is lent or nothing.
    """

    quota: str
    preemptible: bool = True
    gang: str = ""  # the first of those that are placed together


class RoomKey(NamedTuple):
    """Room of a quota in a shard that does not decide for the quota's tree."""

    of: RoomFor
    borrower: int


@dataclass(frozen=True, slots=True)
class QuotaRoom:
    """What one shard asks of a quota, and what it got; only while `is_lent` may it decide for those pods.

    Sums since it was asked for, so that a write that is repeated, or whose answer is lost, counts once. The lender adds
    to `granted`, the borrower to `used`, which is what it has bound of it. A gang is asked for as one pod.
    """

    asked: int = 0  # pods that wait for more; 1 = what waits of a gang
    each: Amounts = NOTHING  # the largest request of these, by resource, one of `pods` included
    priority: int = 0  # the highest of these
    is_lent: bool = False
    granted: Amounts = NOTHING
    used: Amounts = NOTHING


@dataclass(frozen=True, slots=True)
class ShardTable:
    """The agreement. `rings`: those by which somebody may still act, the newest last."""

    rings: tuple[ShardRing, ...] = ()
    members: tuple[SlotMember, ...] = ()
    lost: tuple[SlotMember, ...] = ()  # whose Lease is over, and whose last binds may still arrive
    loans: Mapping[str, Loan] = field(default_factory=lambda: MappingProxyType({}))  # by node
    rooms: Mapping[RoomKey, QuotaRoom] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def epoch(self) -> int:
        """Of the newest ring; 0 before the first."""
        return self.rings[-1].epoch if self.rings else 0

    @property
    def slots(self) -> tuple[int, ...]:
        """Of the newest ring."""
        return self.rings[-1].slots if self.rings else ()

    @property
    def format(self) -> int:
        """The newest form that all members can keep, or those that were the last."""
        return min((member.format for member in self.members or self.lost), default=0)

    @property
    def is_settled(self) -> bool:
        """Whether everybody acts by the newest ring, and nobody by an older one."""
        return not self.lost and all(member.settled == self.epoch for member in self.members)

    def ring(self, epoch: int) -> ShardRing | None:
        """A ring that is still kept."""
        return next((ring for ring in self.rings if ring.epoch == epoch), None)

    def member(self, slot: int) -> SlotMember | None:
        """Who has a slot."""
        return next((member for member in self.members if member.slot == slot), None)
