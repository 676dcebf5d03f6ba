"""Device parts of one node and their holders.

Devices are added, removed and become unhealthy while pods hold parts of them. A frozen value: for each type the used
amounts per device, as sums of the holdings, and every holding by its pod, from which the sums can be recomputed; a
device that vanished keeps its holders. Recording and releasing a holding touches the devices concerned only.
Limits: holdings of other schedulers (`observed`) are counted even beyond capacity; the free amount is then 0, never
less.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import add, le

from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.card_need import NO_NEED, CardNeed
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.partition import PartitionTable
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import LENT_GPU
from cotenant.policy.placement.devices.inventory import DeviceInventory, Row, part_of
from cotenant.policy.placement.devices.neighbours import ALONE, CardNeighbours


@dataclass(frozen=True, slots=True)
class DeviceHolding:
    """Devices allocated to one pod. `need`: what it takes of each of its cards beside memory."""

    uid: str
    allocations: tuple[DeviceAllocation, ...]
    need: CardNeed = NO_NEED


@dataclass(frozen=True, slots=True)
class DevicesOfType:
    """The devices of one type. `used` is indexed by minor, like the inventory's tuples."""

    inventory: DeviceInventory
    used: tuple[Row, ...]
    busy: int  # devices of which any part is used
    functions: frozenset[str] = frozenset()  # PCI addresses of allocated virtual functions
    lent: int = 0  # devices of which only lent parts are used

    @classmethod
    def empty(cls, inventory: DeviceInventory) -> DevicesOfType:
        """A pool without use."""
        return cls(inventory, ((0,) * len(inventory.resources),) * len(inventory.devices), 0)

    def changed(self, allocations: Iterable[DeviceAllocation], sign: int) -> DevicesOfType:
        """With these allocations added (1) or removed (-1), at least 0. Allocations of unknown devices are ignored."""
        used = list(self.used)
        busy, lent = self.busy, self.lent
        resources = self.inventory.resources
        column = resources.index(LENT_GPU) if LENT_GPU in resources else -1
        functions = set(self.functions)
        for allocation in allocations:
            for one in allocation.functions:
                functions.add(one.bus) if sign > 0 else functions.discard(one.bus)
            if allocation.minor < len(used) and self.inventory.totals[allocation.minor] is not None:
                amounts = self.row(allocation)
                have = used[allocation.minor]
                row = tuple(
                    map(add, have, amounts) if sign > 0 else [max(0, a - b) for a, b in zip(have, amounts, strict=True)]
                )
                used[allocation.minor] = row
                busy = busy | 1 << allocation.minor if any(row) else busy & ~(1 << allocation.minor)
                only_lent = column >= 0 and row[column] > 0 and sum(row) == row[column]
                lent = lent | 1 << allocation.minor if only_lent else lent & ~(1 << allocation.minor)
        return DevicesOfType(self.inventory, tuple(used), busy, frozenset(functions), lent)

    def row(self, allocation: DeviceAllocation) -> Row:
        """An allocation's amounts over the inventory's resources, with both forms of memory; other resources are
        ignored.
        """
        device = self.inventory.devices[allocation.minor]
        assert device is not None
        row, amounts = part_of(allocation.amounts, device.total, self.inventory.resources)
        return row if row is not None else tuple(amounts.get(name) for name in self.inventory.resources)


