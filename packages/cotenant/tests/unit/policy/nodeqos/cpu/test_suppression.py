from __future__ import annotations

import pytest
from tests.unit.policy.nodeqos.nodes import in_use, node, topology

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_state import GroupUse
from cotenant.policy.nodeqos.amounts import cpu_text, percent_text
from cotenant.policy.nodeqos.cpu import choice
from cotenant.policy.nodeqos.cpu.allowance import UNLIMITED_US
from cotenant.policy.nodeqos.cpu.division import GroupShare, divide
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig, allowance, cpuset, quota_us


def test_a_pod_of_unknown_use_counts_with_the_system() -> None:
    web, batch = in_use("web", None), in_use("batch", 2000, QoSClass.BE)
    got = allowance(node([web, batch], used_m=7000), SuppressConfig())
    assert got is not None
    assert got.cpu_m == 10_400 - 5000
    assert got.reason.text == "budget 5.4 CPU = 16 x 65 % - 0 services - 5 system"


def test_what_is_reserved_counts_where_the_system_uses_less() -> None:
    got = allowance(node([in_use("web", 1000)], used_m=1200, reserved_cpu_m=500), SuppressConfig())
    assert got is not None
    assert got.reason.text == "budget 8.9 CPU = 16 x 65 % - 1 services - 0.5 reserved"


def test_the_common_group_s_own_figure_counts_rather_than_its_pods() -> None:
    batch = in_use("batch", 2000, QoSClass.BE, group="be/batch")
    state = node([batch], used_m=5000, best_effort_group="be", best_effort=GroupUse("be", cpu_m=5000))
    got = allowance(state, SuppressConfig())
    assert got is not None
    assert got.cpu_m == 10_400


def test_the_floor_is_named_in_the_reason_and_terms_add_up() -> None:
    got = allowance(node([in_use("web", 15_000)]), SuppressConfig(min_percent=10))
    assert got is not None
    assert got.cpu_m == 1600 == sum(term.value for term in got.reason.terms)
    assert got.reason.text == "budget 1.6 CPU = 16 x 65 % - 15 services - 0 system = -4.6, raised to the floor of 10 %"


def test_a_shorter_period_has_the_same_floor_in_proportion_and_never_less_than_the_kernel_takes() -> None:
    assert quota_us(UNLIMITED_US, -500, 16_000, SuppressConfig(period_us=20_000, min_quota_us=10_000)) == 2000
    assert quota_us(UNLIMITED_US, -500, 16_000, SuppressConfig(period_us=20_000)) == 1000


def test_fewer_free_cpus_than_wanted_are_all_taken_but_not_fewer_than_the_least() -> None:
    cpus = topology(8)
    assert cpuset(8000, cpus, range(8), (0, 1), (), SuppressConfig()) == (2, 3, 4, 5, 6, 7)
    assert cpuset(8000, cpus, range(8), range(7), (), SuppressConfig()) == tuple(range(8))


def test_pairs_first_then_single_threads_from_the_next_socket() -> None:
    assert choice.pick(3, topology(8, per_socket=4)) == (0, 1, 4)
    odd = [cpu for cpu in topology(8, per_socket=4) if cpu.cpu not in (1, 5, 7)]
    assert choice.pick(5, odd) == (2, 3, 4, 0, 6)
    assert choice.pick(6, odd) == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold_percent": 0},
        {"threshold_percent": 101},
        {"min_percent": -1},
        {"min_cpus": 0},
        {"period_us": 999},
        {"min_quota_us": 999},
        {"growth_ppm": -1},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        SuppressConfig(**wrong)


def test_division_gives_wants_first_and_the_rest_by_weight() -> None:
    assert divide(1000, [GroupShare(0, 1), GroupShare(2000, 1)], 10) == (50, 950)
    assert divide(1000, [GroupShare(100, 1), GroupShare(100, 3)], 10) == (325, 675)
    assert divide(1000, [GroupShare(100, 1, limit_m=120), GroupShare(100, 1)], 10) == (120, 880)
    assert divide(1000, [GroupShare(900, 1, limit_m=120), GroupShare(900, 1, limit_m=200)], 10) == (120, 200)
    assert divide(5, [GroupShare(0, 1), GroupShare(0, 1)], 10) == (10, 10)
    assert divide(1000, [], 10) == ()


def test_amounts_read_exactly() -> None:
    assert [cpu_text(amount) for amount in (3200, -400, 55, 0, 12_345)] == ["3.2", "-0.4", "0.055", "0", "12.345"]
    assert [percent_text(ppm) for ppm in (500_000, 125_000, 4000, -100_000)] == ["50 %", "12.5 %", "0.4 %", "-10 %"]
