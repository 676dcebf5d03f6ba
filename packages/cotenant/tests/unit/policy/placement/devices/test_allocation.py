from __future__ import annotations

import pytest
from tests.unit.policy.placement.devices.machines import GIB, WHOLE, ask, cards, gpus, minors, placed, refused

from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.hints import CountBy, DeviceHint, DeviceScope, JointAllocation, PartitionSpec
from cotenant.model.devices.partition import Partition, PartitionTable, halves
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, RDMA, Amounts
from cotenant.policy.placement.devices.allocation import DeviceChoice, allocate
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger
from cotenant.policy.placement.devices.numa import device_hints
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod, fragments
from cotenant.policy.placement.numa import Hint

BESIDE = JointAllocation((DeviceType.GPU, DeviceType.RDMA), same_pcie=True)
FUNCTION = (DeviceHint(DeviceType.RDMA, function_selector=LabelSelector.of({"type": "general"})),)


def used(*parts: tuple[int, int], devices: int = 8) -> DeviceLedger:
    """A node of which so many percent of these GPUs are used."""
    ledger = DeviceLedger.of(gpus(devices))
    for minor, percent in parts:
        part = Amounts.of({GPU_CORE: percent, GPU_MEMORY_RATIO: percent})
        ledger = ledger.given(DeviceHolding(f"u{minor}", (DeviceAllocation(DeviceType.GPU, minor, part),)))
    return ledger


def test_strategies_take_different_devices() -> None:
    ledger = used((0, 30), (1, 60), (4, 10))
    assert minors(ledger, ask({GPU: 20})) == (5,)  # beside one in use
    assert minors(ledger, ask({GPU: 20}, strategy=DeviceStrategy.BINPACK)) == (1,)
    assert minors(ledger, ask({GPU: 20}, strategy=DeviceStrategy.SPREAD)) == (2,)
    # 40 on GPU 0 leaves 30, which half-GPU pods cannot use; 40 on GPU 1 leaves nothing over
    usual = (UsualPod(50, 1, 1),)
    assert minors(ledger, ask({GPU: 40}, strategy=DeviceStrategy.FRAGMENTATION, usual=usual)) == (1,)


def test_fragments_count_what_usual_pods_cannot_use() -> None:
    assert fragments((50, 100), (UsualPod(60, 1, 1),)) == 50
    assert fragments((50, 100), (UsualPod(100, 2, 3),)) == 3 * 150
    assert fragments((50, 100), (UsualPod(10, 1, 1),)) == 0


def test_whole_gpus_lie_under_one_switch_where_they_can_and_keep_other_switches_whole() -> None:
    assert minors(used((0, 10)), ask({NVIDIA_GPU: 1})) == (1,)
    assert minors(used((0, 10)), ask({NVIDIA_GPU: 2})) == (2, 3)
    assert minors(used((0, 10)), ask({NVIDIA_GPU: 3})) == (1, 2, 3)
    assert minors(used((0, 10)), ask({NVIDIA_GPU: 4})) == (4, 5, 6, 7)


def test_linked_gpus_go_before_those_under_one_switch() -> None:
    crossed = DeviceLedger.of(gpus(4, links="abba"))
    assert minors(crossed, ask({NVIDIA_GPU: 2})) == (0, 3)
    assert minors(DeviceLedger.of(gpus(4, links="aaaa")), ask({NVIDIA_GPU: 2})) == (0, 1)


def test_a_required_scope_is_enforced_or_the_nearest_miss_is_reported() -> None:
    ledger = used((0, 10), (4, 10))
    numa = (DeviceHint(DeviceType.GPU, scope=DeviceScope.NUMA),)
    assert minors(ledger, ask({NVIDIA_GPU: 3}, hints=numa)) == (1, 2, 3)
    assert refused(ledger, ask({NVIDIA_GPU: 4}, hints=numa)) == (
        "not enough gpu devices within one NUMANode",
        "3 of 4 in NUMA 0, 6 on the node",
    )
    one = (DeviceHint(DeviceType.GPU, scope=DeviceScope.DEVICE),)
    assert minors(ledger, ask({GPU: 50}, hints=one)) == (1,)
    assert refused(ledger, ask({NVIDIA_GPU: 2}, hints=one))[1] == "2 requested"
    nowhere = DeviceLedger.of([Device(DeviceType.GPU, 0, WHOLE)])
    assert minors(nowhere, ask({GPU: 50}, hints=one)) == (0,)
    assert refused(nowhere, ask({GPU: 50}, hints=numa))[1] == "the location of the gpu devices is not known"


def test_several_shares_within_one_numa_node() -> None:
    numa = (DeviceHint(DeviceType.GPU, scope=DeviceScope.NUMA),)
    wanted = ask({"koordinator.sh/gpu.shared": 2, GPU_MEMORY_RATIO: 100}, hints=numa)
    assert minors(used((0, 60), (1, 60), (2, 60), (5, 20)), wanted) == (4, 5)


