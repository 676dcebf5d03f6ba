"""What a pressed zone raises beyond the CPU, against all that it could raise; and what reclaim takes of batch."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.engine.zones.reclaiming import MAX_VAIN, Reclaiming
from cotenant.model.zones.setting import Backend, ZoneSetting
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import ChangeRows, GroupReading, GroupResources, ZoneReading
from cotenant.policy.zone.deciding import Memory, ZoneConfig, decide
from cotenant.policy.zone.protecting import IO_WEIGHT
from cotenant.policy.zone.reclaiming import HARD_STALL, LEAST_BYTES

MIB = 1 << 20
STALL = ZoneConfig().stall
shares = st.sampled_from([0.0, 0.05, STALL, 0.11, HARD_STALL, 0.26, 0.9])
sizes = st.sampled_from([0, 4096, LEAST_BYTES - 4096, LEAST_BYTES, 300 * MIB])
group = st.tuples(st.sampled_from(ZoneClass), shares, shares, sizes, st.booleans(), st.booleans())


@settings(max_examples=examples(600), deadline=None)
@given(st.lists(group, min_size=1, max_size=4), st.booleans())
def test_a_pressed_zone_raises_the_least_that_covers_every_wait(
    drawn: list[tuple[ZoneClass, float, float, int, bool, bool]], reclaims: bool
) -> None:
    rows, readings, needs = {}, [], set()
    for number, (kind, memory, io, size, kept, weighed) in enumerate(drawn):
        name = f"g{number}"
        service = kind is ZoneClass.SERVICE
        rows[name] = ZoneRow(kind, memory_low_bytes=7 if kept and service else 0, io_weight=9 if weighed else 0)
        readings.append(GroupReading(name, kind, resources=GroupResources(memory, io, size)))
        if service and memory > STALL and not kept and size:
            needs.add((name, "memory"))
        if service and io > STALL and not weighed:
            needs.add((name, "io"))
    # every set of raises, from none to all, and the smallest that leaves no need open
    possible = [(name, what) for name in rows for what in ("memory", "io")]
    least = next(
        set(chosen)
        for number in range(len(possible) + 1)
        for chosen in combinations(possible, number)
        if needs <= set(chosen)
    )
    expected = dict(rows)
    for name, what in least:
        size = next(found.resources.memory_bytes for found in readings if found.group == name and found.resources)
        raised = {"memory_low_bytes": size} if what == "memory" else {"io_weight": IO_WEIGHT}
        expected[name] = replace(expected[name], **raised)
    waiting = any(
        kind is ZoneClass.SERVICE and memory > STALL and rows[f"g{number}"].memory_low_bytes
        for number, (kind, memory, *_) in enumerate(drawn)
    )
    if not least and reclaims and waiting:
        for number, (kind, memory, _, size, *_) in enumerate(drawn):
            if kind is ZoneClass.BATCH and memory <= HARD_STALL and size >= LEAST_BYTES:
                expected[f"g{number}"] = replace(expected[f"g{number}"], reclaim_to_bytes=size // 2)
    decision, _ = decide(
        ZoneReading(1.0, tuple(readings)),
        ZoneSetting(Backend.WEIGHTS),
        rows,
        rows,
        (),
        ZoneConfig(),
        Memory(),
        reclaims=reclaims,
    )
    changed = dict(decision.rows) if isinstance(decision, ChangeRows) else {}
    assert {**rows, **changed} == expected


seconds = st.tuples(
    st.sampled_from([0.1, 1.0, 20.0]),  # length of the reading
    st.sampled_from([0.0, STALL / 2, 0.2]),  # the service waits
    st.sampled_from([0.0, HARD_STALL, 0.3]),  # batch waits
    st.integers(-64, 256),  # MiB that batch allocates
    st.integers(0, 100),  # percent of a step that the kernel finds
    st.integers(-8, 64),  # MiB that the service grows by
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(seconds, max_size=40), st.integers(LEAST_BYTES // MIB, 4096))
def test_reclaim_takes_batch_to_its_bound_and_never_below_nor_while_it_waits(
    told: list[tuple[float, float, float, int, int, int]], had_mib: int
) -> None:
    had = had_mib * MIB
    rows = {"web": ZoneRow(ZoneClass.SERVICE), "batch": ZoneRow(ZoneClass.BATCH, reclaim_to_bytes=had // 2)}
    reclaiming, now, vain, before, service, first = Reclaiming(60.0), had, 0, None, 1024 * MIB, True
    for length_s, web, batch, grows_mib, found, service_grows_mib in told:
        service += service_grows_mib * MIB
        now = max(0, now + grows_mib * MIB)
        if before is not None:
            vain = vain + 1 if before[0] - now < before[1] // 4 else 0
        groups = (
            GroupReading("web", ZoneClass.SERVICE, resources=GroupResources(web, 0.0, service)),
            GroupReading("batch", ZoneClass.BATCH, resources=GroupResources(batch, 0.0, now)),
        )
        asked = reclaiming.after(ZoneReading(length_s, groups), rows, STALL / 2)
        before, first = None, False
        if asked:
            ((name, amount),) = asked[0].steps
            assert name == "batch"
            assert vain < MAX_VAIN
            # it waits, or what it grew by since the last reading is what is asked for at most
            assert web > STALL / 2 or (not first and amount <= service_grows_mib * MIB)
            assert batch <= HARD_STALL
            assert 0 < amount <= now - had // 2
            assert amount <= (had // 16 + 4096) * 5 + MIB
            before = now, amount
            now -= amount * found // 100
            assert now >= had // 2
