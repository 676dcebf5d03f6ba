"""The use of devices if some claims were gone, with devices that another pod gets first; and which inventories know of
a device.
"""

from __future__ import annotations

import pytest
from tests.unit.engine.rules.test_claim_ledger import DEVICES, claim, given

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.rules.claims.inventories import Inventories, PoolInventory
from cotenant.engine.rules.claims.ledger import ClaimLedger
from cotenant.engine.rules.claims.victims import UsageWithout
from cotenant.model.claims.devices import (
    CounterSet,
    CounterUse,
    DeviceId,
    OfferedDevice,
    PoolId,
    Reach,
    ResourceSlice,
)
from cotenant.model.claims.requests import ExactRequest
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.quantities import Quantity
from cotenant.model.resources import Amounts
from cotenant.policy.claims.allocator import Pick
from cotenant.policy.claims.pools import DevicePool, PoolDevice

ONE, TWO = DEVICES[:2]


def ledger() -> ClaimLedger:
    """The first device is held by a alone, of the second b and c have shares of 5 and 7."""
    made = ClaimLedger(lambda device: None, lambda devices, freed: None)
    made.seen(claim("a", given(0)))
    made.seen(claim("b", given((1, "s"), consumes=5)))
    made.seen(claim("c", given((1, "s"), consumes=7)))
    return made


@pytest.mark.parametrize(
    ("gone", "holds", "consumed"),
    [
        ((), True, {"memory": 12}),
        (("u-a",), False, {"memory": 12}),
        (("u-b",), True, {"memory": 7}),
        (("u-a", "u-b", "u-c"), False, None),
    ],
)
def test_what_others_than_these_claims_have(
    gone: tuple[str, ...], holds: bool, consumed: dict[str, int] | None
) -> None:
    usage = UsageWithout(ledger(), frozenset(gone))
    assert (usage.holds(ONE), usage.holds(TWO)) == (holds, False)
    assert usage.consumed(TWO) == consumed
    assert usage.consumed(ONE) is None


def test_a_device_that_a_pod_holds_by_a_device_object_stays_held() -> None:
    made = ledger()
    made.outside.add(DEVICES[3])
    assert UsageWithout(made, frozenset({"u-a"})).holds(DEVICES[3])


def inventory() -> PoolInventory:
    devices = (
        PoolDevice(ONE, OfferedDevice("d0"), Reach("n"), ()),
        PoolDevice(TWO, OfferedDevice("d1", is_shared=True), Reach("n"), ()),
    )
    return PoolInventory((DevicePool(PoolId("gpu.x", "pool"), devices=devices),))


def pick(place: int, admin: bool = False, **amounts: int) -> Pick:
    request = ExactRequest("r", "gpu", admin_access=admin)
    return Pick(request, (0, place), tuple((name, Quantity(amount)) for name, amount in amounts.items()))


def test_what_another_pod_gets_first_counts_too() -> None:
    usage = UsageWithout(ledger(), frozenset({"u-a", "u-b"}))
    usage.add(inventory(), ((pick(1, memory=3),), (pick(1, memory=4, cores=2),)))
    assert usage.consumed(TWO) == {"memory": 7 + 3 + 4, "cores": 2}
    assert not usage.holds(ONE)
    usage.add(inventory(), ((pick(0, admin=True),),))
    assert not usage.holds(ONE)  # who only administrates takes nothing
    usage.add(inventory(), ((pick(0),),))
    assert usage.holds(ONE)
    nobody = UsageWithout(ledger(), frozenset({"u-b", "u-c"}))
    nobody.add(inventory(), ((pick(1, memory=3),),))
    assert nobody.consumed(TWO) == {"memory": 3}


# ---- inventories


def offered(name: str, reach: Reach | None, pool: str = "", **more: object) -> ResourceSlice:
    devices = more.pop("devices", (OfferedDevice(f"{name}-0"),))
    return ResourceSlice(name, "gpu.x", pool or name, 1, 1, reach, devices, **more)  # type: ignore[arg-type]


class Nodes:
    def __init__(self, *names: str) -> None:
        self.encoder, self.found = Encoder(1.0), Inventories()
        self.found.attach(self.encoder)
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        self.encoder.add_node(Node(name, Amounts.of({"cpu": 1, "memory": 1}), Labels.of({"zone": name[0]})))

    def devices(self) -> dict[str, list[str]]:
        """By node, the devices that it can use."""
        return {
            name: [device.id.device for pool in self.found.at(row).pools for device in pool.devices]
            for name, row in self.encoder.node_rows.items()
        }


