from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.zones.setting import USUAL_MODES, Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import ChangeRows, Decision, GroupReading, Stay, SwitchTo, ZoneReading
from cotenant.policy.zone.canary import judge
from cotenant.policy.zone.deciding import Memory, ZoneConfig, decide

ROWS = {"web": ZoneRow(ZoneClass.SERVICE, late_us=5000), "batch": ZoneRow(ZoneClass.BATCH, slice_us=4000)}
CONFIG = ZoneConfig(late_per_s=2, calm_s=10, batch_cpus=0.2)


def reading(late: int = 0, *, web_us: int = 0, batch_us: int = 0, burn: float | None = None) -> ZoneReading:
    """One second."""
    return ZoneReading(
        1.0,
        (
            GroupReading("web", ZoneClass.SERVICE, late, cpu_us=web_us, burn=burn),
            GroupReading("batch", ZoneClass.BATCH, cpu_us=batch_us),
        ),
    )


def on(
    mode: ZoneMode | None,
    found: ZoneReading,
    rows: dict[str, ZoneRow] = ROWS,
    memory: Memory | None = None,
    modes: tuple[ZoneMode, ...] = USUAL_MODES,
) -> tuple[Decision, Memory]:
    setting = ZoneSetting(Backend.WEIGHTS) if mode is None else ZoneSetting(Backend.ROOT, mode)
    return decide(found, setting, rows, ROWS, modes, CONFIG, memory or Memory())


def test_without_pressure_nothing_changes() -> None:
    assert isinstance(on(ZoneMode.WEIGHTED, reading(2))[0], Stay)


def test_pressure_raises_the_weight_first_and_switches_once_it_is_used_up() -> None:
    decision, _ = on(ZoneMode.WEIGHTED, reading(3))
    assert isinstance(decision, ChangeRows)
    ((group, row),) = decision.rows
    assert (group, row.weight) == ("web", 400)
    heaviest = {**ROWS, "web": ZoneRow(ZoneClass.SERVICE, weight=CONFIG.heaviest, late_us=5000)}
    decision, _ = on(ZoneMode.WEIGHTED, reading(3), heaviest)
    assert decision == SwitchTo(ZoneSetting(Backend.ROOT, ZoneMode.LATENCY), decision.reason)
    assert {term.name: term.value for term in decision.reason.terms}["late dispatches"] == 3000


def test_latency_shortens_the_slices_of_batch_until_there_is_nothing_left() -> None:
    rows = dict(ROWS)
    seen = []
    while isinstance((decision := on(ZoneMode.LATENCY, reading(3), rows)[0]), ChangeRows):
        rows.update(decision.rows)
        seen.append(rows["batch"].slice_us)
    assert seen == [2000, 1000]
    assert isinstance(decision, Stay)
    assert decision.reason.rule == "zone-exhausted"


def test_cpus_of_services_own_come_last_and_only_where_the_author_allows_them() -> None:
    shortest = {**ROWS, "batch": ZoneRow(ZoneClass.BATCH, slice_us=1000)}
    for modes, left in (
        (tuple(ZoneMode), ZoneMode.SIBLINGS),
        ((ZoneMode.THROUGHPUT, ZoneMode.EXCLUSIVE), ZoneMode.EXCLUSIVE),
    ):
        decision, _ = on(ZoneMode.LATENCY, reading(3), shortest, modes=modes)
        assert decision == SwitchTo(ZoneSetting(Backend.ROOT, left), decision.reason)
    second, _ = on(ZoneMode.SIBLINGS, reading(3), shortest, modes=tuple(ZoneMode))
    assert second == SwitchTo(ZoneSetting(Backend.ROOT, ZoneMode.EXCLUSIVE), second.reason)
    first, _ = on(ZoneMode.THROUGHPUT, reading(3), modes=tuple(ZoneMode))
    assert first == SwitchTo(ZoneSetting(Backend.ROOT, ZoneMode.LATENCY), first.reason)
    assert isinstance(on(ZoneMode.EXCLUSIVE, reading(3), modes=tuple(ZoneMode))[0], Stay)


def test_throughput_obeys_no_rows_and_is_left_at_once() -> None:
    assert isinstance(on(ZoneMode.THROUGHPUT, reading(3))[0], SwitchTo)


def test_an_objective_that_burns_counts_without_late_dispatches() -> None:
    assert isinstance(on(ZoneMode.THROUGHPUT, reading(0, burn=1.2))[0], SwitchTo)
    assert isinstance(on(ZoneMode.THROUGHPUT, reading(0, burn=0.9))[0], Stay)


def test_pressure_ends_below_half_of_the_limit() -> None:
    pressed = Memory(pressed=True)
    assert on(ZoneMode.LATENCY, reading(2), memory=pressed)[1].pressed
    assert not on(ZoneMode.LATENCY, reading(1), memory=pressed)[1].pressed
    assert not on(ZoneMode.LATENCY, reading(2))[1].pressed


