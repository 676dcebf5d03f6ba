"""Checks of assignments by name against the ledger.

Limits: for validation and tests; they pass over all pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.state.ledger import Ledger
from cotenant.model.arrays import Int
from cotenant.model.errors import Permanent

Residents = Mapping[str, Mapping[str, PodInfo]]  # node's name -> uid -> pod


def check_residents(
    residents: Residents, reserved: Iterable[PodInfo], node_rows: Mapping[str, int], ledger: Ledger
) -> None:
    """Check that the ledger has the residents and the nominated pods with reserved resources, and no others. Raises
    `Permanent`.
    """
    assigned = {}
    for name, here in residents.items():
        row = node_rows.get(name, -1)
        for uid, entry in here.items():
            if entry.node != name or entry.row != row or entry.seen.uid != uid:
                raise Permanent(
                    f"pod {entry.seen.pod.key} is listed on {name}, but its entry has node {entry.node}, row "
                    f"{entry.row}"
                )
            if row >= 0:
                assigned[entry.number] = row
    for entry in reserved:
        assigned[entry.number] = entry.row
    found = {int(number): int(ledger.row[number]) for number in np.flatnonzero(ledger.row >= 0)}
    if found != assigned:
        raise Permanent(
            f"the ledger has {len(found)} assigned pods and the names {len(assigned)}, or their rows differ"
        )


def rows_over_capacity(reserved: Iterable[PodInfo], ledger: Ledger) -> Int:
    """Rows whose pods request more than the capacity, without resources reserved for nominated pods."""
    requested = ledger.nodes.requested.copy()
    for entry in reserved:
        requested[entry.row] -= ledger.shapes.request[entry.shape]
    return np.flatnonzero((requested > ledger.nodes.capacity).any(axis=1))
