"""Protection of pressed services beyond the CPU: memory that is reclaimed last, and a larger share of the disk.

A service that waits for its pages or its disk is late whatever schedules its tasks. What it waits for is told by its
own pressure; only that is raised, by one step, in the same kind of change as any row: on trial, and given back when the
zone is calm. Memory that is protected for a service is taken from batch first, since batch has none.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import ZoneReading

PROTECT_RULE = "zone-protect"
IO_WEIGHT = 800  # eight times what a group has that nobody set


def protected(
    reading: ZoneReading, rows: dict[str, ZoneRow], stall: float
) -> tuple[tuple[tuple[str, ZoneRow], ...], Reason] | None:
    """The rows of services that wait for memory or disk more than `stall` of the time, with protection; None where
    none does, or all have it.
    """
    changed: dict[str, ZoneRow] = {}
    terms: list[DecisionTerm] = []
    what: list[str] = []
    for group in reading.groups:
        row, found = rows.get(group.group), group.resources
        if row is None or found is None or group.zone_class is not ZoneClass.SERVICE:
            continue
        wanted = row
        if found.memory_stall > stall and not row.memory_low_bytes and found.memory_bytes:
            wanted = replace(wanted, memory_low_bytes=found.memory_bytes)
            what.append(f"{group.group} keeps {found.memory_bytes >> 20} MiB")
        if found.io_stall > stall and not row.io_weight:
            wanted = replace(wanted, io_weight=IO_WEIGHT)
            what.append(f"{group.group} has I/O weight {IO_WEIGHT}")
        if wanted != row:
            changed[group.group] = wanted
            terms += [
                DecisionTerm(f"{group.group} memory stall", round(found.memory_stall * 1000), "1/1000"),
                DecisionTerm(f"{group.group} io stall", round(found.io_stall * 1000), "1/1000"),
            ]
    if not changed:
        return None
    return tuple(changed.items()), Reason(PROTECT_RULE, f"services wait: {', '.join(what)}", tuple(terms))
