"""What holders block a pod on a node's devices, compared with trial allocations without every set of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from random import Random

import numpy as np
import pytest
from tests.unit.engine.rules.test_devices import BYTES, cluster, gpus, part, pod

from cotenant.engine.rules.devices.nodes import DeviceNodes
from cotenant.engine.rules.devices.requests import DeviceSettings, DistinctDeviceRequest, read_ask
from cotenant.engine.rules.devices.verdicts import DeviceVerdicts
from cotenant.engine.rules.devices.victims import DeviceVacate, device_columns, device_vacate
from cotenant.model.cluster.demands import NO_DEMANDS
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, RDMA, Amounts
from cotenant.policy.placement.preemption import UNLIMITED, ConstraintColumn

NAMES = ("a", "b", "unknown", "bare")
COUNT, CARDS, ILL = 3, 2, 1


def ask_of(amounts: dict[str, int]) -> DistinctDeviceRequest:
    wanted = read_ask(pod("new", amounts).pod, NO_DEMANDS, DeviceSettings())
    assert not isinstance(wanted, str)
    return DistinctDeviceRequest(wanted, False)


def card(minor: int, percent: int) -> DeviceAllocation:
    return DeviceAllocation(DeviceType.RDMA, minor, Amounts.of({RDMA: percent}))


def world(ill: tuple[int, ...] = ()) -> DeviceNodes:
    """Node `a` with healthy devices, `b` with ill ones, one whose devices are not known, and one with cards alone."""
    c = cluster(*NAMES)
    c.plugins.devices.seen(gpus("a", COUNT, cards=CARDS))
    c.plugins.devices.seen(gpus("b", COUNT, ill=ill, cards=CARDS))
    c.plugins.devices.seen(gpus("bare", 0, cards=CARDS))
    return c.plugins.devices.nodes


def columns_of(
    nodes: DeviceNodes, ask: DistinctDeviceRequest, holders: list[tuple[str, str]]
) -> list[ConstraintColumn]:
    """For these candidates: (name of the node, uid)."""
    verdicts = DeviceVerdicts(ask)
    verdicts.refresh(nodes)
    rows = {nodes.name_of(row): row for row in range(len(NAMES))}
    at = np.array([rows[name] for name, _ in holders], dtype=np.int64)
    return list(device_columns(nodes, verdicts, [uid for _, uid in holders], at))


def sets(size: int) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(range(size), count) for count in range(size + 1))


ASKS: tuple[dict[str, int], ...] = (
    {GPU: 50},
    {NVIDIA_GPU: 2},
    {GPU_CORE: 30, GPU_MEMORY: BYTES // 2},
    {GPU_CORE: 60, GPU_MEMORY_RATIO: 20},
    {RDMA: 50},
    {NVIDIA_GPU: 1, RDMA: 200},
)


@pytest.mark.parametrize("amounts", ASKS, ids=str)
@pytest.mark.parametrize("whole", [False, True])
def test_evictions_that_free_the_devices_leave_no_more_in_a_column_than_its_limit(
    amounts: dict[str, int], whole: bool
) -> None:
    """Where only whole devices are held and asked for, they need to free no more than that, either."""
    random = Random(str((amounts, whole)))
    ask = ask_of(amounts)
    is_exact = whole and set(amounts) == {NVIDIA_GPU}
    for _ in range(4):
        nodes = world(() if whole else (ILL,))
        holders: list[tuple[str, str]] = []
        for number in range(7):
            name = random.choice(("a", "b", "b", "unknown"))
            percent = 100 if whole else random.choice((10, 40, 100))
            held = (part(random.randrange(COUNT), percent), *([card(random.randrange(CARDS), percent)] * (number % 2)))
            nodes.take(name, str(number), held[number % 3 == 2 and len(held) > 1 :])
            holders.append((name, str(number)))
        holders.append(("b", ""))  # holds no device
        columns = columns_of(nodes, ask, holders)
        assert len(columns) == len(ask.wanted.requests)
        assert all(column.weight[-1] == 0 for column in columns)
        for name in NAMES:
            row = next(row for row in range(len(NAMES)) if nodes.name_of(row) == name)
            here = [at for at, (place, uid) in enumerate(holders) if place == name and uid]
            vacate = device_vacate(ask, nodes.at(row))
            if name == "unknown":
                assert vacate is None
                assert all(column.limit[row] == UNLIMITED for column in columns)
                continue
            assert vacate is not None
            for chosen in sets(len(here)):
                gone = [here[at] for at in chosen]
                may = all(
                    column.held[row] - sum(column.weight[at] for at in gone) <= column.limit[row] for column in columns
                )
                does = vacate.fits(frozenset(int(holders[at][1]) for at in gone))
                assert may or not does
                if is_exact and here and _disjoint(nodes, name):
                    assert may == does


def _disjoint(nodes: DeviceNodes, name: str) -> bool:
    """Whether no device has two holders."""
    held = [part.minor for holding in nodes.by_name[name].ledger.holdings for part in holding.allocations]
    return len(held) == len(set(held))


def test_a_column_has_what_is_in_use_and_what_may_stay() -> None:
    """Of the resource that is needed most of, in its unit: bytes. Of two healthy devices one half has to be free."""
    nodes = world(ill=(ILL,))
    nodes.take("b", "1", (part(0, 100), part(ILL, 70), card(0, 100)))
    nodes.take("b", "2", (part(2, 80), card(1, 60)))
    nodes.take("b", "3", (DeviceAllocation(DeviceType.GPU, COUNT, Amounts.of({GPU_CORE: 100})),))  # not there any more
    holders = [("b", "1"), ("b", "2"), ("b", "3"), ("b", "4")]
    row = next(row for row in range(len(NAMES)) if nodes.name_of(row) == "b")
    (column,) = columns_of(nodes, ask_of({GPU_CORE: 50, GPU_MEMORY_RATIO: 50}), holders)
    assert (column.held[row], column.limit[row]) == (BYTES + BYTES * 80 // 100, 2 * BYTES - BYTES // 2)
    assert column.weight.tolist() == [BYTES + BYTES * 70 // 100, BYTES * 80 // 100, 0, 0]
    assert [int(other) for at, other in enumerate(column.limit) if at != row] == [UNLIMITED] * 3
    gpu, rdma = columns_of(nodes, ask_of({NVIDIA_GPU: 1, RDMA: 100}), holders)
    assert rdma.weight.tolist() == [100, 60, 0, 0]
    assert (rdma.held[row], rdma.limit[row]) == (160, 100)
    assert gpu.weight[0] > 0
    (unserved,) = columns_of(nodes, ask_of({NVIDIA_GPU: 1}), [("bare", "1")])
    assert (unserved.weight.tolist(), set(unserved.limit.tolist())) == ([0], {UNLIMITED})


def test_a_holders_size_is_its_share_of_the_devices_of_requested_types() -> None:
    nodes = world()
    nodes.take("a", "1", (part(0, 100), part(1, 25), card(0, 100)))
    nodes.take("a", "2", (DeviceAllocation(DeviceType.GPU, 2, Amounts.of({GPU_CORE: 7, GPU_MEMORY_RATIO: 31})),))
    nodes.take("a", "3", (part(COUNT, 10), card(1, 30)))  # a device that is not there any more counts whole
    nodes.take("a", "4", (DeviceAllocation(DeviceType.GPU, 2, Amounts.of({GPU_MEMORY: BYTES // 300})),))
    nodes.take("a", "5", (card(1, 5),))
    nodes.take("a", "6", (DeviceAllocation(DeviceType.GPU, 1, Amounts.of({RDMA: 5})),))
    nodes.take("a", "claims", (part(2, 1),))
    node = nodes.by_name["a"]
    gpu, both = (device_vacate(ask_of(amounts), node) for amounts in ({GPU: 50}, {NVIDIA_GPU: 1, RDMA: 100}))
    assert isinstance(gpu, DeviceVacate)
    assert isinstance(both, DeviceVacate)
    assert gpu.sizes == {1: 125, 2: 31, 3: 100, 4: 1, 5: 0, 6: 0}
    assert both.sizes == {1: 225, 2: 31, 3: 130, 4: 1, 5: 5, 6: 0}
    assert device_vacate(ask_of({GPU: 50}), None) is None
    assert device_vacate(ask_of({GPU: 50}), nodes.by_name.get("unknown")) is None
    cards = device_vacate(ask_of({GPU: 50}), nodes.by_name["bare"])
    assert cards is not None
    assert not cards.fits(frozenset())


def test_nominated_pods_come_first_and_one_that_does_not_fit_takes_nothing() -> None:
    nodes = world()
    nodes.take("a", "1", (part(0, 100), part(1, 100)))
    two, one = ask_of({NVIDIA_GPU: 2}), ask_of({NVIDIA_GPU: 1})
    for nominated, now, then in (
        ((), True, True),
        ((one,), False, True),
        ((two,), True, True),
        ((two, one), False, False),
    ):
        vacate = device_vacate(one, nodes.by_name["a"], nominated)
        assert vacate is not None
        assert (vacate.fits(frozenset()), vacate.fits(frozenset({1}))) == (now, then)
