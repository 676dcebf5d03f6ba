"""For any request for a node's devices: never more than a device has, only healthy ones, whole ones unshared,
partitions kept, and everything returned.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.devices.allocation import format_allocations, parse_allocations
from cotenant.model.devices.device import Device, DeviceType, FunctionGroup, VirtualFunction
from cotenant.model.devices.hints import DeviceHint, DeviceScope, JointAllocation
from cotenant.model.devices.partition import Partition, PartitionTable
from cotenant.model.devices.request import device_requests
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED, NVIDIA_GPU, RDMA, Amounts
from cotenant.policy.placement.devices.allocation import DeviceAsk, DeviceChoice, allocate
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod

PLACES = st.none() | st.integers(0, 2)


@st.composite
def machines(draw: st.DrawFn) -> list[Device]:
    devices = []
    for minor in range(draw(st.integers(1, 9))):
        numa, pcie, link = draw(PLACES), draw(PLACES), draw(PLACES)
        total = Amounts.of({GPU_CORE: 100, GPU_MEMORY: draw(st.sampled_from([1000, 999, 77])), GPU_MEMORY_RATIO: 100})
        total = total if draw(st.integers(0, 9)) else Amounts()
        where = {"numa": numa, "pcie": None if pcie is None else str(pcie), "link": None if link is None else str(link)}
        devices.append(Device(DeviceType.GPU, minor, total, draw(st.integers(0, 5)) > 0, **where))
    for minor in range(draw(st.integers(0, 3))):
        functions = tuple(VirtualFunction(k, f"{minor}:{k}") for k in range(draw(st.integers(0, 3))))
        numa, pcie = draw(PLACES), draw(PLACES)
        devices.append(
            Device(
                DeviceType.RDMA,
                minor,
                Amounts.of({RDMA: 100} if draw(st.integers(0, 3)) else {}),
                draw(st.integers(0, 5)) > 0,
                numa,
                None if pcie is None else str(pcie),
                function_groups=(FunctionGroup(functions),),
            )
        )
    return devices


REQUESTS = st.one_of(
    st.builds(lambda count: {NVIDIA_GPU: count}, st.integers(1, 9)),
    st.builds(lambda percent: {GPU: percent}, st.integers(1, 100)),
    st.builds(lambda size: {GPU_MEMORY: size}, st.integers(1, 1100)),
    st.builds(lambda core, size: {GPU_CORE: core, GPU_MEMORY: size}, st.integers(0, 100), st.integers(1, 1100)),
    st.builds(lambda core, ratio: {GPU_CORE: core, GPU_MEMORY_RATIO: ratio}, st.integers(0, 100), st.integers(1, 100)),
    st.builds(
        lambda count, integer: {GPU_SHARED: count, GPU_MEMORY_RATIO: count * integer},
        st.integers(1, 4),
        st.integers(1, 100),
    ),
)


@st.composite
def asks(draw: st.DrawFn) -> DeviceAsk:
    asked = draw(REQUESTS)
    joint = None
    hints = [DeviceHint(DeviceType.GPU, scope=draw(st.sampled_from(DeviceScope)))]
    if draw(st.booleans()):
        asked = {**asked, RDMA: draw(st.sampled_from([1, 40, 100, 200]))}
        joint = draw(st.none() | st.builds(JointAllocation, st.just((DeviceType.GPU, DeviceType.RDMA)), st.booleans()))
        hints.append(DeviceHint(DeviceType.RDMA, function_selector=draw(st.none() | st.just(LabelSelector()))))
    return DeviceAsk(
        device_requests(Amounts.of(asked)),
        tuple(hints),
        joint,
        strategy=draw(st.sampled_from(DeviceStrategy)),
        usual=(UsualPod(50, 1, 2), UsualPod(100, 2, 1)),
        numa=draw(st.none() | st.integers(1, 7)),
        preferred=((DeviceType.GPU, draw(st.integers(0, 511))),),
    )


TABLES = st.none() | st.builds(
    PartitionTable.of, st.lists(st.builds(Partition, st.integers(1, 511), st.integers(0, 3)), max_size=12)
)


def within(ledger: DeviceLedger, choice: DeviceChoice, hint: DeviceHint) -> bool:
    """Whether the GPUs of a choice share what the hint demands."""
    devices = {device.minor: device for device in ledger.pools[0].inventory.devices if device is not None}
    chosen = [devices[allocation.minor] for allocation in choice.allocations if allocation.type is DeviceType.GPU]
    if hint.scope is DeviceScope.DEVICE:
        return len(chosen) == 1
    if hint.scope is DeviceScope.PCIE:
        return None not in {entry.pcie for entry in chosen} and len({(entry.numa, entry.pcie) for entry in chosen}) == 1
    if hint.scope is DeviceScope.NUMA:
        return len({entry.numa for entry in chosen}) == 1 or chosen[0].numa is None
    return True


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_a_node_gives_the_requested_devices_within_capacity_or_none(data: st.DataObject) -> None:
    devices = data.draw(machines())
    table, honor = data.draw(TABLES), data.draw(st.booleans())
    ledger = empty = DeviceLedger.of(devices, table, honor)
    by_key = {(device.type, device.minor): device for device in devices}
    for number in range(data.draw(st.integers(1, 6))):
        ask = data.draw(asks())
        got = allocate(ledger, ask)
        assert got == allocate(ledger, ask)
        if not isinstance(got, DeviceChoice):
            assert got.reason
            assert got.nearest
            continue
        assert parse_allocations(format_allocations(got.allocations)) == got.allocations
        for request in ask.requests:
            own = [allocation for allocation in got.allocations if allocation.type is request.type]
            beside = ask.joint is not None and request.type is DeviceType.RDMA
            assert len(own) == request.count or (beside and len(own) > request.count)
            assert len({allocation.minor for allocation in own}) == len(own)
            for allocation in own:
                device = by_key[allocation.type, allocation.minor]
                assert device.healthy
                assert ask.numa is None or device.numa is None or ask.numa >> device.numa & 1
                assert all(allocation.amounts.get(name) == amount for name, amount in request.amounts)
        gpus = ask.requests[0]
        chosen = sum(1 << allocation.minor for allocation in got.allocations if allocation.type is DeviceType.GPU)
        if not gpus.shared:
            assert not chosen & ledger.pools[0].busy
            if honor:
                assert table is not None
                assert chosen in [partition.minors for partition in table.sets(gpus.count)]
        assert within(ledger, got, ask.hints[0])
        if ask.joint is not None and ask.joint.same_pcie:
            switches = {
                type_: {
                    by_key[type_, allocation.minor].pcie for allocation in got.allocations if allocation.type is type_
                }
                - {None}
                for type_ in DeviceType
            }
            assert switches[DeviceType.GPU] == switches[DeviceType.RDMA]
        ledger = ledger.given(DeviceHolding(f"p{number}", got.allocations))
        ledger.validate()
        for pool in ledger.pools:
            for used, total in zip(pool.used, pool.inventory.totals, strict=True):
                assert total is None or all(have <= most for have, most in zip(used, total, strict=True))
        buses = [
            one.bus
            for device_holding in ledger.holdings
            for part in device_holding.allocations
            for one in part.functions
        ]
        assert len(set(buses)) == len(buses)
    ill = ledger.with_devices([device for device in devices if data.draw(st.booleans())])
    ill.validate()
    assert ill.with_devices(devices) == ledger
    for holding in data.draw(st.permutations(ledger.holdings)):
        ledger = ledger.returned(holding.uid)
        ledger.validate()
    assert ledger == empty


test_first_cases = first_cases(
    test_a_node_gives_the_requested_devices_within_capacity_or_none,
)
