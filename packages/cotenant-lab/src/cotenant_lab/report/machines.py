"""The machine map of one moment: a cell per machine, divided by tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cotenant.model.pages.figures import Figure, TenantMap, TenantMaps
from cotenant_lab.contract import MachineMap
from cotenant_lab.report.drawing import FigureData, drawn_last

MAX_MACHINES = 250
MAX_POLICIES = 6
_NAMED = 5  # tenants with a separate shade; the others share the last


def machine_map(drawing: FigureData) -> Figure | None:
    """The map of one seed for ours, its best rivals, and the last of the ranking; the page shows one at a time."""
    maps = {
        policy: found
        for policy in drawing.comparison.policies
        for result in drawing.results.get(policy, ())[:1]
        if (found := result.machine_map) is not None and found.machine.size
    }
    if not maps:
        return None
    chosen = ours_and_best(drawing, maps)
    tenants = _largest_tenants(maps[chosen[0]])
    drawn = TenantMaps(
        tenants=(*tenants, "other tenants"),
        maps=tuple(_map(policy, maps[policy], tenants) for policy in chosen),
    )
    first = maps[chosen[0]]
    machines = int(np.unique(first.machine).size)
    shown = min(machines, MAX_MACHINES)
    caption = (
        f"{first.at.capitalize()}, seed {drawing.comparison.seeds[0]}, {drawing.where}. Each cell is a machine, "
        "fullest first"
        f"{f' ({shown} of {machines}, evenly picked)' if shown < machines else ''}; services from the left in blue, "
        "then batch in "
        "orange, one shade per tenant. What is left at the right is free CPU."
    )
    return Figure("machines", "Machine map", caption, drawn)


def ours_and_best(drawing: FigureData, among: Mapping[str, object]) -> list[str]:
    """Ours, its best rivals, and the last of the ranking."""
    ours = drawing.comparison.ours
    ranked = [policy for policy in reversed(drawn_last(drawing.comparison)) if policy in among and policy != ours]
    if len(ranked) >= MAX_POLICIES:
        ranked = [*ranked[: MAX_POLICIES - 2], ranked[-1]]
    return ([ours] if ours in among else []) + ranked


def _largest_tenants(found: MachineMap) -> list[str]:
    owners, codes = np.unique(np.array(found.owner), return_inverse=True)
    held = np.bincount(codes, weights=found.cpu_share)
    return [str(owners[i]) for i in np.argsort(-held, kind="stable")[:_NAMED]]


def _map(policy: str, found: MachineMap, tenants: Sequence[str]) -> TenantMap:
    machines, row = np.unique(found.machine, return_inverse=True)
    total = np.bincount(row, weights=found.cpu_share)
    order = np.argsort(-total, kind="stable")
    if order.size > MAX_MACHINES:
        order = order[np.linspace(0, order.size - 1, MAX_MACHINES).round().astype(np.int64)]
    place = {name: i for i, name in enumerate(tenants)}
    shade = np.array([place.get(owner, len(tenants)) for owner in found.owner], dtype=np.int64)
    kinds = len(tenants) + 1
    column = shade + np.where(found.is_service, 0, kinds)
    held = np.zeros((machines.size, 2 * kinds))
    np.add.at(held, (row, column), found.cpu_share)
    shares = np.rint(held[order] * 1000).astype(np.int64)
    return TenantMap(policy, [int(machines[i]) for i in order], shares.ravel().tolist())
