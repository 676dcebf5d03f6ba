"""The order of devices by each strategy against its description, worked out device by device on numbers of its own."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, Amounts
from cotenant.policy.placement.devices.inventory import DeviceInventory
from cotenant.policy.placement.devices.ledger import DevicesOfType
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod, fragments, rank

GIB = 1 << 30


@st.composite
def pools(draw: st.DrawFn) -> tuple[DevicesOfType, list[dict[str, int]], dict[str, int]]:
    """A pool, what is left of each device, and what is asked of each."""
    count = draw(st.integers(1, 5))
    sizes = [draw(st.sampled_from((16, 40))) for _ in range(count)]
    devices = [
        Device(
            DeviceType.GPU,
            minor,
            Amounts.of({GPU_CORE: 100, GPU_MEMORY: sizes[minor] * GIB, GPU_MEMORY_RATIO: 100}),
            draw(st.integers(0, 5)) > 0,
        )
        for minor in range(count)
    ]
    inventory = DeviceInventory.of(DeviceType.GPU, devices)
    percent, memory = draw(st.integers(1, 40)), draw(st.integers(1, 8))
    asked = {GPU_CORE: percent, GPU_MEMORY: memory * GIB, GPU_MEMORY_RATIO: draw(st.integers(1, 40))}
    used, left = [], []
    for size in sizes:
        have = {
            GPU_CORE: draw(st.integers(0, 60)),
            GPU_MEMORY: draw(st.integers(0, size - 8)) * GIB,
            GPU_MEMORY_RATIO: draw(st.integers(0, 60)),
        }
        total = {GPU_CORE: 100, GPU_MEMORY: size * GIB, GPU_MEMORY_RATIO: 100}
        left.append({name: total[name] - have[name] for name in total} | {"size": size * GIB})
        used.append(tuple(have[name] for name in inventory.resources))
    return replace(DevicesOfType.empty(inventory), used=tuple(used)), left, asked


@settings(max_examples=examples(60))
@given(pools())
def test_by_what_would_be_left_of_memory_then_of_cores(
    made: tuple[DevicesOfType, list[dict[str, int]], dict[str, int]],
) -> None:
    pool, left, asked = made
    need = [tuple(asked[name] for name in pool.inventory.resources)] * len(left)

    def after(minor: int) -> tuple[int, int]:
        here = left[minor]
        memory = (here[GPU_MEMORY] - asked[GPU_MEMORY]) * 1_000_000 // here["size"]
        ratio = (here[GPU_MEMORY_RATIO] - asked[GPU_MEMORY_RATIO]) * 1_000_000 // 100
        return memory + ratio, here[GPU_CORE] - asked[GPU_CORE]

    minors = range(len(left))
    least = sorted(minors, key=lambda minor: (*after(minor), minor))
    most = sorted(minors, key=lambda minor: (-after(minor)[0], -after(minor)[1], minor))
    for strategy, expected in (
        (DeviceStrategy.BINPACK, least),
        (DeviceStrategy.FRAGMENTATION, least),  # no usual pods are named
        (DeviceStrategy.SPREAD, most),
        (DeviceStrategy.DEFAULT, most),
    ):
        assert sorted(minors, key=rank(strategy, pool, need, ())) == expected


usual_pods = st.lists(
    st.builds(UsualPod, st.sampled_from((20, 50, 100)), st.integers(1, 2), st.integers(1, 5)), min_size=1, max_size=3
)


@settings(max_examples=examples(60))
@given(pools(), usual_pods)
def test_fragmentation_takes_the_device_after_which_least_is_of_no_use(
    made: tuple[DevicesOfType, list[dict[str, int]], dict[str, int]], usual: list[UsualPod]
) -> None:
    pool, left, asked = made
    need = [tuple(asked[name] for name in pool.inventory.resources)] * len(left)
    idle = {
        minor: min(here[GPU_CORE], here[GPU_MEMORY_RATIO])
        for minor, here in enumerate(left)
        if pool.inventory.healthy >> minor & 1
    }

    def unusable(percents: list[int]) -> int:
        total = 0
        for pod in usual:
            fitting = [percent for percent in percents if percent >= pod.percent]
            useless = [percent for percent in percents if percent < pod.percent]
            total += pod.weight * (sum(useless) if len(fitting) >= pod.gpus else sum(percents))
        return total

    def after(minor: int) -> tuple[int, int, int]:
        taken = min(idle[minor], max(asked[GPU_CORE], asked[GPU_MEMORY_RATIO]))
        changed = idle | {minor: idle[minor] - taken}
        return unusable(list(changed.values())), changed[minor], minor

    assert fragments(list(idle.values()), usual) == unusable(list(idle.values()))
    by_rank = sorted(idle, key=rank(DeviceStrategy.FRAGMENTATION, pool, need, usual))
    assert by_rank == sorted(idle, key=after)
