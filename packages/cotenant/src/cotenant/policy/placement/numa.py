"""NUMA alignment: the NUMA nodes on which all of a pod's resources can be allocated together.

CPUs, memory and devices are allocated separately, but should end up on the same NUMA nodes. For each resource the sets
of NUMA nodes that could serve it (`Hint`), intersected over the resources; the best intersection is chosen by whether
all resources prefer it and how narrow it is. The policy then decides whether that is acceptable. Callers provide the
hints and allocate within the result: cpus/ and devices/.
Limits: at most eight NUMA nodes, as the number of sets doubles with each, with ids below 31.

Source: Kubernetes' topology manager (merging of hints, its four policies); Koordinator, NodeNUMAResource
(topology_hint, policies).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cotenant.model.cpus.spec import TopologyPolicy
from cotenant.model.cpus.topology import numbers_in
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.refusal import Refusal

MAX_NUMA_NODES = 8
_AS_ALL_PREFER = "NUMA {}: as all resources prefer"
NUMA_IDS = 31  # ids below: masks of them fit in columns of integers


@dataclass(frozen=True, slots=True)
class Hint:
    """A set of NUMA nodes (mask of ids) that could serve a resource; `preferred` where no smaller set could, even
    on an idle node.
    """

    nodes: int
    preferred: bool


Hints = Mapping[
    str, tuple[Hint, ...] | None
]  # by resource, narrow sets first; None: no preference; (): no set can serve it
Provider = Callable[[tuple[int, ...]], Hints]  # hints for resources accounted elsewhere, given a node's NUMA ids


def no_hints(numa_nodes: tuple[int, ...]) -> Hints:
    """The provider for pods without further resources."""
    return {}


class NumaRoom(NamedTuple):
    """One resource of one NUMA node, in the resource's unit; `free` is at most `total`."""

    node: int
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """The NUMA nodes (mask; None: any) on which the pod's resources meet, and whether all resources prefer them.

    `sets`: for each resource that any set can serve, where it is to be allocated: on those nodes, or, where it needs
    more, on its narrowest set that contains them, close to the other resources'.
    """

    nodes: int | None
    preferred: bool
    why: str
    sets: tuple[tuple[str, int], ...] = ()

    def within(self, resource: str) -> int | None:
        """Where a resource is to be allocated (mask); None: anywhere."""
        return next((nodes for name, nodes in self.sets if name == resource), None)


def can_be_aligned(numa_nodes: Sequence[int]) -> bool:
    """Whether these NUMA nodes (ids) are within the limits."""
    return len(numa_nodes) <= MAX_NUMA_NODES and max(numa_nodes, default=0) < NUMA_IDS


def hints(amount: int, rooms: Sequence[NumaRoom]) -> tuple[Hint, ...]:
    """Every set of NUMA nodes with enough free, the narrow ones first. Preferred: no more nodes than the amount
    needs on an idle node.
    """
    if len(rooms) > MAX_NUMA_NODES:
        raise InvalidInput("NUMA nodes", len(rooms), f"at most {MAX_NUMA_NODES}")
    totals, frees, sets = [0], [0], [0]  # by subset, bit n for `rooms[n]`
    for room in rooms:
        totals += [total + room.total for total in totals]
        frees += [free + room.free for free in frees]
        sets += [nodes | 1 << room.node for nodes in sets]
    needed = min((subset.bit_count() for subset in range(1, len(totals)) if totals[subset] >= amount), default=0)
    serving = [(subset.bit_count(), sets[subset]) for subset in range(1, len(frees)) if frees[subset] >= amount]
    return tuple(Hint(nodes, size == needed) for size, nodes in sorted(serving))


def alone(amount: int, rooms: Iterable[NumaRoom]) -> int:
    """The NUMA nodes (mask) that suffice individually: `hints` contains each of them, preferred."""
    nodes = 0
    for node, _, free in rooms:
        if free >= amount:
            nodes |= 1 << node
    return nodes


