"""What is left of a reservation that holds devices and CPUs by number."""

from __future__ import annotations

from cotenant.model.cluster.demands import NO_HOLDINGS, Holdings
from cotenant.model.cpus.spec import NumaAmount, ResourceStatus
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType, VirtualFunction
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY_RATIO, GPU_SHARED, NVIDIA_GPU, RDMA, Amounts
from cotenant.policy.placement.reservations.holding import ReservedAmounts, kept_after


def gpu(minor: int, percent: int) -> DeviceAllocation:
    return DeviceAllocation(DeviceType.GPU, minor, Amounts.of({GPU_CORE: percent, GPU_MEMORY_RATIO: percent}))


def card(minor: int, amount: int, *functions: str) -> DeviceAllocation:
    made = tuple(VirtualFunction(ord(bus), bus) for bus in functions)
    return DeviceAllocation(DeviceType.RDMA, minor, Amounts.of({RDMA: amount}), made)


def kept(amounts: dict[str, int], *devices: DeviceAllocation, cpus: ResourceStatus | None = None) -> ReservedAmounts:
    return ReservedAmounts(Amounts.of(amounts), Holdings(cpus=cpus, devices=devices))


def test_without_numbers_only_amounts_count() -> None:
    found = kept_after(kept({"cpu": 4000, "memory": 10}), [kept({"cpu": 1000}), kept({"memory": 99}, gpu(0, 50))])
    assert found == ReservedAmounts(Amounts.of({"cpu": 3000}), NO_HOLDINGS)
    assert kept_after(kept({"cpu": 1}), []) == kept({"cpu": 1})


def test_devices_are_counted_by_number() -> None:
    reserved = kept({NVIDIA_GPU: 2, "cpu": 8}, gpu(0, 100), gpu(1, 100))
    assert kept_after(reserved, []) == reserved
    # an owner asked by another name, and has half of one device: the device is not whole any more
    found = kept_after(reserved, [kept({GPU: 50}, gpu(1, 50))])
    assert found == kept({NVIDIA_GPU: 1, "cpu": 8}, gpu(0, 100), gpu(1, 50))
    # one that is held elsewhere takes nothing from it
    assert kept_after(reserved, [kept({GPU: 50}, gpu(5, 50))]) == reserved
    whole = kept_after(reserved, [kept({NVIDIA_GPU: 1}, gpu(0, 100)), kept({"cpu": 8})])
    assert whole == kept({NVIDIA_GPU: 1}, gpu(1, 100))
    nothing = kept_after(reserved, [kept({NVIDIA_GPU: 2}, gpu(0, 100), gpu(1, 100))])
    assert nothing == kept({"cpu": 8})


def test_parts_of_a_device_are_counted_in_percent() -> None:
    reserved = kept({GPU: 150}, gpu(0, 100), gpu(1, 50))
    found = kept_after(reserved, [kept({GPU: 30}, gpu(0, 30)), kept({GPU: 20}, gpu(0, 20))])
    assert found == kept({GPU: 100}, gpu(0, 50), gpu(1, 50))
    more = kept_after(reserved, [kept({GPU: 20}, gpu(1, 80))])  # holds more of it than is reserved, and asked for less
    assert more == kept({GPU: 100}, gpu(0, 100))
    asked = kept_after(reserved, [kept({GPU: 90}, gpu(1, 10))])  # what was asked for is more than it holds
    assert asked == kept({GPU: 60}, gpu(0, 100), gpu(1, 40))
    by_name = kept({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_SHARED: 1}, gpu(0, 100))
    assert kept_after(by_name, [kept({}, gpu(0, 25))]) == kept({GPU_CORE: 75, GPU_MEMORY_RATIO: 75}, gpu(0, 75))


def test_a_resource_without_devices_of_its_type_is_counted_by_amounts_alone() -> None:
    reserved = kept({NVIDIA_GPU: 1, RDMA: 100}, gpu(0, 100))
    assert kept_after(reserved, [kept({RDMA: 30}, gpu(0, 100))]) == kept({RDMA: 70})


def test_functions_of_a_card_are_free_until_somebody_has_them() -> None:
    reserved = kept({RDMA: 100}, card(0, 100, "a", "b"))
    found = kept_after(reserved, [kept({RDMA: 40}, card(0, 40, "b"))])
    assert found == kept({RDMA: 60}, card(0, 60, "a"))
    other = kept_after(reserved, [kept({RDMA: 40}, card(1, 40, "a"))])  # of a card that lists it too
    assert other == kept({RDMA: 60}, card(0, 100, "b"))
    empty = kept_after(reserved, [kept({RDMA: 100}, card(0, 100))])
    assert empty.holds.devices == (DeviceAllocation(DeviceType.RDMA, 0, Amounts(), card(0, 1, "a", "b").functions),)


def test_the_same_part_twice_is_taken_once() -> None:
    reserved = kept({GPU: 100}, gpu(0, 50), gpu(0, 50))
    found = kept_after(reserved, [kept({GPU: 60}, gpu(0, 60))])
    assert found == kept({GPU: 40}, gpu(0, 40))


def status(cpus: tuple[int, ...] = (), **numa: tuple[int | None, int | None]) -> ResourceStatus:
    return ResourceStatus(cpus, tuple(NumaAmount(int(node[1:]), *amounts) for node, amounts in numa.items()))


def test_cpus_are_taken_one_by_one_with_the_amounts_of_their_numa_nodes() -> None:
    reserved = kept({"cpu": 4000}, cpus=status((0, 1, 4, 5), n0=(2000, None), n1=(2000, 100)))
    owner = kept({"cpu": 2000}, cpus=status((1, 5, 9), n0=(1000, None), n1=(1000, 30)))
    assert kept_after(reserved, [owner]) == kept({"cpu": 2000}, cpus=status((0, 4), n0=(1000, None), n1=(1000, 70)))
    without = kept({"cpu": 1000})  # of no CPUs of its own
    assert kept_after(reserved, [without]) == kept({"cpu": 3000}, cpus=reserved.holds.cpus)
    all_of_it = kept({"cpu": 4000}, cpus=status((0, 1, 4, 5), n0=(2000, None), n1=(9000, 999)))
    assert kept_after(reserved, [all_of_it]) == ReservedAmounts(Amounts(), Holdings())
    # the CPUs are gone: what is left of memory has no CPU
    memory_left = kept({"cpu": 4000}, cpus=status((0, 1, 4, 5), n1=(None, 40)))
    assert kept_after(reserved, [memory_left]).holds.cpus == status((), n1=(None, 60))


def test_amounts_of_numa_nodes_without_cpus_of_ones_own() -> None:
    reserved = kept({"cpu": 3000}, cpus=status((), n0=(3000, 10), n1=(None, 5)))
    found = kept_after(
        reserved,
        [
            kept({"cpu": 1000}, cpus=status((), n0=(1000, None))),
            kept({"cpu": 1}, cpus=status((), n0=(500, 10), n1=(7, 5))),
        ],
    )
    assert found.holds.cpus == status((), n0=(1500, 0))
