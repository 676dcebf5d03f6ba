"""Parameters of a guest's kernel, chosen from the rows of its zone before it boots.

What a kernel is booted with cannot be changed later, and most authors of a zone do not know which preemption model
helps whom. Full preemption for a zone with services: it costs nothing at high load, and under the fair class with 250
ticks a second it halved the p99 of a Redis at low load in one of two measurements and made no difference that shows in
the other, where the longest wait was shorter; lazy for batch alone, whose turns it interrupts less. 1000 ticks a second
where a service is late earlier than what the fair class keeps with 250: turns end at ticks. They cut that p99 to a
third and cost 1 to 2 % of the requests that a CPU second brings (docs/measured/zones.md), so they are not chosen for
services that wait longer.
Limits: measured on one CPU without caches; chosen among the kernels that are there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cotenant.model.machine.node_decision import Reason
from cotenant.model.zones.table import ZoneClass, ZoneRow

USUAL_HZ, FAST_HZ = 250, 1000  # of packaged kernels; of one that is built
KEPT_US = 5_000  # above the p99 of every measured guest with the usual ticks, full preemption and the fair class


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """`preempt`: full or lazy; `hz`: ticks a second."""

    preempt: str
    hz: int
    reason: Reason


def chosen_kernel(rows: Iterable[ZoneRow], built_hz: Collection[int]) -> KernelChoice:
    """The parameters for a zone of these rows. `built_hz`: of the kernels beside the packaged one."""
    services = [row for row in rows if row.zone_class is ZoneClass.SERVICE]
    if not services:
        return KernelChoice("lazy", USUAL_HZ, Reason("zone-kernel", "no services: batch is preempted lazily"))
    shortest_us = min((row.late_us for row in services if row.late_us), default=0)
    if not 0 < shortest_us < KEPT_US:
        return KernelChoice("full", USUAL_HZ, Reason("zone-kernel", "services: full preemption"))
    late = f"a service is late after {shortest_us / 1000:g} ms, which {USUAL_HZ} ticks a second do not keep"
    if FAST_HZ in built_hz:
        return KernelChoice("full", FAST_HZ, Reason("zone-kernel", f"{late}: full preemption, {FAST_HZ} ticks"))
    missing = f"a kernel with {FAST_HZ} was not built (`cotenant zone kernel --hz {FAST_HZ}`)"
    return KernelChoice("full", USUAL_HZ, Reason("zone-kernel", f"{late}: full preemption; {missing}"))
