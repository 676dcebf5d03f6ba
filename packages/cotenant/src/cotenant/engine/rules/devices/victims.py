"""The holders that block a pod on the devices of nodes, for the choice of preemption victims.

Whether evictions free the requested devices depends on which devices each victim holds. Whether the pod fits without
some residents is a trial allocation on the node's ledger without their holdings (`vacate`), the same that places the
pod later. The columns are necessary conditions: all parts of one resource must sum to no more than the devices have in
total less the request; they order the nodes by likely cost before the trials.
Limits: an aligned choice (NUMA) is judged by the host of the alignment, which asks for hints without the same
residents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cotenant.engine.rules.devices.nodes import BY_CLAIMS, UNKNOWN, DeviceNode, DeviceNodes
from cotenant.engine.rules.devices.requests import DistinctDeviceRequest
from cotenant.engine.rules.devices.verdicts import DeviceVerdicts, fits
from cotenant.model.arrays import Int
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.request import DeviceRequest
from cotenant.policy.placement.devices.allocation import DeviceChoice, allocate
from cotenant.policy.placement.devices.fitting import fitting
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger, DevicesOfType
from cotenant.policy.placement.preemption import UNLIMITED, ConstraintColumn

REASON = "node(s) whose devices would not suffice without pods of lower priority"
REASON_PARTS = "node(s) whose devices are held by pods of no lower priority"


@dataclass(frozen=True, slots=True)
class DeviceVacate:
    """Whether an ask fits on one node without some holders (engine/framework/node_rules.Vacating)."""

    ask: DistinctDeviceRequest
    node: DeviceNode
    sizes: Mapping[int, int]  # percent of devices of the requested types that each holder has
    nominated: tuple[DistinctDeviceRequest, ...] = ()  # allocated before
    reason: str = field(default=REASON)

    def fits(self, removed: frozenset[int]) -> bool:
        """Whether a trial allocation succeeds, after those of nominated pods that succeed."""
        ledger = ledger_without(self.node, removed)
        for place, ask in enumerate(self.nominated):
            got = allocate(ledger, ask.wanted)
            if isinstance(got, DeviceChoice):
                ledger = ledger.observed(DeviceHolding(f"nominated {place}", got.allocations))
        return fits(self.ask, ledger)


def ledger_without(node: DeviceNode, removed: frozenset[int]) -> DeviceLedger:
    """The node's ledger without the holdings of these pods."""
    return node.ledger.returned_all({str(number) for number in removed})


def device_vacate(
    ask: DistinctDeviceRequest, node: DeviceNode | None, nominated: tuple[DistinctDeviceRequest, ...] = ()
) -> DeviceVacate | None:
    """None where devices are not known."""
    if node is None or node.state == UNKNOWN:
        return None
    types = {request.type for request in ask.wanted.requests}
    sizes = {
        int(holding.uid): sum(
            _percent(node.ledger.pool(allocation.type), allocation)
            for allocation in holding.allocations
            if allocation.type in types
        )
        for holding in node.ledger.holdings
        if holding.uid != BY_CLAIMS
    }
    return DeviceVacate(ask, node, sizes, nominated)


def _percent(pool: DevicesOfType | None, part: DeviceAllocation) -> int:
    """The part's share of its device, by the resource of which it takes most; 100 for a device that is not known
    any more.
    """
    total = pool.inventory.totals[part.minor] if pool is not None and part.minor < len(pool.used) else None
    if pool is None or total is None:
        return 100
    shares = [-(-100 * have // most) for have, most in zip(pool.row(part), total, strict=True) if most]
    return max(shares, default=0)


def device_columns(
    nodes: DeviceNodes, verdicts: DeviceVerdicts, holders: Sequence[str], rows: Int
) -> Iterator[ConstraintColumn]:
    """A column for each requested type. `holders[V]`: each candidate's uid in its node's ledger, empty where it
    holds no device; `rows[V]`. `verdicts` are up to date.
    """
    size = len(verdicts.codes)
    refused = [
        (place, row, uid)
        for place, (row, uid) in enumerate(zip(rows.tolist(), holders, strict=True))
        if uid and verdicts.codes[row]
    ]
    held_by: dict[int, dict[str, tuple[DeviceAllocation, ...]]] = {}
    for request in verdicts.ask.wanted.requests:
        held = np.zeros(size, dtype=np.int64)
        limit = np.full(size, UNLIMITED, dtype=np.int64)
        weight = np.zeros(len(holders), dtype=np.int64)
        rooms: dict[int, tuple[int, int, int] | None] = {}  # by state
        for place, row, uid in refused:
            node = nodes.at(row)
            pool = node.ledger.pool(request.type) if node is not None and node.state != UNKNOWN else None
            if node is None or pool is None:
                continue
            if node.state not in rooms:
                rooms[node.state] = _room(pool, request)
            room = rooms[node.state]
            if room is None:
                continue
            column, held[row], limit[row] = room
            if row not in held_by:
                held_by[row] = {holding.uid: holding.allocations for holding in node.ledger.holdings}
            weight[place] = sum(
                pool.row(allocation)[column]
                for allocation in held_by[row].get(uid, ())
                if allocation.type is request.type
                and allocation.minor < len(pool.used)
                and pool.inventory.totals[allocation.minor] is not None
            )
        yield ConstraintColumn(REASON_PARTS, held, limit, weight)


def _room(pool: DevicesOfType, request: DeviceRequest) -> tuple[int, int, int] | None:
    """The resource that the request needs most of, what healthy devices have of it in use, and what may stay in
    use; None where no device serves.
    """
    inventory = pool.inventory
    found = fitting(DevicesOfType.empty(inventory), request.amounts, inventory.minors)
    needs = [row for row in found.need if row is not None]
    if not needs:
        return None
    column = max(range(len(inventory.resources)), key=lambda number: min(row[number] for row in needs))
    healthy = [minor for minor in range(len(pool.used)) if inventory.healthy >> minor & 1]
    totals = [(inventory.totals[minor] or ())[column] for minor in healthy]
    used = sum(min(pool.used[minor][column], total) for minor, total in zip(healthy, totals, strict=True))
    return column, used, sum(totals) - request.count * min(row[column] for row in needs)
