"""Placement of a bundle whose gangs have topology keys of their own: each such gang in one domain of its key, all
within what the bundle may use.

Gangs with such a key go first, the largest first, each into the tightest domain that takes all of its members, else the
first that takes its minimum; the others follow. A gang stays in the domain of members that are placed already. Limits:
one order of gangs, no more than `MAX_TRIES` domains each; such members draw from no reservation, and no pod is evicted
for such a bundle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cotenant.engine.cycle.access import GroupPlacer
from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.placing import PodJudgement
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.gangs.directory import GangDirectory
from cotenant.engine.plugins.gangs.members import Gang
from cotenant.model.arrays import Mask
from cotenant.policy.placement.gangs.together import rows_of, with_room

MAX_TRIES = 16


def is_nested(gangs: GangDirectory, keys: Sequence[str]) -> bool:
    """Whether a gang of the bundle has a key of its own."""
    return any(_inner_key(gangs.get(key)) for key in keys)


def place_nested(
    components: ClusterComponents,
    placer: GroupPlacer,
    gangs: GangDirectory,
    entries: Sequence[PodInfo],
    only: Mask,
    now_s: float,
) -> list[PodJudgement]:
    """Place what fits, as `Placing.place`; a gang whose minimum fits in no domain is not placed at all."""
    by_gang: dict[str, list[PodInfo]] = {}
    for entry in entries:
        by_gang.setdefault(gangs.key_of(entry.seen.uid), []).append(entry)
    found: dict[str, PodJudgement] = {}
    keyed = sorted((key for key in by_gang if _inner_key(gangs.get(key))), key=lambda key: (-len(by_gang[key]), key))
    for key in keyed:
        gang = gangs.get(key)
        assert gang is not None
        found.update(_placed_in_one(components, placer, gang, by_gang[key], only, now_s))
    others = [entry for entry in entries if entry.seen.uid not in found]
    if others:
        judged = placer.place(others, now_s, only, False)
        found.update((entry.seen.uid, judgement) for entry, judgement in zip(others, judged, strict=True))
    return [found[entry.seen.uid] for entry in entries]


def _inner_key(gang: Gang | None) -> str:
    return gang.spec.inner_key if gang is not None and gang.spec is not None else ""


def _placed_in_one(
    components: ClusterComponents, placer: GroupPlacer, gang: Gang, members: list[PodInfo], only: Mask, now_s: float
) -> dict[str, PodJudgement]:
    """The judgements of one gang's members, in the best domain of its key; undone where none takes its minimum."""
    placing = components.placing
    least = max(1, gang.tally().lacks())
    judged: list[PodJudgement] = []
    smaller: Mask | None = None  # a domain that takes the minimum and not all
    for rows in _domains(components, gang, members, only):
        mark = placing.mark()
        judged = placer.place(members, now_s, rows, False)
        placed = [entry for entry, judgement in zip(members, judged, strict=True) if judgement.row >= 0]
        if len(placed) == len(members):
            return {entry.seen.uid: judgement for entry, judgement in zip(members, judged, strict=True)}
        if len(placed) >= least and smaller is None:
            smaller = rows
        placing.undo(placed, mark)
    if smaller is not None:
        judged = placer.place(members, now_s, smaller, False)
    elif judged:
        judged = [judgement._replace(row=-1) for judgement in judged]
    else:
        judged = placer.place(members, now_s, np.zeros(len(components.assignments.names), dtype=np.bool_), False)
    return {entry.seen.uid: judgement for entry, judgement in zip(members, judged, strict=True)}


def _domains(components: ClusterComponents, gang: Gang, members: Sequence[PodInfo], only: Mask) -> Iterator[Mask]:
    """Rows of the domains to try, in order: that of placed members, else those with room for all, else those with room
    for one.
    """
    assignments = components.assignments
    nodes, shapes = assignments.ledger.nodes, assignments.ledger.shapes
    domains = assignments.narrowing.regions.domains(_inner_key(gang))
    ready = nodes.ready & only if len(only) else nodes.ready
    rows = [assignments.encoder.node_rows.get(gang.members[uid].node, -1) for uid in gang.placed]
    own = {int(domains.of_node[row]) for row in rows if row >= 0}
    numbers: list[int] = sorted(number for number in own if number >= 0)[:1]
    if not rows:
        found, counts = np.unique(np.array([entry.shape for entry in members]), return_counts=True)
        free = nodes.capacity - nodes.requested
        with_all = with_room(domains, ready, free, shapes.request[found], counts)[:MAX_TRIES]
        with_one = with_room(domains, ready, free, shapes.request[found], np.ones_like(counts))[:MAX_TRIES]
        numbers = list(dict.fromkeys((*with_all, *with_one)))
    for number in numbers:
        inside = rows_of(domains, number)
        yield inside & only if len(only) else inside
