"""What a choice is worth between nodes, and what counts as held twice."""

from __future__ import annotations

from itertools import product

import pytest

from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import Device, DeviceType, VirtualFunction
from cotenant.model.resources import GPU_CORE, GPU_MEMORY_RATIO, RDMA, Amounts
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger
from cotenant.policy.placement.devices.overlap import overlaps
from cotenant.policy.placement.devices.scoring import worth
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod


def part(minor: int, percent: int) -> DeviceAllocation:
    return DeviceAllocation(DeviceType.GPU, minor, Amounts.of({GPU_CORE: percent, GPU_MEMORY_RATIO: percent}))


def machine(*used: int) -> DeviceLedger:
    """So many GPUs, each used by so many percent."""
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100})
    ledger = DeviceLedger.of([Device(DeviceType.GPU, minor, total) for minor in range(len(used))])
    for minor, percent in enumerate(used):
        if percent:
            ledger = ledger.given(DeviceHolding(f"h{minor}", (part(minor, percent),)))
    return ledger


def test_binpack_fills_a_device_that_is_in_use_before_it_opens_another() -> None:
    used, idle = machine(50, 0), machine(0, 0)
    assert worth(DeviceStrategy.BINPACK, used, (part(0, 50),), ()) > worth(
        DeviceStrategy.BINPACK, idle, (part(0, 50),), ()
    )
    assert worth(DeviceStrategy.SPREAD, used, (part(0, 50),), ()) < worth(
        DeviceStrategy.SPREAD, idle, (part(0, 50),), ()
    )


def test_whole_devices_go_where_fewest_idle_ones_are_left() -> None:
    exact, wide = machine(100, 0), machine(0, 0)
    assert worth(DeviceStrategy.BINPACK, exact, (part(1, 100),), ()) == 100
    assert worth(DeviceStrategy.BINPACK, wide, (part(0, 100),), ()) == 50
    assert worth(DeviceStrategy.DEFAULT, exact, (part(1, 100),), ()) < worth(
        DeviceStrategy.DEFAULT, wide, (part(0, 100),), ()
    )


def test_the_gradient_is_the_growth_of_fragments_with_its_sign_turned() -> None:
    usual = (UsualPod(50, 1, 2), UsualPod(100, 1, 1))
    # before: 100 idle, of use to both; after: 40 idle, of use to neither
    assert worth(DeviceStrategy.FRAGMENTATION, machine(0), (part(0, 60),), usual) == -(2 * 40 + 40)
    # before: 60 idle, of no use to whole pods; after nothing is idle
    assert worth(DeviceStrategy.FRAGMENTATION, machine(40), (part(0, 60),), usual) == 60


def test_what_is_held_twice_is_said() -> None:
    bus = VirtualFunction(0, "0000:01:00.1")
    card = Device(DeviceType.RDMA, 0, Amounts.of({RDMA: 100}))
    ledger = DeviceLedger.of([card])
    held = DeviceAllocation(DeviceType.RDMA, 0, Amounts.of({RDMA: 60}), (bus,))
    ledger = ledger.observed(DeviceHolding("a", (held,)))
    assert list(overlaps(ledger)) == []
    assert list(overlaps(ledger.observed(DeviceHolding("b", (held,))))) == [
        "rdma 0: 120 of 100 koordinator.sh/rdma are held",
        "virtual function 0000:01:00.1 is held by 2 pods",
    ]


@pytest.mark.parametrize("strategy", DeviceStrategy)
def test_a_node_without_the_device_or_without_a_healthy_one_is_worth_nothing(strategy: DeviceStrategy) -> None:
    usual = (UsualPod(50, 1, 2),)
    card = DeviceAllocation(DeviceType.RDMA, 0, Amounts.of({RDMA: 10}))
    assert worth(strategy, machine(0), (card,), usual) == 0.0
    assert worth(strategy, machine(0), (), usual) == 0.0
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100})
    broken = DeviceLedger.of([Device(DeviceType.GPU, 0, total, healthy=False)])
    assert worth(strategy, broken, (part(0, 10),), usual) == 0.0


@pytest.mark.parametrize("used", list(product((0, 30, 80, 100), repeat=3)))
@pytest.mark.parametrize("asked", [20, 100])
def test_between_nodes_a_choice_is_worth_what_its_strategy_says(used: tuple[int, ...], asked: int) -> None:
    given, chosen = machine(*used), (part(0, asked),)
    after = [min(100, used[0] + asked), *used[1:]]
    idle = 100 * sum(percent > 0 for percent in after) / 3
    packed = idle if after[0] - used[0] >= 100 else (2 * after[0] + idle) / 3
    assert worth(DeviceStrategy.DEFAULT, given, chosen, ()) == pytest.approx(100 - sum(after) / 3)
    assert worth(DeviceStrategy.BINPACK, given, chosen, ()) == pytest.approx(packed)
    assert worth(DeviceStrategy.FRAGMENTATION, given, chosen, ()) == pytest.approx(packed)
    assert worth(DeviceStrategy.SPREAD, given, chosen, ()) == pytest.approx(100 - packed)
