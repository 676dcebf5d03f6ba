"""In which cluster a new job should run, with a reason for each cluster.

A cluster that has no room is out. Among the others the expected price decides: that of a core-hour, raised by the share
of objectives that the cluster misses, since work there runs beside services that already suffer; a cluster that states
no price counts as the dearest of those that do. Of equal ones the one with the larger part free afterwards is first,
then the name. Work that takes lent resources is compared with those, and costs nothing where they are lent anyway.
Limits: sums and the largest free amounts of single nodes, each resource by itself: no cluster promises that every pod
fits, its own scheduler decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.policy.federation.statement import NONE, RESOURCES, ClusterRoom, Vector

_PERMILLE = 1000


@dataclass(frozen=True, slots=True)
class JobNeeds:
    """`pod`: what one of `pods` requests. `is_lent`: it asks for batch resources; `beside`: and for these, which
    nobody lends, as GPUs.
    """

    pod: Vector
    pods: int = 1
    is_lent: bool = False
    beside: Vector = NONE

    @property
    def total(self) -> Vector:
        """Of all pods."""
        return _times(self.pod, self.pods)

    @property
    def is_free(self) -> bool:
        """Whether all of it is lent."""
        return self.is_lent and not any(self.beside)


@dataclass(frozen=True, slots=True)
class CandidateCluster:
    """One cluster, and why it stands where it stands."""

    cluster: str
    fits: bool
    why: str


def ranked(needs: JobNeeds, rooms: Sequence[tuple[str, ClusterRoom]]) -> list[CandidateCluster]:
    """The clusters, the best first; those without room last, by name."""
    dearest = max((room.price_micro for _, room in rooms), default=0)
    fitting: list[tuple[int, int, str, str]] = []
    others: list[CandidateCluster] = []
    for cluster, room in rooms:
        lacking = _lacking(needs, room)
        if lacking:
            others.append(CandidateCluster(cluster, False, lacking))
            continue
        missed = room.objectives_missed * _PERMILLE // room.objectives if room.objectives else 0
        price = 0 if needs.is_free else room.price_micro or dearest
        expected = price * (_PERMILLE + missed) // _PERMILLE if price else missed
        left = _left_permille(needs, room)
        fitting.append((expected, -left, cluster, _why(needs, room, left)))
    found = [CandidateCluster(cluster, True, why) for _, _, cluster, why in sorted(fitting)]
    return found + sorted(others, key=lambda candidate: candidate.cluster)


def _lacking(needs: JobNeeds, room: ClusterRoom) -> str:
    if needs.is_lent:
        for name, wanted, there in zip(RESOURCES, needs.total, room.lent_free, strict=True):
            if wanted > there:
                return f"{name}: {wanted} wanted, {there} lent"
    pod = needs.beside if needs.is_lent else needs.pod
    for name, wanted, there in zip(RESOURCES, _times(pod, needs.pods), room.free, strict=True):
        if wanted > there:
            return f"{name}: {wanted} wanted, {there} free"
    for name, wanted, there in zip(RESOURCES, pod, room.largest_free, strict=True):
        if wanted > there:
            return f"{name}: {wanted} wanted by one pod, no node has more than {there} free"
    return ""


def _times(pod: Vector, pods: int) -> Vector:
    return pod[0] * pods, pod[1] * pods, pod[2] * pods


def _left_permille(needs: JobNeeds, room: ClusterRoom) -> int:
    free = room.lent_free if needs.is_lent else room.free
    return min(
        (
            (there - wanted) * _PERMILLE // capacity
            for wanted, there, capacity in zip(needs.total, free, room.capacity, strict=True)
            if wanted and capacity
        ),
        default=0,
    )


def _why(needs: JobNeeds, room: ClusterRoom, left: int) -> str:
    if needs.is_free:
        cost = "lent resources"
    else:
        cost = f"{room.price_micro / 1e6:g} a core-hour" if room.price_micro else "no price stated"
    missed = f"{room.objectives_missed} of {room.objectives} objectives missed"
    objectives = missed if room.objectives else "no objectives stated"
    return f"{cost}, {objectives}, {left / 10:g} % of its capacity left afterwards"
