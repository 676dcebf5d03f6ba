"""Limits of concurrent moves: in the cluster, on a node, in a namespace, and of one workload.

A workload must not lose more replicas at once than it can bear, and a node, a namespace or the cluster not more pods
than configured. Counts of *other* moves under way are compared with a limit; of a workload, moving and unavailable pods
count together, each once. Percentages are rounded down, at least 1 and at most all replicas.
Source: Koordinator, pkg/descheduler/controllers/migration/arbitrator/filter.go and .../util/util.go
(GetMaxUnavailable).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.whole_number import whole_number

_MANY = 10  # above this many replicas, the default limit is a tenth of them
_SOME = 4  # from this many on, it is two


@dataclass(frozen=True, slots=True)
class ReplicaShare:
    """A number of replicas, or a percentage of them."""

    value: int
    is_percent: bool = False

    @classmethod
    def parse(cls, written: int | str, field: str) -> ReplicaShare:
        """From a number or "n%". Raises `InvalidInput`."""
        if isinstance(written, str):
            percent = whole_number(written.removesuffix("%"))
            if not written.endswith("%") or percent is None:
                raise InvalidInput(field, written, 'a number, or a percentage such as "10%"')
            return cls(percent, True)
        if isinstance(written, bool) or written < 0:
            raise InvalidInput(field, written, 'a number that is not negative, or a percentage such as "10%"')
        return cls(written)

    def of(self, replicas: int) -> int:
        """The number that it means for so many replicas: at least 1, and at most all of them, which may be none."""
        number = replicas * self.value // 100 if self.is_percent else self.value
        return min(max(1, number), replicas)


def limit_of_replicas(share: ReplicaShare | None, replicas: int) -> int:
    """The limit for a workload of so many replicas, 0 of none; by default a tenth above 10 replicas, two of 4 to
    10, else one.
    """
    if share is None:
        share = ReplicaShare(10, True) if replicas > _MANY else ReplicaShare(2 if replicas >= _SOME else 1)
    return share.of(replicas)


def has_expected_replicas(replicas: int, max_moving: ReplicaShare | None, max_unavailable: ReplicaShare | None) -> bool:
    """Whether the workload keeps a replica while as many as allowed move; a workload of one replica does not."""
    return (
        replicas != 1
        and limit_of_replicas(max_moving, replicas) != replicas
        and limit_of_replicas(max_unavailable, replicas) != replicas
    )


def admits_one_more(limit: int | None, others: int) -> bool:
    """Whether one more move fits beside so many others; 0 and None mean no limit."""
    return not limit or others < limit


@dataclass(frozen=True, slots=True)
class MovingWorkload:
    """A workload, with the UIDs of its pods that move and of those that are not available."""

    replicas: int
    moving: Collection[str]
    unavailable: Collection[str]


def workload_refuses(
    uid: str,
    workload: MovingWorkload,
    max_moving: ReplicaShare | None,
    max_unavailable: ReplicaShare | None,
    *,
    checks_moving: bool = True,
    checks_unavailable: bool = True,
) -> str:
    """Why a pod of the workload may not move now; empty = it may. The pod itself does not count as moving."""
    moving = set(workload.moving) - {uid}
    if checks_moving and moving:
        limit = limit_of_replicas(max_moving, workload.replicas)
        if len(moving) >= limit:
            return f"{len(moving)} of {workload.replicas} replicas are moving, at most {limit} may"
    if checks_unavailable:
        limit = limit_of_replicas(max_unavailable, workload.replicas)
        away = moving | set(workload.unavailable)
        if len(away) >= limit:
            return f"{len(away)} of {workload.replicas} replicas are moving or unavailable, at most {limit} may"
    return ""
