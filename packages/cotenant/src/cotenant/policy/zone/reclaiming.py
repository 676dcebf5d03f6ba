"""Memory of batch that is reclaimed while services wait for theirs, and how much of it at a time.

`memory.low` says whose pages are reclaimed last, but who finds no free page still reclaims while it waits. Where a
service that is protected goes on waiting for memory, batch is reclaimed ahead of it, by another process: down to half
of what it has, an eighth of that a second, so that a service whose waiting ends has not cost batch all of it. A batch
group that itself waits for memory a quarter of the time is let alone meanwhile: what is taken from it then comes back
as reads from the disk, which services use, too.
Limits: a service that waits because of its own `memory.max` is not helped by this; the trial shows it
(`canary.judge_reclaim`).
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import GroupResources, ZoneReading

RECLAIM_RULE = "zone-reclaim"
LEAST_BYTES = 32 << 20  # a batch group that has less is left alone
HARD_STALL = 0.25  # of the time; a batch group that waits longer for memory gives up nothing
_SECONDS = 8  # in which all that may be reclaimed is
_LEAST_STEP, _MOST_STEP = 1 << 20, 256 << 20  # a second
_LONGEST_S = 5.0  # a longer reading asks for no more
PAGE = 4096


def taken_from_batch(
    reading: ZoneReading, rows: dict[str, ZoneRow], stall: float
) -> tuple[tuple[tuple[str, ZoneRow], ...], Reason] | None:
    """Rows of batch groups that are to be reclaimed; None where no protected service waits for memory more than
    `stall` of the time, or no group has memory to give up.
    """
    waiting = [
        group
        for group in reading.groups
        if group.zone_class is ZoneClass.SERVICE
        and group.resources is not None
        and group.resources.memory_stall > stall
        and group.group in rows
        and rows[group.group].memory_low_bytes
    ]
    changed: dict[str, ZoneRow] = {}
    for group in reading.groups:
        row, found = rows.get(group.group), group.resources
        if row is None or found is None or group.zone_class is not ZoneClass.BATCH or row.reclaim_to_bytes:
            continue
        if found.memory_bytes >= LEAST_BYTES and found.memory_stall <= HARD_STALL:
            changed[group.group] = replace(row, reclaim_to_bytes=found.memory_bytes // 2)
    if not waiting or not changed:
        return None
    terms = tuple(
        DecisionTerm(f"{group.group} memory stall", round(group.resources.memory_stall * 1000), "1/1000")
        for group in waiting
        if group.resources is not None
    )
    what = ", ".join(f"{group} down to {row.reclaim_to_bytes >> 20} MiB" for group, row in changed.items())
    text = f"{', '.join(group.group for group in waiting)} waits for memory, protected: reclaimed in steps: {what}"
    return tuple(changed.items()), Reason(RECLAIM_RULE, text, terms)


def next_step(row: ZoneRow, found: GroupResources, length_s: float) -> int:
    """How many bytes to reclaim after a reading of this length; 0: none."""
    over = found.memory_bytes - row.reclaim_to_bytes
    if not row.reclaim_to_bytes or over < PAGE or found.memory_stall > HARD_STALL:
        return 0
    a_second = min(_MOST_STEP, max(_LEAST_STEP, row.reclaim_to_bytes // _SECONDS))
    wanted = min(over, round(a_second * min(length_s, _LONGEST_S)))
    return max(1, wanted // PAGE) * PAGE