def alone_of(hints_: tuple[Hint, ...]) -> int:
    """The same, from hints."""
    nodes = 0
    for hint in hints_:
        if hint.preferred and hint.nodes.bit_count() == 1:
            nodes |= hint.nodes
    return nodes


def meet_on_one(each_alone: Mapping[str, int]) -> Alignment | None:
    """The result of `align` under any policy if all resources have a common NUMA node that suffices, without evaluating
    wider sets; else None.

    `each_alone`: by resource, the NUMA nodes that suffice individually and are preferred.
    """
    common = -1 if each_alone else 0
    for nodes in each_alone.values():
        common &= nodes
    if not common:
        return None
    nodes = common & -common
    return Alignment(nodes, True, _AS_ALL_PREFER.format(_named(nodes)), tuple((name, nodes) for name in each_alone))


def align(policy: TopologyPolicy, asked: Hints, numa_nodes: Sequence[int]) -> Alignment | Refusal:
    """The NUMA nodes for a pod whose resources have these hints."""
    if policy is TopologyPolicy.NONE:
        return Alignment(None, True, "no NUMA alignment requested")
    every = 0
    for node in numa_nodes:
        every |= 1 << node
    single = policy is TopologyPolicy.SINGLE_NUMA_NODE
    lists: list[tuple[Hint, ...]] = []
    for _, given in sorted(asked.items()):
        if given is not None:
            kept = tuple(hint for hint in given if not single or (hint.preferred and hint.nodes.bit_count() == 1))
            lists.append(kept or (Hint(every, False),))
    # only the intersection and whether all prefer it matter, so equal ones are merged as they arise instead of building
    # the product of all sets
    found = {(every, True)}
    for given in lists:
        found = {(nodes & hint.nodes, preferred and hint.preferred) for nodes, preferred in found for hint in given}
    served = sorted((not preferred, nodes.bit_count(), nodes) for nodes, preferred in found if nodes)
    nodes, preferred = (served[0][2], not served[0][0]) if served else (every, False)
    if not preferred and policy is not TopologyPolicy.BEST_EFFORT:
        return Refusal(f"NUMA topology policy {policy.value} cannot be satisfied", _nearest(asked, single))
    why = (_AS_ALL_PREFER if preferred else "NUMA {}: not preferred by all resources").format(_named(nodes))
    if not lists or not (preferred or nodes != every):
        return Alignment(None, preferred, why)
    return Alignment(nodes, preferred, why, tuple(_sets(asked, nodes)))


def _sets(asked: Hints, nodes: int) -> Iterator[tuple[str, int]]:
    """For each resource one of its narrowest hints that contain these nodes, the widest resources first; among
    equals the one that adds fewest nodes.
    """
    around = {
        resource: [hint.nodes for hint in given or () if not nodes & ~hint.nodes] for resource, given in asked.items()
    }
    union = nodes
    for resource, sets in sorted(around.items(), key=lambda pair: -min(map(int.bit_count, pair[1]), default=0)):
        if sets:
            chosen = min(sets, key=lambda number: (number.bit_count(), (number & ~union).bit_count(), number))
            union |= chosen
            yield resource, chosen


def _nearest(asked: Hints, single: bool) -> str:
    """The nearest miss: which resource fits where."""
    unserved = [resource for resource, given in sorted(asked.items()) if given is not None and not given]
    if unserved:
        return f"no set of NUMA nodes has enough {' and '.join(unserved)}"
    parts = []
    for resource, given in sorted(asked.items()):
        if given:
            fitting = [hint for hint in given if hint.preferred and (not single or hint.nodes.bit_count() == 1)]
            sets = " or ".join(_named(hint.nodes) for hint in fitting or given[:1])
            parts.append(f"{resource} fits NUMA {sets}" if fitting else f"{resource} fits NUMA {sets} at best")
    return "; ".join(parts)


def _named(nodes: int) -> str:
    return "+".join(str(node) for node in numbers_in(nodes))
