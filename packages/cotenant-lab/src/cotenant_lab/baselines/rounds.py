"""What all round policies share: services before batch, and the result in the contract's form.

The rivals' papers consider batch tasks only; here services wait in the same queue. Each rival runs its own rule twice,
first over the waiting services, then over the batch, so a packer also packs services and a spreader spreads them.
Limits: a service that fits nowhere does not hold back capacity from the batch behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Int, Mask, NodeArrays, PendingArrays, ShapeArrays
from cotenant.policy.placement.contract import RoundDecision, Snapshot
from cotenant_lab.baselines.fitting import fits_somewhere

NOTHING_WAITS = "no pod is waiting"
NO_ROOM = "no ready node has room that the pod may use"
NEXT_ROUND = "waits for the next round"


@dataclass(slots=True)
class RoundTally:
    """A round's result while it is built: `row` as in `RoundDecision`; the first `placed` entries of `order` are
    decided.
    """

    row: Int
    order: Int
    placed: int = 0

    @classmethod
    def empty(cls, pods: int) -> RoundTally:
        """A result without placements for `pods` waiting pods."""
        return cls(row=np.full(pods, -1, np.int64), order=np.full(pods, -1, np.int64))


def services_then_batch(pending: PendingArrays) -> Iterator[Int]:
    """Indices of the waiting services, then those of the batch, each in order of arrival; empty passes are omitted."""
    for mask in (pending.is_service, ~pending.is_service):
        indices = np.flatnonzero(mask)
        if indices.size:
            yield indices


def decision(snapshot: Snapshot, nodes: NodeArrays, tally: RoundTally, held: str = NEXT_ROUND) -> RoundDecision:
    """The decision, with a count per reason to wait. `nodes` is the working copy after the round.

    A pod that still fits somewhere waits for the policy's own reason, `held`.
    """
    waiting = np.flatnonzero(tally.row < 0)
    reasons: dict[str, int] = {}
    if tally.row.size == 0:
        reasons[NOTHING_WAITS] = 0
    elif waiting.size:
        could_stand = int(np.count_nonzero(fitting_pods(nodes, snapshot.shapes, snapshot.pending.shape[waiting])))
        if could_stand:
            reasons[held] = could_stand
        if could_stand < waiting.size:
            reasons[NO_ROOM] = int(waiting.size) - could_stand
    return RoundDecision(row=tally.row, order=tally.order[: tally.placed].copy(), reasons=reasons)


def fitting_pods(nodes: NodeArrays, shapes: ShapeArrays, shape: Int) -> Mask:
    """For each pod, given by its shape, whether some node could take it alone. Evaluated once per distinct shape."""
    distinct, position = np.unique(shape, return_inverse=True)
    return fits_somewhere(nodes, shapes, distinct)[position]
