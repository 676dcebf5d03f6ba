"""The domains in which a bundle of gangs is tried, in order.

A job whose members communicate a lot runs faster, or only, inside one rack. Masks of rows in the order of trial, made
by policy/placement/gangs/together.py from the free resources: domains of the narrowest key to those of the widest, then
all nodes. In a domain of a preferred key all members must fit, so that a job is not split for a narrower domain. Where
members are placed already, their domain comes first, and is the only one if the key is required. A preemption considers
the domains of a required key only, those that lack least first.
Limits: `MAX_TRIES` domains per key; the keys of the first gang of a bundle that has some count for all of it; NonStrict
gangs have no topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.gangs.directory import GangDirectory
from cotenant.engine.state.assignments import Assignments
from cotenant.engine.state.narrowing import EVERYWHERE
from cotenant.model.arrays import CPU, Int, Mask
from cotenant.model.cluster.topology import Domains
from cotenant.model.groups.gang import GangTopology
from cotenant.policy.placement.gangs.together import rows_of, with_room, within_reach

MAX_TRIES = 16


class TopologyPlace(NamedTuple):
    """The rows of one trial."""

    only: Mask
    name: str = ""  # for messages; empty = all nodes
    all_of_it: bool = False  # all members must fit, not only the minimum


def topology_of(gangs: GangDirectory, keys: Iterable[str]) -> GangTopology | None:
    """The topology of the first of these gangs that has one; None if none of them is Strict."""
    found = [gang for gang in map(gangs.get, keys) if gang is not None]
    if not any(gang.is_strict() for gang in found):
        return None
    specs = (gang.spec for gang in found)
    return next((spec.topology for spec in specs if spec is not None and spec.topology is not None), None)


def places(
    assignments: Assignments, gangs: GangDirectory, keys: tuple[str, ...], entries: list[PodInfo], promised: Mask
) -> Iterator[TopologyPlace]:
    """In order of trial. `promised`: rows for which members are nominated, tried first."""
    topology = topology_of(gangs, keys)
    if len(promised) and may_be_together(assignments, gangs, keys, promised):
        yield TopologyPlace(promised)
    if topology is None:
        yield TopologyPlace(EVERYWHERE)
        return
    yield from _domains(assignments, gangs, keys, topology, entries)
    if not topology.required:
        yield TopologyPlace(EVERYWHERE)


def _domains(
    assignments: Assignments,
    gangs: GangDirectory,
    keys: tuple[str, ...],
    topology: GangTopology,
    entries: list[PodInfo],
) -> Iterator[TopologyPlace]:
    nodes, shapes = assignments.ledger.nodes, assignments.ledger.shapes
    found, counts = np.unique(np.array([entry.shape for entry in entries]), return_counts=True)
    free = nodes.capacity - nodes.requested
    occupied = _occupied(assignments, gangs, keys)
    for key in topology.keys:
        domains = assignments.narrowing.regions.domains(key)
        numbers = with_room(domains, nodes.ready, free, shapes.request[found], counts)
        own = _own(domains, occupied)
        last = topology.required and key == topology.keys[-1]
        if own >= 0:
            numbers = (own,) if last or own in numbers else numbers
        elif last and occupied:
            continue  # its members are outside all domains of the key
        for number in numbers[:MAX_TRIES]:
            yield TopologyPlace(rows_of(domains, number), f"{key}={domains.names[number]}", not (last and own >= 0))
    if topology.required and not occupied:
        yield from _minimum_only(assignments, topology, free, found, counts, _least(gangs, keys))


def places_to_clear(
    assignments: Assignments,
    gangs: GangDirectory,
    keys: tuple[str, ...],
    priority: int,
    asked: Int,
    best_effort: bool = False,
) -> tuple[TopologyPlace, ...]:
    """Where evictions of pods below the priority, only of best-effort pods with `best_effort`, may make room for
    `asked[R]` in total: all nodes, or domains of the required key.
    """
    ledger, topology = assignments.ledger, topology_of(gangs, keys)
    nodes = ledger.nodes
    yielding = np.zeros_like(nodes.requested)
    lower = np.flatnonzero(ledger.row >= 0)
    lower = lower[assignments.pods.evictable_by(best_effort)[lower] < priority]
    np.add.at(yielding, ledger.row[lower], ledger.shapes.request[ledger.shape[lower]])
    np.add.at(yielding[:, CPU], ledger.row[lower], assignments.narrowing.surplus_m(lower))
    free = nodes.capacity - nodes.requested
    if len(lower) == 0:
        return ()
    if topology is None or not topology.required:
        most = np.maximum(0, free + yielding)[nodes.ready].sum(axis=0)
        return (TopologyPlace(EVERYWHERE),) if (most >= asked).all() else ()
    key = topology.keys[-1]
    domains = assignments.narrowing.regions.domains(key)
    numbers = within_reach(domains, nodes.ready, free, yielding, asked)
    occupied = _occupied(assignments, gangs, keys)
    if occupied:
        own = _own(domains, occupied)
        numbers = tuple(number for number in numbers if number == own)
    return tuple(
        TopologyPlace(rows_of(domains, number), f"{key}={domains.names[number]}") for number in numbers[:MAX_TRIES]
    )


def may_be_together(assignments: Assignments, gangs: GangDirectory, keys: tuple[str, ...], rows: Mask) -> bool:
    """Whether members may be placed on all of these rows: with a required key they must be in one domain, that of
    the placed members.
    """
    topology = topology_of(gangs, keys)
    if topology is None or not topology.required:
        return True
    domains = assignments.narrowing.regions.domains(topology.keys[-1])
    found = np.unique(domains.of_node[[*np.flatnonzero(rows), *_occupied(assignments, gangs, keys)]])
    return len(found) == 1 and bool(found[0] >= 0)


def _occupied(assignments: Assignments, gangs: GangDirectory, keys: tuple[str, ...]) -> list[int]:
    """Rows on which members are placed."""
    placed = [gang for gang in map(gangs.get, keys) if gang is not None]
    names = (gang.members[uid].node for gang in placed for uid in gang.placed)
    rows = (assignments.encoder.node_rows.get(name, -1) for name in names)
    return [row for row in rows if row >= 0]


def _least(gangs: GangDirectory, keys: Iterable[str]) -> int:
    """How many members of these must be placed together."""
    specs = (gang.spec for gang in map(gangs.get, keys) if gang is not None)
    return sum(spec.min_available for spec in specs if spec is not None)


def _minimum_only(
    assignments: Assignments,
    topology: GangTopology,
    free: np.ndarray,
    found: np.ndarray,
    counts: np.ndarray,
    least: int,
) -> Iterator[TopologyPlace]:
    """No domain of a required key has room for all members: those where the minimum may fit."""
    members = int(counts.sum())
    if least >= members:
        return
    key = topology.keys[-1]
    domains = assignments.narrowing.regions.domains(key)
    fewer = np.maximum(1, counts * least // members)
    nodes, shapes = assignments.ledger.nodes, assignments.ledger.shapes
    for number in with_room(domains, nodes.ready, free, shapes.request[found], fewer)[:MAX_TRIES]:
        yield TopologyPlace(rows_of(domains, number), f"{key}={domains.names[number]}")


def _own(domains: Domains, occupied: list[int]) -> int:
    """The domain with most of the placed members, -1 = none."""
    there = domains.of_node[occupied] if occupied else np.empty(0, dtype=np.int64)
    there = there[there >= 0]
    return int(np.bincount(there).argmax()) if len(there) else -1