def test_an_ill_device_is_not_given_and_is_named() -> None:
    ledger = placed(DeviceLedger.of(gpus(2, ill=(0,))), "a", ask({GPU: 70}))
    assert refused(ledger, ask({GPU: 50})) == (
        "not enough gpu devices",
        "0 of 1 devices have room; gpu 1 lacks 20 koordinator.sh/gpu-core, "
        "3435973836 koordinator.sh/gpu-memory, 20 koordinator.sh/gpu-memory-ratio; unhealthy: 0",
    )


def test_a_device_that_falls_ill_keeps_its_holders_and_gets_no_others() -> None:
    well = placed(DeviceLedger.of(gpus(2)), "a", ask({GPU: 50}))
    ill = well.with_devices(gpus(2, ill=(0,)))
    ill.validate()
    assert minors(ill, ask({GPU: 50})) == (1,)
    gone = ill.with_devices(gpus(2)[1:])
    assert gone.holdings == well.holdings
    assert gone.with_devices(gpus(2)) == well
    assert gone.returned("a").with_devices(gpus(2)) == DeviceLedger.of(gpus(2))


def test_a_little_memory_keeps_a_whole_gpu_from_a_device() -> None:
    ledger = placed(DeviceLedger.of(gpus(2)), "a", ask({GPU_MEMORY: 1024}))
    assert minors(ledger, ask({NVIDIA_GPU: 1})) == (1,)


def test_what_may_be_preempted_counts_as_free_and_stays_booked() -> None:
    ledger = placed(DeviceLedger.of(gpus(1)), "a", ask({NVIDIA_GPU: 1}))
    assert refused(ledger, ask({GPU: 50}))[0] == "not enough gpu devices"
    assert minors(ledger, ask({GPU: 50}, preemptible=ledger.holdings[0].allocations)) == (0,)
    ledger.validate()


def test_a_reservations_devices_are_preferred_or_required() -> None:
    ledger = DeviceLedger.of(gpus())
    assert minors(ledger, ask({NVIDIA_GPU: 1}, preferred=((DeviceType.GPU, 0b1000_0000),))) == (7,)
    assert minors(ledger, ask({NVIDIA_GPU: 2}, preferred=((DeviceType.GPU, 0b1000_0000),))) == (6, 7)
    assert minors(ledger, ask({GPU: 50}, preferred=((DeviceType.GPU, 0b10),))) == (1,)
    assert minors(ledger, ask({NVIDIA_GPU: 1}, required=((DeviceType.GPU, 0b10_0000),))) == (5,)
    reason, nearest = refused(ledger, ask({NVIDIA_GPU: 2}, required=((DeviceType.GPU, 0b10_0000),)))
    assert reason == "not enough gpu devices"
    assert nearest == "1 of 2 devices have room; not selected: 0, 1, 2, 3, 4, 6, 7"


def test_numa_nodes_bound_the_choice() -> None:
    assert minors(DeviceLedger.of(gpus()), ask({NVIDIA_GPU: 1}, numa=0b10)) == (4,)


def test_numa_hints_of_devices_are_what_choosing_keeps() -> None:
    ledger = used((0, 10))
    assert device_hints(ledger, ask({NVIDIA_GPU: 4}), (0, 1)) == (Hint(0b10, True), Hint(0b11, False))
    assert device_hints(ledger, ask({NVIDIA_GPU: 6}), (0, 1)) == (Hint(0b11, True),)
    assert device_hints(ledger, ask({NVIDIA_GPU: 8}), (0, 1)) == ()
    full = used(*((minor, 10) for minor in (0, 4)))
    assert device_hints(full, ask({NVIDIA_GPU: 4}), (0, 1)) == (Hint(0b11, False),)


def test_a_partition_table_of_any_size() -> None:
    ring = PartitionTable.of(
        [Partition(0b000111, 5), Partition(0b111000, 9), Partition(0b001110, 9), Partition(0b11, 1)]
    )
    ledger = DeviceLedger.of(gpus(6), ring, honor=True)
    assert minors(ledger, ask({NVIDIA_GPU: 3})) == (3, 4, 5)
    assert refused(ledger, ask({NVIDIA_GPU: 4})) == (
        "no GPU partition of the requested size",
        "4 requested, the table has 2, 3",
    )
    for minor in (1, 4):
        shared = ask({GPU: 50}, required=((DeviceType.GPU, 1 << minor),))
        ledger = placed(ledger, f"p{minor}", shared)
    assert refused(ledger, ask({NVIDIA_GPU: 3})) == ("no free GPU partition", "of [3, 4, 5] not free: [4]")
    assert refused(ledger, ask({NVIDIA_GPU: 2}, partition=PartitionSpec(bandwidth=5)))[1] == "5 requested, at best 0"


