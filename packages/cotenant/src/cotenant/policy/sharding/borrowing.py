"""Which nodes and which room of quotas a shard asks of others, and what it lends.

A shard places on its own nodes first. It asks for others where its own have no room, the roomiest first, so that few
nodes change hands. A node is lent where nothing is awaited on it: that a pod of the lender waits is no reason to keep
it, as the pod would be there if it fitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

MAX_LOANS = 2_000  # all of them are in one object, whose annotations an API server limits to 256 KiB
MAX_LOAN_BYTES = 100_000  # of the names of these nodes
MAX_ASKED = 64  # with one step
MAX_ROOMS = 256  # of quotas, all of them are in that object too
MAX_ROOM_BYTES = 120_000  # of these, as they are written
MAX_PODS = 256  # for which room of one quota is asked at one time


class BorrowableNode(NamedTuple):
    """A node of another shard, and how many of the waiting pods it has room for, as far as is known."""

    node: str
    pods: int


@dataclass(frozen=True, slots=True)
class LoanLimits:
    """How much may be lent, and for how long."""

    loan_s: float = 30.0
    refused_s: float = 10.0  # how long a node that was refused, or did not help, is not asked for again
    max_share: float = 0.5  # of a shard's nodes that are lent at one time
    max_rooms: int = MAX_ROOMS  # of quotas that are lent at one time; 0 = none
    room_wait_s: float = 2.0  # how long a shard that has nothing left of a quota waits for more before it returns it


def loan_bytes(node: str) -> int:
    """Of a loan as it is written."""
    return len(node) + 6


def room_bytes(names: int, resources: Iterable[str]) -> int:
    """Of room of a quota as it is written, at most. `names`: characters of the quota's and the gang's; `resources`: of
    which amounts are written three times.
    """
    return names + 80 + 3 * sum(len(name) + 21 for name in resources)


def choose(rooms: Iterable[BorrowableNode], pods: int, at_most: int = MAX_ASKED) -> tuple[str, ...]:
    """The nodes to ask for, so that `pods` pods find room."""
    chosen: list[str] = []
    for room in sorted(rooms, key=lambda room: (-room.pods, room.node)):
        if pods <= 0 or len(chosen) >= at_most:
            break
        if room.pods > 0:
            chosen.append(room.node)
            pods -= room.pods
    return tuple(chosen)


def may_lend(lent: int, owned: int, is_awaited: bool, limits: LoanLimits) -> bool:
    """Whether one more node is lent; `is_awaited`: somebody waits for pods to end on it."""
    return not is_awaited and lent + 1 <= max(1, int(limits.max_share * owned))


def pods_to_grant(asked: int, fitting: int, beside: int) -> int:
    """For how many of the pods of another shard room of a quota is lent: `fitting` would have room after all that go
    first here, and `beside` of those that wait here have the same right.
    """
    if asked + beside <= fitting:
        return asked
    return min(asked, -(-max(0, fitting) * asked // max(1, asked + beside)))
