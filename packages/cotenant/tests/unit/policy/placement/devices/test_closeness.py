"""Devices close together, sets of a partition table, and who has room, against searches that look at everything."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.unit.policy.placement.devices.machines import GIB, WHOLE, gpus

from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.hints import DeviceScope, PartitionSpec
from cotenant.model.devices.partition import Partition, PartitionTable
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, Amounts
from cotenant.policy.placement.devices.fitting import Fitting, fitting, missing_to, shortage
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger, DevicesOfType
from cotenant.policy.placement.devices.nearness import near, near_groups
from cotenant.policy.placement.devices.partitions import choose_partition
from cotenant.policy.placement.refusal import Refusal


def bits(minors: Any) -> int:
    return sum(1 << int(minor) for minor in minors)


def pool_of(devices: list[Device], used: tuple[tuple[int, int], ...] = ()) -> DevicesOfType:
    ledger = DeviceLedger.of(devices)
    for minor, percent in used:
        part = Amounts.of({GPU_CORE: percent, GPU_MEMORY_RATIO: percent})
        ledger = ledger.observed(DeviceHolding(f"u{minor}", (DeviceAllocation(DeviceType.GPU, minor, part),)))
    (pool,) = ledger.pools
    return pool


def surroundings(devices: list[Device], few: tuple[int, ...]) -> list[tuple[int, bool, set[int], tuple[set[int], ...]]]:
    """Every group that holds these: scope, whether it lies within one link domain, its devices, and what is around."""
    by_minor = {device.minor: device for device in devices}
    every = set(by_minor)
    numas = {device.numa for device in devices}
    switches = {(device.numa, device.pcie) for device in devices}
    plain: list[tuple[int, set[int], tuple[set[int], ...]]] = [(DeviceScope.NODE, every, (every,))]
    for numa in numas:
        on = {minor for minor, device in by_minor.items() if device.numa == numa}
        plain.append((DeviceScope.NUMA, on, (every, on)))
        for _, pcie in {switch for switch in switches if switch[0] == numa}:
            under = {minor for minor in on if by_minor[minor].pcie == pcie}
            plain.append((DeviceScope.PCIE, under, (every, on, under)))
    domains = [
        {minor for minor, device in by_minor.items() if device.link == link}
        for link in {device.link for device in devices} - {None}
    ]
    found = []
    for scope, minors, around in plain:
        found.append((scope, any(minors <= domain for domain in domains), minors, around))
        if not any(minors <= domain for domain in domains):
            found += [(scope, True, minors & domain, around) for domain in domains if len(minors & domain) > 1]
    return [group for group in found if set(few) <= group[2]]


def quality(
    pool: DevicesOfType,
    devices: list[Device],
    few: tuple[int, ...],
    widest: int,
    fits: int,
    preferred: int,
    apart: bool,
) -> Any:
    """Of the best group that holds these devices; None where none of them is close enough."""
    keys = []
    for scope, linked, minors, around in surroundings(devices, few):
        if scope >= widest:
            used = sum(bool(bits(part) & pool.busy) for part in around)
            level = scope + (5 if linked and len(few) > 1 else 0)
            there = min(len(few), (bits(minors) & fits & preferred).bit_count()) if preferred else 0
            keys.append((there, level, -used if apart else used))
    return max(keys, default=None)


@pytest.mark.parametrize("seed", range(40))
def test_no_other_choice_is_closer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    links = "".join(rng.choice(list("ab"), 8)) if seed % 3 else ""
    devices = gpus(8, a_switch=int(rng.choice([2, 4])), links=links)
    pool = pool_of(devices, tuple((int(minor), 50) for minor in rng.choice(8, rng.integers(0, 4), replace=False)))
    fits = bits(rng.choice(8, rng.integers(2, 8), replace=False))
    count = int(rng.integers(1, 4))
    scope = DeviceScope(int(rng.integers(1, 4)))
    preferred = fits & int(rng.integers(0, 256)) if seed % 2 else 0
    apart = bool(rng.integers(2))
    if fits.bit_count() < count:
        return
    found = near(pool, fits, count, scope, preferred, (), apart)
    choices = list(combinations([minor for minor in range(8) if fits >> minor & 1], count))
    best = max(
        filter(None, (quality(pool, devices, few, scope, fits, preferred, apart) for few in choices)), default=None
    )
    if best is None:
        assert isinstance(found, Refusal)
        most = max(
            (minors for at, _, minors, _ in surroundings(devices, ()) if at == scope),
            key=lambda minors: (bits(minors) & fits).bit_count(),
        )
        assert found.nearest.startswith(f"{(bits(most) & fits).bit_count()} of {count} in ")
        assert found.nearest.endswith(f", {fits.bit_count()} on the node")
        return
    assert isinstance(found, tuple)
    assert len(set(found)) == count
    assert not bits(found) & ~fits
    assert quality(pool, devices, found, scope, fits, preferred, apart) == best
    if preferred:
        assert (bits(found) & preferred).bit_count() == best[0]


def test_within_the_group_the_best_devices_are_taken_by_their_order() -> None:
    pool = pool_of(gpus(8))
    assert near(pool, 0b11111111, 2, DeviceScope.NODE, 0, (5, 2, 4, 3, 0, 1, 6, 7), False) == (4, 5)
    assert near(pool, 0b11111111, 3, DeviceScope.NODE, 0, (5, 2, 7, 4, 3, 0, 1, 6), False) == (4, 5, 7)
    assert near(pool, 0b11111111, 1, DeviceScope.NODE, 0, (6, 1, 0, 2, 3, 4, 5, 7), False) == (6,)
    assert near(pool, 0b11111111, 3, DeviceScope.NODE, 0b10000000, (5, 2, 7, 4, 3, 0, 1, 6), False) == (4, 5, 7)
    assert near(pool, 0b11110000, 3, DeviceScope.NODE, 0b11000000, (4, 5, 6, 7), False) == (4, 6, 7)
    assert near(pool, 0b11110000, 3, DeviceScope.NODE, 0, (), False) == (4, 5, 6)


def test_one_device_is_near_itself_and_several_are_never_within_one() -> None:
    pool = pool_of(gpus(4))
    assert near(pool, 0b1010, 1, DeviceScope.DEVICE, 0, (), False) == (1,)
    assert near(pool, 0b1010, 2, DeviceScope.DEVICE, 0, (), False) == Refusal(
        "several gpu devices within one device", "2 requested"
    )
    assert near_groups(pool, DeviceScope.DEVICE) == (1, 2, 4, 8)
    assert set(near_groups(pool, DeviceScope.PCIE)) == {0b0011, 0b1100}
    assert set(near_groups(pool, DeviceScope.NODE)) == {0b0011, 0b1100, 0b1111}


def test_where_no_device_tells_where_it_is_nothing_is_close() -> None:
    pool = pool_of([Device(DeviceType.GPU, minor, WHOLE) for minor in range(4)])
    assert near(pool, 0b1111, 2, DeviceScope.NODE, 0, (), False) == (0, 1)
    found = near(pool, 0b1111, 2, DeviceScope.NUMA, 0, (), False)
    assert isinstance(found, Refusal)
    assert found.nearest == "the location of the gpu devices is not known"


# ---- who has room


def part(percent: int) -> Amounts:
    return Amounts.of({GPU_CORE: percent, GPU_MEMORY_RATIO: percent})


def test_who_has_room_for_a_part() -> None:
    small = Amounts.of({GPU_CORE: 100, GPU_MEMORY: 8 * GIB, GPU_MEMORY_RATIO: 100})
    devices = [*gpus(4, ill=(3,)), Device(DeviceType.GPU, 5, small)]
    pool = pool_of(devices, ((1, 50), (2, 51)))
    half = fitting(pool, part(50), 0b111111)
    assert (half.asked, half.fits, half.partial) == (0b100111, 0b100011, True)
    assert [need is None for need in half.need] == [False, False, False, True, True, False]
    assert half.parts[0] is not None
    assert half.parts[5] is not None
    assert (half.parts[0].get(GPU_MEMORY), half.parts[5].get(GPU_MEMORY)) == (8 * GIB, 4 * GIB)
    whole = fitting(pool, part(100), 0b000111)
    assert (whole.asked, whole.fits, whole.partial) == (0b000111, 0b000001, False)
    memory = fitting(pool, Amounts.of({GPU_MEMORY: 9 * GIB}), 0b111111)
    assert memory.fits == 0b000001  # device 1 has eight left, and device 5 is of eight in all
    assert half.narrowed(0b000110) == Fitting(0b000110, 0b000010, half.need, half.parts, True)
    other = fitting(pool, Amounts.of({"rdma": 5}), 0b111111)
    assert (other.fits, other.need[0]) == (0, None)


def test_what_is_missing_is_said_of_the_nearest_device() -> None:
    pool = pool_of(gpus(4, ill=(3,)), ((0, 30), (1, 45), (2, 90)))
    found = fitting(pool, part(60), 0b0111)
    assert found.fits == 0b0001
    said = shortage(pool, found, 2)
    assert said.startswith("1 of 2 devices have room; gpu 1 lacks 5 koordinator.sh/gpu-core, ")
    assert said.endswith("; unhealthy: 3")
    assert missing_to(pool, found, 1) == 0
    assert missing_to(pool, found, 2) == 50_000
    assert missing_to(pool, found, 3) == 1_050_000
    few = fitting(pool, part(60), 0b0110)
    assert shortage(pool, few, 1).endswith("unhealthy: 3; not selected: 0")
    fine = pool_of(gpus(2))
    assert shortage(fine, fitting(fine, part(60), 0b11), 3) == "2 of 3 devices have room"
    assert missing_to(fine, fitting(fine, part(60), 0b11), 3) == 1_000_000
    strange = fitting(fine, Amounts.of({"rdma": 5}), 0b11)
    assert shortage(fine, strange, 1) == "0 of 1 devices have room; the gpu devices here do not have these resources"
    assert missing_to(fine, strange, 1) == 1_000_000


# ---- partitions


def table(*sets: tuple[int, int], bandwidth: tuple[int | None, ...] = ()) -> PartitionTable:
    """Sets as masks with their scores."""
    by_size: dict[int, list[Partition]] = {}
    for i, (minors, score) in enumerate(sets):
        found = Partition(minors, score, bandwidth[i] if bandwidth else None)
        by_size.setdefault(minors.bit_count(), []).append(found)
    ordered = sorted(by_size.items(), reverse=True)
    return PartitionTable(tuple((size, tuple(sorted(found, key=lambda one: -one.score))) for size, found in ordered))


def left_free(known: PartitionTable, free: int, chosen: Partition, count: int) -> list[int]:
    """By size, from the largest: the scores of the best sets that stay free."""
    found = []
    for size, listed in known.by_size:
        if size >= count:
            best = [one for one in listed if one.score == listed[0].score]
            found.append(sum(max(one.score, 1) for one in best if not one.minors & ~(free & ~chosen.minors)))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_the_set_of_the_best_score_that_leaves_most_of_the_larger_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fours = [0b00001111, 0b11110000, 0b00111100]
    twos = [bits(few) for few in combinations(range(8), 2)]
    picked = [int(mask) for mask in rng.choice(twos, 7, replace=False)]
    known = table(
        (0b11111111, 1),
        *((mask, int(rng.integers(0, 3))) for mask in fours),
        *((mask, int(rng.integers(0, 2))) for mask in picked),
    )
    free = 0b11111111 & ~bits(rng.choice(8, rng.integers(0, 4), replace=False))
    found = choose_partition(known, 2, free)
    possible = [one for one in known.sets(2) if not one.minors & ~free]
    if not possible:
        assert isinstance(found, Refusal)
        return
    best = [one for one in possible if one.score == max(other.score for other in possible)]
    most = max(left_free(known, free, one, 2) for one in best)
    assert isinstance(found, Partition)
    assert found == next(one for one in best if left_free(known, free, one, 2) == most)


def test_why_no_set_is_chosen() -> None:
    known = table((0b0011, 2), (0b1100, 1), (0b0110, 2), bandwidth=(300, None, 200))

    def reason(*args: Any, **more: Any) -> tuple[str, str]:
        found = choose_partition(*args, **more)
        assert isinstance(found, Refusal)
        return found.reason, found.nearest

    assert reason(None, 2, 0b1111)[0] == "no GPU partition table"
    assert reason(known, 3, 0b1111) == ("no GPU partition of the requested size", "3 requested, the table has 2")
    assert reason(known, 2, 0b1111, PartitionSpec(bandwidth=301)) == (
        "no GPU partition with the requested bandwidth",
        "301 requested, at best 300",
    )
    chosen = choose_partition(known, 2, 0b1111, PartitionSpec(bandwidth=300))
    assert isinstance(chosen, Partition)
    assert chosen.minors == 0b0011
    assert isinstance(choose_partition(known, 2, 0b1111, PartitionSpec(bandwidth=0)), Partition)
    assert reason(known, 2, 0b1111, within=(0b1001,)) == (
        "no GPU partition within the requested scope",
        "none of 3 with 2 GPUs is",
    )
    inside = choose_partition(known, 2, 0b1111, within=(0b1001, 0b1100))
    assert isinstance(inside, Partition)
    assert inside.minors == 0b1100
    assert reason(known, 2, 0b1010) == ("no free GPU partition", "of [0, 1] not free: [0]")
    assert reason(known, 2, 0b1100, PartitionSpec(best_only=True)) == (
        "no free GPU partition",
        "of [1, 2] not free: [1]",
    )
    assert reason(known, 2, 0b1111, PartitionSpec(best_only=True), within=(0b1100,)) == (
        "no free GPU partition",
        "none has the best score and the bandwidth",
    )