def test_a_preferred_table_gives_way_and_a_pod_may_insist() -> None:
    ledger = DeviceLedger.of(gpus(), halves(8))
    assert minors(ledger, ask({NVIDIA_GPU: 3})) == (0, 1, 2)
    assert (
        refused(ledger, ask({NVIDIA_GPU: 3}, partition=PartitionSpec()))[0] == "no GPU partition of the requested size"
    )
    bare = DeviceLedger.of(gpus())
    assert refused(bare, ask({NVIDIA_GPU: 2}, partition=PartitionSpec()))[0] == "no GPU partition table"


def test_a_partition_is_taken_where_it_spoils_least() -> None:
    ledger = DeviceLedger.of(gpus(16, a_numa=8), halves(16), honor=True)
    ledger = placed(ledger, "a", ask({NVIDIA_GPU: 4}))
    assert minors(ledger, ask({NVIDIA_GPU: 2})) == (4, 5)
    assert minors(ledger, ask({NVIDIA_GPU: 8})) == tuple(range(8, 16))


def test_a_partition_lies_within_the_scope_asked_for() -> None:
    ledger = DeviceLedger.of(gpus(), halves(8), honor=True)
    numa = (DeviceHint(DeviceType.GPU, scope=DeviceScope.NUMA),)
    assert minors(ledger, ask({NVIDIA_GPU: 4}, hints=numa)) == (0, 1, 2, 3)
    assert refused(ledger, ask({NVIDIA_GPU: 8}, hints=numa)) == (
        "no GPU partition within the requested scope",
        "none of 1 with 8 GPUs is",
    )


def test_a_table_without_scores_is_spoiled_as_little() -> None:
    table = PartitionTable.of([Partition(0b1 << i, 0) for i in range(4)] + [Partition(0b11, 0), Partition(0b1100, 0)])
    ledger = placed(
        DeviceLedger.of(gpus(4), table, honor=True), "a", ask({NVIDIA_GPU: 1}, required=((DeviceType.GPU, 0b1000),))
    )
    assert minors(ledger, ask({NVIDIA_GPU: 1})) == (2,)


def test_ill_cards_that_tell_nothing_of_themselves_are_refused_not_stumbled_over() -> None:
    ledger = DeviceLedger.of([*gpus(2), Device(DeviceType.RDMA, 0, healthy=False)])
    loose = ask({NVIDIA_GPU: 1, RDMA: 1}, joint=JointAllocation((DeviceType.GPU, DeviceType.RDMA)))
    assert refused(ledger, loose) == ("not enough rdma devices", "0 of 1 devices have room; unhealthy: 0")


def test_a_shared_gpu_needs_no_partition() -> None:
    assert minors(DeviceLedger.of(gpus(), halves(8), honor=True), ask({GPU: 50})) == (0,)


def test_gpus_go_where_cards_have_room_when_the_switch_must_be_the_same() -> None:
    ledger = DeviceLedger.of([*gpus(), *cards()])
    wanted = ask({NVIDIA_GPU: 2, RDMA: 1}, joint=BESIDE, hints=FUNCTION)
    full = ledger
    for uid in ("a", "b"):  # both functions of the first card
        full = placed(full, uid, ask({RDMA: 1}, hints=FUNCTION, required=((DeviceType.RDMA, 0b1),)))
    got = allocate(full, wanted)
    assert isinstance(got, DeviceChoice)
    assert [(allocation.type.value, allocation.minor) for allocation in got.allocations] == [
        ("gpu", 2),
        ("gpu", 3),
        ("rdma", 1),
    ]
    assert got.allocations[-1].functions[0].bus == "0000:01:00.0"


def test_a_card_under_each_switch_that_the_gpus_use() -> None:
    ledger = DeviceLedger.of([*gpus(), *cards()])
    four = ask({NVIDIA_GPU: 4, RDMA: 1}, joint=BESIDE, hints=FUNCTION)
    assert minors(ledger, four, DeviceType.RDMA) == (0, 1)
    loose = ask({NVIDIA_GPU: 4, RDMA: 1}, joint=JointAllocation((DeviceType.GPU, DeviceType.RDMA)), hints=FUNCTION)
    none_left = ledger
    for uid in ("a", "b"):
        none_left = placed(none_left, uid, ask({RDMA: 1}, hints=FUNCTION, required=((DeviceType.RDMA, 0b10),)))
    assert minors(none_left, four, DeviceType.RDMA) == (2, 3)
    assert minors(none_left, loose, DeviceType.RDMA) == (0, 2)