@dataclass(frozen=True, slots=True)
class DeviceLedger:
    """One node's devices and their holders. `table`: sets of GPUs that can be allocated together, and whether only
    those (`honor`). `isolation`: what enforces shares of its GPUs; empty where nothing is said to. `beside`: by minor,
    what the holders of each GPU need together; empty where none says. `returns_s`: within which time what is lent is
    wanted back; 0: nobody says.
    """

    pools: tuple[DevicesOfType, ...]
    holdings: tuple[DeviceHolding, ...] = ()
    table: PartitionTable | None = None
    honor: bool = False
    isolation: str = ""
    beside: tuple[CardNeighbours, ...] = ()
    returns_s: int = 0

    @classmethod
    def of(
        cls,
        devices: Sequence[Device],
        table: PartitionTable | None = None,
        honor: bool = False,
        isolation: str = "",
        returns_s: int = 0,
    ) -> DeviceLedger:
        """A ledger without holdings. Raises `InvalidInput` on a duplicate minor."""
        types = [type_ for type_ in DeviceType if any(device.type is type_ for device in devices)]
        return cls(
            tuple(DevicesOfType.empty(DeviceInventory.of(type_, devices)) for type_ in types),
            (),
            table,
            honor,
            isolation,
            returns_s=returns_s,
        )

    def idle(self) -> DeviceLedger:
        """The same devices without holdings."""
        return replace(
            self, pools=tuple(DevicesOfType.empty(pool.inventory) for pool in self.pools), holdings=(), beside=()
        )

    def pool(self, type_: DeviceType) -> DevicesOfType | None:
        """The devices of one type; None where the node has none."""
        for pool in self.pools:
            if pool.inventory.type is type_:
                return pool
        return None

    def with_devices(self, devices: Sequence[Device]) -> DeviceLedger:
        """The same holders with changed devices: unhealthy, healthy again, removed, added."""
        ledger = DeviceLedger.of(devices, self.table, self.honor, self.isolation, self.returns_s)
        for holding in self.holdings:
            ledger = ledger.observed(holding)
        return ledger

    def given(self, holding: DeviceHolding) -> DeviceLedger:
        """With this holding. Raises `InvalidInput` where a device is unhealthy or has too little left, or a
        function is already allocated.
        """
        self._check(holding)
        return self.observed(holding)

    def observed(self, holding: DeviceHolding) -> DeviceLedger:
        """With a holding that already exists. Raises `InvalidInput` only where the pod already has another holding."""
        if any(other.uid == holding.uid for other in self.holdings):
            raise InvalidInput("uid", holding.uid, "a pod without devices")
        pools = self._changed(holding.allocations, 1)
        holdings = (*self.holdings, holding)
        beside = self._beside(holdings) if holding.need != NO_NEED else self.beside
        return replace(self, pools=pools, holdings=holdings, beside=beside)

    def returned(self, uid: str) -> DeviceLedger:
        """Without this pod's holding; unchanged where there is none."""
        return self.returned_all((uid,))

    def returned_all(self, uids: Collection[str]) -> DeviceLedger:
        """Without the holdings of these pods; unchanged where there are none."""
        left = tuple(other for other in self.holdings if other.uid not in uids)
        if len(left) == len(self.holdings):
            return self
        gone = [allocation for other in self.holdings if other.uid in uids for allocation in other.allocations]
        pools = self._changed(gone, -1)
        if any(allocation.functions for allocation in gone):
            pools = tuple(replace(pool, functions=_functions(pool.inventory.type, left)) for pool in pools)
        beside = self._beside(left) if self.beside else ()
        return replace(self, pools=pools, holdings=left, beside=beside)

    def without(self, allocations: Sequence[DeviceAllocation]) -> DeviceLedger:
        """For evaluation only: as if these parts were free, e.g. those of pods that may be preempted. The holdings
        stay.
        """
        return replace(self, pools=self._changed(allocations, -1)) if allocations else self

    def identified(self, allocations: Iterable[DeviceAllocation]) -> tuple[DeviceAllocation, ...]:
        """The same minors with the ids of these devices: they may have been chosen on a node like this one."""
        found = []
        for allocation in allocations:
            pool = self.pool(allocation.type)
            device = pool.inventory.devices[allocation.minor] if pool is not None else None
            same = device is None or device.id == allocation.id
            found.append(allocation if same or device is None else replace(allocation, id=device.id))
        return tuple(found)

    def validate(self) -> None:
        """Recompute the sums from the holdings; raises `InvalidInput` on a difference."""
        fresh = self.idle()
        for holding in self.holdings:
            fresh = fresh.observed(holding)
        for pool, summed in zip(self.pools, fresh.pools, strict=True):
            if pool != summed:
                raise InvalidInput(
                    f"ledger of {pool.inventory.type.value}", pool.used, f"the holdings' sums {summed.used}"
                )
        if self.beside != fresh.beside:
            raise InvalidInput("ledger of needs", self.beside, f"those of the holdings {fresh.beside}")

    def _beside(self, holdings: Sequence[DeviceHolding]) -> tuple[CardNeighbours, ...]:
        pool = self.pool(DeviceType.GPU)
        said = [holding for holding in holdings if holding.need != NO_NEED]
        if pool is None or not said:
            return ()
        found = [ALONE] * len(pool.used)
        for holding in said:
            for allocation in holding.allocations:
                if allocation.type is DeviceType.GPU and allocation.minor < len(found):
                    found[allocation.minor] = found[allocation.minor].with_holder(holding.need)
        return tuple(found)

    def _changed(self, allocations: Sequence[DeviceAllocation], sign: int) -> tuple[DevicesOfType, ...]:
        changed = []
        for pool in self.pools:
            own = [allocation for allocation in allocations if allocation.type is pool.inventory.type]
            changed.append(pool.changed(own, sign) if own else pool)
        return tuple(changed)

    def _check(self, holding: DeviceHolding) -> None:
        seen: dict[tuple[DeviceType, int], Row] = {}
        for allocation in holding.allocations:
            field = f"{allocation.type.value} {allocation.minor}"
            pool = self.pool(allocation.type)
            if pool is None or not pool.inventory.healthy >> allocation.minor & 1:
                raise InvalidInput(field, holding.uid, "a healthy device of the node")
            resources = pool.inventory.resources
            unknown = [name for name, amount in allocation.amounts if amount and name not in resources]
            if unknown:
                raise InvalidInput(field, ", ".join(unknown), f"only {', '.join(resources)}")
            total = pool.inventory.totals[allocation.minor] or ()
            used = seen.get((allocation.type, allocation.minor), pool.used[allocation.minor])
            row = tuple(map(add, used, pool.row(allocation)))
            if not all(map(le, row, total)):
                raise InvalidInput(field, row, f"at most {total} ({', '.join(resources)})")
            seen[allocation.type, allocation.minor] = row
            twice = [one.bus for one in allocation.functions if one.bus in pool.functions]
            if twice:
                raise InvalidInput(field, ", ".join(twice), "virtual functions that are free")


def _functions(type_: DeviceType, holdings: Iterable[DeviceHolding]) -> frozenset[str]:
    """PCI addresses in use. Recomputed rather than subtracted: with two holders of one function (by other
    schedulers), one may leave.
    """
    return frozenset(
        one.bus
        for holding in holdings
        for allocation in holding.allocations
        if allocation.type is type_
        for one in allocation.functions
    )
