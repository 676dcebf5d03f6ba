"""On which NUMA nodes a pod's resources can lie together.

Problem: CPUs, memory and devices are taken apart, and shall yet end up on the same NUMA nodes. Choice: for each resource the sets of NUMA
nodes that could serve it (`hints`), intersected over the resources; of all intersections the best by whether everyone prefers it and how
narrow it is. The policy then says what is good enough. Limits: at most eight NUMA nodes, as the number of sets doubles with each.

Source: Kubernetes' topology manager (merging of hints, its four policies); Koordinator, NodeNUMAResource (topology_hint, policies).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.model.cpu_topology import numbers_in
from cotenant.model.cpu_topology_spec import TopologyPolicy
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.cpus.ledger import CpuLedger
from cotenant.policy.placement.refusal import Refusal

MOST_NUMA_NODES = 8


@dataclass(frozen=True, slots=True)
class Hint:
    """A set of NUMA nodes (mask of ids) that could serve; `preferred` where no smaller set could, even on an idle node."""

    nodes: int
    preferred: bool


@dataclass(frozen=True, slots=True)
class NumaRoom:
    """One resource of one NUMA node, in the resource's unit."""

    node: int
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """On which NUMA nodes (mask; None is all the same) the pod's resources meet, and whether all resources prefer that.

    A resource that needs more NUMA nodes than those takes the rest from others of its own hint, as with the kubelet.
    """

    nodes: int | None
    preferred: bool
    why: str


def hints(amount: int, rooms: Sequence[NumaRoom]) -> tuple[Hint, ...]:
    """Every set of NUMA nodes with enough free, the narrow ones first. Preferred: as few nodes as the amount needs where all is free."""
    if len(rooms) > MOST_NUMA_NODES:
        raise InvalidInput("NUMA nodes", len(rooms), f"at most {MOST_NUMA_NODES}")
    totals, frees, sets = [0], [0], [0]  # by subset, bit n for `rooms[n]`
    for room in rooms:
        totals += [total + room.total for total in totals]
        frees += [free + room.free for free in frees]
        sets += [nodes | 1 << room.node for nodes in sets]
    needed = min((subset.bit_count() for subset in range(1, len(totals)) if totals[subset] >= amount), default=0)
    serving = [(subset.bit_count(), sets[subset]) for subset in range(1, len(frees)) if frees[subset] >= amount]
    return tuple(Hint(nodes, size == needed) for size, nodes in sorted(serving))


def cpu_rooms(ledger: CpuLedger) -> tuple[NumaRoom, ...]:
    """The CPUs of each NUMA node that can be given, for pods with CPUs of their own."""
    usable, free = ledger.topology.mask & ~ledger.reserved, ledger.free
    return tuple(
        NumaRoom(node.id, (node.mask & usable).bit_count(), (node.mask & free).bit_count())
        for node in ledger.topology.numa
    )


def align(
    policy: TopologyPolicy, asked: Mapping[str, tuple[Hint, ...] | None], numa_nodes: Sequence[int]
) -> Alignment | Refusal:
    """The NUMA nodes for a pod whose resources have these hints. None: the resource does not care; (): it cannot be served on any set."""
    if policy is TopologyPolicy.NONE:
        return Alignment(None, True, "no NUMA alignment is asked for")
    every = 0
    for node in numa_nodes:
        every |= 1 << node
    single = policy is TopologyPolicy.SINGLE_NUMA_NODE
    lists: list[tuple[Hint, ...]] = []
    unserved = []
    for resource, given in sorted(asked.items()):
        if given is None:
            continue
        if not given:
            unserved.append(resource)
        kept = tuple(hint for hint in given if not single or (hint.preferred and hint.nodes.bit_count() == 1))
        lists.append(kept or (Hint(every, False),))
    # only the intersection and whether all prefer it matter, so equal ones are merged on the way: no product of all sets
    found = {(every, True)}
    for given in lists:
        found = {(nodes & hint.nodes, preferred and hint.preferred) for nodes, preferred in found for hint in given}
    served = sorted((not preferred, nodes.bit_count(), nodes) for nodes, preferred in found if nodes)
    nodes, preferred = (served[0][2], not served[0][0]) if served else (every, False)
    named = ", ".join(str(node) for node in numbers_in(nodes))
    if preferred or policy is TopologyPolicy.BEST_EFFORT:
        wish = "as all resources prefer" if preferred else "though not all resources prefer that"
        return Alignment(nodes if lists and (preferred or nodes != every) else None, preferred, f"NUMA {named}: {wish}")
    return Refusal(f"the NUMA topology policy {policy.value} cannot be kept", _nearest(asked, unserved, named, single))


def _nearest(asked: Mapping[str, tuple[Hint, ...] | None], unserved: Sequence[str], named: str, single: bool) -> str:
    if unserved:
        return f"no set of NUMA nodes has enough {' and '.join(unserved)}"
    told = []
    for resource, given in sorted(asked.items()):
        if given:
            fitting = [hint for hint in given if hint.preferred and (not single or hint.nodes.bit_count() == 1)]
            sets = [str(numbers_in(hint.nodes)).replace(",)", ")") for hint in fitting or given[:1]]
            told.append(f"{resource} {'fits' if fitting else 'at best fits'} NUMA {' or '.join(sets)}")
    return f"{'; '.join(told)}; together {named}"