def test_more_cards_than_a_switch_has() -> None:
    ledger = DeviceLedger.of([*gpus(), *cards()])
    two = ask({NVIDIA_GPU: 1, RDMA: 200}, joint=BESIDE)
    assert refused(ledger, two) == ("not enough rdma devices under the same PCIe switch", "1 of 2 under 0")
    loose = ask({NVIDIA_GPU: 1, RDMA: 200}, joint=JointAllocation((DeviceType.GPU, DeviceType.RDMA)))
    assert minors(ledger, loose, DeviceType.RDMA) == (0, 1)


def test_virtual_functions_run_out() -> None:
    ledger = DeviceLedger.of(cards(1, functions=1))
    ledger = placed(ledger, "a", ask({RDMA: 1}, hints=FUNCTION))
    assert refused(ledger, ask({RDMA: 1}, hints=FUNCTION)) == (
        "not enough rdma virtual functions",
        "0 of 1 devices with room have a free one that is selected",
    )
    assert minors(ledger, ask({RDMA: 1}), DeviceType.RDMA) == (0,)
    assert ledger.returned("a") == DeviceLedger.of(cards(1, functions=1))


@pytest.mark.parametrize(
    ("hint", "amount", "wanted"),
    [
        (DeviceHint(DeviceType.RDMA, count_by=CountBy.ALL), 10, [(0, 10), (1, 10), (2, 10), (3, 10)]),
        (DeviceHint(DeviceType.RDMA, count_by=CountBy.REQUESTS), 2, [(0, 1), (1, 1)]),
        (DeviceHint(DeviceType.RDMA, count_by=CountBy.REQUESTS, whole_device=True), 2, [(0, 100), (1, 100)]),
    ],
)
def test_what_a_number_of_cards_means(hint: DeviceHint, amount: int, wanted: list[tuple[int, int]]) -> None:
    got = allocate(DeviceLedger.of(cards()), ask({RDMA: amount}, hints=(hint,)))
    assert isinstance(got, DeviceChoice)
    assert [(allocation.minor, allocation.amounts.get(RDMA)) for allocation in got.allocations] == wanted


def test_selected_devices_only() -> None:
    hint = DeviceHint(DeviceType.GPU, LabelSelector.of({"model": "x"}))
    assert refused(DeviceLedger.of(gpus(1)), ask({NVIDIA_GPU: 1}, hints=(hint,)))[1] == (
        "0 of 1 devices have room; not selected: 0"
    )


def test_a_node_without_such_devices_and_one_without_such_resources() -> None:
    assert refused(DeviceLedger.of([]), ask({GPU: 50})) == ("no gpu devices", "the node has none")
    npu = ask({"huawei.com/npu-core": 50, GPU_MEMORY_RATIO: 50})
    assert refused(DeviceLedger.of(gpus(1)), npu)[1] == (
        "0 of 1 devices have room; the gpu devices here do not have these resources"
    )


def test_a_ledger_takes_no_more_than_there_is() -> None:
    ledger = used((0, 60))
    for part in ({GPU_CORE: 50}, {GPU_MEMORY: 7 * GIB}, {"example.com/else": 1}):
        over = DeviceHolding("b", (DeviceAllocation(DeviceType.GPU, 0, Amounts.of(part)),))
        with pytest.raises(InvalidInput):
            ledger.given(over)
    twice = DeviceAllocation(DeviceType.GPU, 1, Amounts.of({GPU_CORE: 60}))
    with pytest.raises(InvalidInput):
        ledger.given(DeviceHolding("b", (twice, twice)))
    with pytest.raises(InvalidInput, match="a healthy device"):
        ledger.given(DeviceHolding("b", (DeviceAllocation(DeviceType.GPU, 40, Amounts.of({GPU_CORE: 1})),)))
    with pytest.raises(InvalidInput, match="without devices"):
        ledger.given(DeviceHolding("u0", ()))


def test_what_others_gave_counts_though_it_is_too_much() -> None:
    fact = DeviceHolding("b", (DeviceAllocation(DeviceType.GPU, 0, Amounts.of({GPU_CORE: 90, GPU_MEMORY_RATIO: 90})),))
    ledger = used((0, 60)).observed(fact)
    ledger.validate()
    assert minors(ledger, ask({GPU: 5})) == (1,)
    assert ledger.returned("b") == used((0, 60))


def test_a_function_that_two_hold_stays_taken_while_one_does() -> None:
    ledger = placed(DeviceLedger.of(cards(1)), "a", ask({RDMA: 1}, hints=FUNCTION))
    ledger = ledger.observed(DeviceHolding("b", ledger.holdings[0].allocations)).returned("a")
    ledger.validate()
    with pytest.raises(InvalidInput, match="functions that are free"):
        ledger.given(DeviceHolding("c", ledger.holdings[0].allocations))


def test_a_minor_comes_once() -> None:
    with pytest.raises(InvalidInput, match="each minor once"):
        DeviceLedger.of([*gpus(1), *gpus(1)])
