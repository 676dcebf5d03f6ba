"""Parameters of a guest's kernel, chosen from the rows of its zone before it boots.

What a kernel is booted with cannot be changed later, and most authors of a zone do not know which preemption model
helps whom. Full preemption for a zone with services: it halved the p99 of a Redis at low load under the fair class and
cost nothing at high load (docs/measured.md); lazy for batch alone, whose turns it interrupts less. 1000 ticks a second
where a service is late before a tick of 250 has passed: turns end at ticks, so that shorter ones of batch would have no
effect.
Limits: what 1000 ticks bring and cost was not measured; chosen among the kernels that are there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cotenant.model.machine.node_decision import Reason
from cotenant.model.zones.table import ZoneClass, ZoneRow

USUAL_HZ, FAST_HZ = 250, 1000  # of packaged kernels; of one that is built


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
    if not 0 < shortest_us < 1_000_000 // USUAL_HZ:
        return KernelChoice("full", USUAL_HZ, Reason("zone-kernel", "services: full preemption"))
    late = f"a service is late after {shortest_us / 1000:g} ms, before a tick of {USUAL_HZ} a second"
    if FAST_HZ in built_hz:
        return KernelChoice("full", FAST_HZ, Reason("zone-kernel", f"{late}: full preemption, {FAST_HZ} ticks"))
    missing = f"a kernel with {FAST_HZ} was not built (`cotenant zone kernel --hz {FAST_HZ}`)"
    return KernelChoice("full", USUAL_HZ, Reason("zone-kernel", f"{late}: full preemption; {missing}"))