def test_slices_come_change_and_go_with_their_nodes() -> None:
    nodes = Nodes("a1", "b1")
    assert nodes.devices() == {"a1": [], "b1": []}
    nodes.found.slice_seen(offered("own", Reach("a1")))
    nodes.found.slice_seen(offered("any", Reach(all=True)))
    assert {name: sorted(found) for name, found in nodes.devices().items()} == {
        "a1": ["any-0", "own-0"],
        "b1": ["any-0"],
    }
    nodes.found.slice_seen(offered("own", Reach("b1")))
    assert nodes.devices()["a1"] == ["any-0"]
    assert sorted(nodes.devices()["b1"]) == ["any-0", "own-0"]
    nodes.add("c1")
    assert nodes.devices()["c1"] == ["any-0"]
    nodes.encoder.remove_node("b1")
    assert nodes.devices() == {"a1": ["any-0"], "c1": ["any-0"]}
    for name in ("own", "any", "never"):
        nodes.found.slice_gone(name)
    assert nodes.devices() == {"a1": [], "c1": []}
    assert nodes.found.slices == {}


def test_nodes_that_see_the_same_have_one_inventory_until_they_do_not() -> None:
    nodes = Nodes("a1", "a2", "b1")
    nodes.found.slice_seen(offered("any", Reach(all=True)))
    one, two, three = (nodes.found.at(row) for row in range(3))
    assert one is two
    assert two is three
    assert one.nodes == {"a1", "a2", "b1"}
    nodes.found.slice_seen(offered("own", Reach("b1")))
    assert nodes.found.at(0) is nodes.found.at(1)
    assert nodes.found.at(2) is not nodes.found.at(0)
    assert nodes.found.at(0).nodes == {"a1", "a2"}
    shared = DeviceId("gpu.x", "any", "any-0")
    assert sorted(nodes.found.nodes_of(shared)) == ["a1", "a2", "b1"]
    assert list(nodes.found.nodes_of(DeviceId("gpu.x", "own", "own-0"))) == ["b1"]


def test_the_marks_of_the_inventories_with_a_device_move_with_its_use() -> None:
    nodes = Nodes("a1", "b1")
    nodes.found.slice_seen(offered("own", Reach("a1")))
    nodes.found.slice_seen(offered("any", Reach(all=True)))
    rows = nodes.found.by_row()
    before = nodes.found.marks[rows].tolist()
    nodes.found.touched(DeviceId("gpu.x", "own", "own-0"))
    assert (nodes.found.marks[rows] - before).tolist() == [1, 0]
    nodes.found.touched(DeviceId("gpu.x", "any", "any-0"))
    assert (nodes.found.marks[rows] - before).tolist() == [2, 1]
    nodes.found.touched(DeviceId("gpu.x", "none", "x"))
    assert (nodes.found.marks[rows] - before).tolist() == [2, 1]


class Held:
    """The use of devices, as told."""

    def __init__(self, *held: DeviceId, **consumed: int) -> None:
        self.held, self.amounts = held, consumed

    def holds(self, device: DeviceId) -> bool:
        return device in self.held

    def consumed(self, device: DeviceId) -> dict[str, int] | None:
        return dict(self.amounts) if device == TWO and self.amounts else None


def test_use_is_equal_where_all_devices_are_used_alike_and_asked_again_once_touched() -> None:
    made = inventory()
    free = made.use(Held())
    assert made.use(Held(ONE)) == free  # as remembered
    made.touch()
    assert made.use(Held(ONE)) != free
    made.touch()
    assert made.use(Held(memory=1)) != free
    made.touch()
    assert made.use(Held()) == free


def test_counters_that_a_device_elsewhere_takes_are_use_too() -> None:
    counters = (CounterSet("slots", (("n", 10),)),)
    uses = (CounterUse("slots", (("n", 4),)),)
    elsewhere = PoolDevice(DEVICES[2], OfferedDevice("d2", uses=uses), Reach("m"), ())
    pool = DevicePool(PoolId("gpu.x", "pool"), elsewhere=(elsewhere,), counters=counters)
    made = PoolInventory((pool,))
    free = made.use(Held())
    made.touch()
    assert made.use(Held(DEVICES[2])) != free
    without = PoolInventory((DevicePool(PoolId("gpu.x", "pool"), elsewhere=(elsewhere,)),))
    assert without.use(Held(DEVICES[2])) == without.use(Held())