def test_calm_gives_rows_back_first_and_then_prefers_throughput_while_services_are_idle() -> None:
    calm = Memory(calm_s=20)
    raised = {**ROWS, "web": ZoneRow(ZoneClass.SERVICE, weight=400, late_us=5000)}
    decision, memory = on(ZoneMode.WEIGHTED, reading(batch_us=900_000), raised, calm)
    assert isinstance(decision, ChangeRows)
    assert dict(decision.rows) == {"web": ROWS["web"]}
    assert memory.calm_s == 0
    decision, _ = on(ZoneMode.WEIGHTED, reading(batch_us=900_000), memory=calm)
    assert isinstance(decision, SwitchTo)
    assert decision.setting.mode is ZoneMode.THROUGHPUT
    assert isinstance(on(ZoneMode.WEIGHTED, reading(web_us=5, batch_us=900_000), memory=calm)[0], Stay)
    assert isinstance(on(ZoneMode.WEIGHTED, reading(batch_us=100_000), memory=calm)[0], Stay)


def test_the_weights_back_end_has_no_scheduler_to_switch_to() -> None:
    assert isinstance(on(None, reading(9))[0], Stay)
    assert isinstance(on(None, reading(batch_us=900_000), memory=Memory(calm_s=20))[0], Stay)


def test_a_canary_keeps_what_helps_and_undoes_what_harms() -> None:
    assert judge(reading(50), reading(1), 2)[0]
    assert not judge(reading(10), reading(30), 2)[0]
    assert judge(reading(0), reading(2), 2)[0], "below the limit"
    assert not judge(reading(10, batch_us=800_000), reading(10, batch_us=400_000), 2)[0], "no gain, and batch pays"
    assert judge(reading(10, batch_us=800_000), reading(1, batch_us=400_000), 2)[0]


@pytest.mark.parametrize("wrong", [{"late_per_s": 0}, {"burn": -1}, {"calm_s": 0}, {"heaviest": 50}])
def test_a_configuration_out_of_bounds_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        ZoneConfig(**wrong)  # type: ignore[arg-type]


def test_a_setting_has_a_mode_where_it_loads_a_scheduler_only() -> None:
    with pytest.raises(InvalidInput):
        ZoneSetting(Backend.ROOT)
    with pytest.raises(InvalidInput):
        ZoneSetting(Backend.WEIGHTS, ZoneMode.LATENCY)


@pytest.mark.parametrize(
    ("before", "after", "kept", "said"),
    [
        # a fifth more late dispatches are allowed, and as many as the limit
        (reading(10), reading(12), True, "kept: 10.00 late dispatches a second before, 12.00 after"),
        (reading(10), reading(13), False, "worse: 10.00 late dispatches a second before, 13.00 after"),
        (reading(1), reading(2), True, "kept: 1.00 late dispatches a second before, 2.00 after"),
        (reading(1), reading(3), False, "worse: 1.00 late dispatches a second before, 3.00 after"),
        # burn rates count where both readings have them
        (
            reading(burn=5.0),
            reading(burn=6.0),
            True,
            "kept: 0.00 late dispatches a second before, 0.00 after; burn rate",
        ),
        (reading(burn=5.0), reading(burn=6.1), False, "worse: 0.00 late dispatches a second before, 0.00 after; burn"),
        (reading(burn=0.1), reading(burn=1.0), True, "kept"),
        (reading(burn=0.1), reading(burn=1.1), False, "worse"),
        (reading(), reading(burn=9.0), True, "kept: 0.00 late dispatches a second before, 0.00 after"),
        (reading(burn=1.0), reading(), True, "kept: 0.00 late dispatches a second before, 0.00 after"),
        # what helps nobody must not take a fifth of batch's time
        (reading(batch_us=500_000), reading(batch_us=400_000), True, "kept"),
        (
            reading(batch_us=500_000),
            reading(batch_us=399_000),
            False,
            "no better for services and worse for batch: 0.00",
        ),
        (reading(10, batch_us=500_000), reading(8, batch_us=1), False, "no better"),
        (reading(10, batch_us=500_000), reading(7, batch_us=1), True, "kept"),
        (reading(burn=1.0, batch_us=500_000), reading(burn=0.8, batch_us=1), False, "no better"),
        (reading(burn=1.0, batch_us=500_000), reading(burn=0.7, batch_us=1), True, "kept"),
    ],
)
def test_whether_a_change_is_kept_and_why(before: ZoneReading, after: ZoneReading, kept: bool, said: str) -> None:
    is_kept, reason = judge(before, after, 2)
    assert is_kept is kept
    assert reason.text.startswith(said)
    terms = {term.name: term.value for term in reason.terms}
    assert terms["late before"] == before.late_per_s * 1000
    assert terms["late after"] == after.late_per_s * 1000
    assert (terms["batch before"], terms["batch after"]) == (
        round(before.batch_cpus * 1000),
        round(after.batch_cpus * 1000),
    )
    if before.burn is not None and after.burn is not None:
        assert (terms["burn before"], terms["burn after"]) == (round(before.burn * 1000), round(after.burn * 1000))
    else:
        assert "burn before" not in terms


def test_the_margin_and_the_limit_of_burn_rates_may_be_others() -> None:
    assert not judge(reading(10), reading(12), 2, margin=0.1)[0]
    assert judge(reading(burn=0.1), reading(burn=1.9), 2, burn_limit=2.0)[0]
    last = judge(reading(batch_us=500_000), reading(batch_us=300_000), 2)[1].text
    assert last.endswith("; batch 0.50 CPUs before, 0.30 after")
