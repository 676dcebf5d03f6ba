"""The holders that block a pod on the devices of nodes, as columns for the choice of preemption victims.

Problem: whether removing pods frees the requested devices depends on which devices they hold, and columns are sums. Choice: on each node where the ask
would fit without the pods of lower priority, the devices that it would get are chosen, idle ones first; for each of them, the residents' parts must sum
to no more than leaves room. That is exact for those devices. Limits: as in kube-scheduler, the search ends after enough nodes; another set of devices
on the same node might cost less; virtual functions are judged when the pod is placed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cotenant.engine.rules.devices.nodes import UNKNOWN, DeviceNodes
from cotenant.engine.rules.devices.verdicts import Verdicts
from cotenant.model.arrays import Int, Mask
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.policy.placement.devices.allocation import DeviceAsk, DeviceChoice, allocate
from cotenant.policy.placement.devices.ledger import DeviceLedger, Pool
from cotenant.policy.placement.preemption import UNLIMITED, Column

REASON = "node(s) whose devices would not suffice without pods of lower priority"
REASON_PARTS = "node(s) whose devices are held by pods of no lower priority"
_ENOUGH = 128  # nodes with enough victims
_LOOKED_AT = 1024


def device_columns(
    nodes: DeviceNodes, verdicts: Verdicts, held: Sequence[tuple[str, str]], rows: Int, barred: Mask | None = None
) -> Iterator[Column]:
    """`held`: for each candidate its node and its uid in the ledger there, empty where it holds no device. `verdicts` are up to date.

    `barred[N]`: rows where no sum predicts the effect of an eviction.
    """
    size = len(verdicts.codes)
    candidates: dict[int, list[int]] = {}
    for position, (row, (assigned_to, _)) in enumerate(zip(rows.tolist(), held, strict=True)):
        if assigned_to and verdicts.codes[row] and not (barred is not None and barred[row]):
            candidates.setdefault(row, []).append(position)
    hopeless = verdicts.codes != 0
    slots: list[tuple[Int, Int, Int]] = []  # held, limit, weight
    found = 0
    for row, positions in sorted(candidates.items())[:_LOOKED_AT]:
        node = nodes.at(row)
        if node is None or node.state == UNKNOWN:
            continue
        without = node.ledger
        for position in positions:
            without = without.returned(held[position][1])
        got = allocate(without, _idle_first(verdicts.ask.wanted, without))
        if not isinstance(got, DeviceChoice):
            continue
        hopeless[row] = False
        _fill(slots, size, len(held), row, node.ledger, got, {held[position][1]: position for position in positions})
        found += 1
        if found == _ENOUGH:
            break
    yield Column(REASON, hopeless.astype(np.int64), np.zeros(size, dtype=np.int64), np.zeros(len(held), dtype=np.int64))
    for column in slots:
        yield Column(REASON_PARTS, *column)


def _idle_first(ask: DeviceAsk, ledger: DeviceLedger) -> DeviceAsk:
    idle = tuple((pool.inventory.type, pool.inventory.healthy & ~pool.busy) for pool in ledger.pools)
    return replace(ask, preferred=idle)


def _fill(
    slots: list[tuple[Int, Int, Int]],
    size: int,
    pods: int,
    row: int,
    ledger: DeviceLedger,
    got: DeviceChoice,
    positions: dict[str, int],
) -> None:
    """Fill one row of the columns: a column for each chosen device and each of its resources."""
    at = 0
    for part in got.allocations:
        pool = ledger.pool(part.type)
        if pool is None:
            continue
        used, total = pool.used[part.minor], pool.inventory.totals[part.minor] or ()
        for place, (have, most, need) in enumerate(zip(used, total, pool.row(part), strict=True)):
            if at == len(slots):
                limit = np.full(size, UNLIMITED, dtype=np.int64)
                slots.append((np.zeros(size, dtype=np.int64), limit, np.zeros(pods, dtype=np.int64)))
            slots[at][0][row], slots[at][1][row] = have, most - need
            for holding in ledger.holdings:
                if holding.uid in positions:
                    slots[at][2][positions[holding.uid]] = _part(pool, part.minor, place, holding.allocations)
            at += 1


def _part(pool: Pool, minor: int, place: int, allocations: Sequence[DeviceAllocation]) -> int:
    own = (each for each in allocations if each.type is pool.inventory.type and each.minor == minor)
    return sum(pool.row(each)[place] for each in own)
