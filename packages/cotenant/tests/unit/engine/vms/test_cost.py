"""What a machine costs between two looks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.vms.cost import EXITS, KICKS, NOTIFICATIONS, VcpuCost, machine_cost
from cotenant.model.vms.host_machine import HostMachine, ThreadTime

BEFORE = HostMachine(
    7, "db", "", "/machine.slice/db", "KVM", (7, 8, 9),
    {0: ThreadTime(1_000_000, 0, 1), 1: ThreadTime(500_000, 500_000, 1)}, 100_000, 10_000,
)  # fmt: skip
AFTER = replace(
    BEFORE,
    vcpus={0: ThreadTime(3_000_000, 0, 2), 1: ThreadTime(1_000_000, 2_000_000, 2), 2: ThreadTime(0, 0, 0)},
    other_us=500_000,
    vhost_us=210_000,
)
COUNTS = {EXITS: 4000, KICKS[0]: 300, KICKS[2]: 100, NOTIFICATIONS: 200}


def test_run_and_stolen_time_by_vcpu() -> None:
    cost = machine_cost(BEFORE, AFTER, None, 2.0)
    assert cost.vcpus == (VcpuCost(0, 1.0, 0.0), VcpuCost(1, 0.25, 0.75), VcpuCost(2, 0.0, 0.0))
    assert cost.stolen == pytest.approx(1.5 / 4.0)
    assert (cost.device_cpus, cost.vhost_cpus) == pytest.approx((0.2, 0.1))
    assert cost.cpus == pytest.approx(1.0 + 0.25 + 0.2 + 0.1)
    assert (cost.exits_per_s, cost.kicks_per_s, cost.kicks_per_notification) == (None, None, None)


def test_rates_are_of_what_this_kernel_counts() -> None:
    cost = machine_cost(BEFORE, AFTER, COUNTS, 2.0)
    assert (cost.exits_per_s, cost.kicks_per_s, cost.notifications_per_s) == (2000.0, 200.0, 100.0)
    assert cost.kicks_per_notification == 2.0
    silent = machine_cost(BEFORE, AFTER, {EXITS: 0, NOTIFICATIONS: 0, KICKS[0]: 5}, 2.0)
    assert (silent.exits_per_s, silent.notifications_per_s, silent.kicks_per_notification) == (0.0, 0.0, None)
    assert machine_cost(BEFORE, AFTER, {NOTIFICATIONS: 1}, 2.0).kicks_per_s is None


def test_an_emulated_machine_has_no_exits_and_one_without_names_no_vcpus() -> None:
    assert machine_cost(BEFORE, replace(AFTER, accelerator="TCG"), COUNTS, 2.0).exits_per_s is None
    unnamed = machine_cost(replace(BEFORE, vcpus={}), replace(AFTER, vcpus={}, accelerator=""), None, 2.0)
    assert (unnamed.vcpus, unnamed.stolen, unnamed.device_cpus) == ((), None, pytest.approx(0.2))


def test_another_process_of_the_same_number_costs_nothing_negative() -> None:
    cost = machine_cost(AFTER, BEFORE, None, 2.0)
    assert (cost.cpus, cost.stolen) == (0.0, 0.0)
