"""The machine map: one bar per machine, divided by tenant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.lab.contract import MachineMap
from cotenant.lab.report.document import Figure, Trace
from cotenant.lab.report.drawing import Drawing, drawn_last
from cotenant.lab.report.palette import BATCH, SERVICES

MOST_MACHINES = 250
MOST_POLICIES = 6
_NAMED = len(SERVICES) - 1  # tenants with a separate colour; the others share the last


def machine_map(drawing: Drawing) -> Figure | None:
    """The map of one seed for ours, its best rivals, and the last of the ranking; the page shows one at a time."""
    maps = {
        policy: found
        for policy in drawing.comparison.policies
        for result in drawing.results.get(policy, ())[:1]
        if (found := result.machine_map) is not None and found.machine.size
    }
    if not maps:
        return None
    chosen = _chosen(drawing, maps)
    tenants = _largest_tenants(maps[chosen[0]])
    data: list[Trace] = []
    for policy in chosen:
        data += _bars(maps[policy], tenants, policy, visible=policy == chosen[0])
    first = maps[chosen[0]]
    machines = int(np.unique(first.machine).size)
    shown = min(machines, MOST_MACHINES)
    caption = (
        f"{first.at.capitalize()}, seed {drawing.comparison.seeds[0]}, {drawing.where}. Each bar is a machine, fullest first"
        f"{f' ({shown} of {machines}, evenly picked)' if shown < machines else ''}; services at the bottom in blue, batch above in "
        "orange, one shade per tenant. The gap above a bar is free CPU."
    )
    layout = {
        "height": 460,
        "barmode": "stack",
        "bargap": 0,
        "xaxis": {"title": {"text": f"{shown} machines, fullest first"}, "showticklabels": False, "showgrid": False},
        "yaxis": {"title": {"text": "CPU of the machine, %"}, "range": [0, 100.5]},
        "legend": {"traceorder": "reversed"},
    }
    return Figure("machines", "Machine map", caption, data, layout, tuple(chosen))


def _chosen(drawing: Drawing, maps: dict[str, MachineMap]) -> list[str]:
    ours = drawing.comparison.ours
    ranked = [policy for policy in drawn_last(drawing.comparison) if policy in maps and policy != ours]
    if len(ranked) >= MOST_POLICIES:
        ranked = [*ranked[: MOST_POLICIES - 2], ranked[-1]]
    return ([ours] if ours in maps else []) + ranked


def _largest_tenants(found: MachineMap) -> list[str]:
    owners, codes = np.unique(np.array(found.owner), return_inverse=True)
    held = np.bincount(codes, weights=found.cpu_share)
    return [str(owners[i]) for i in np.argsort(-held, kind="stable")[:_NAMED]]


def _bars(found: MachineMap, tenants: Sequence[str], policy: str, visible: bool) -> list[Trace]:
    machines, row = np.unique(found.machine, return_inverse=True)
    total = np.bincount(row, weights=found.cpu_share)
    order = np.argsort(-total, kind="stable")
    if order.size > MOST_MACHINES:
        order = order[np.linspace(0, order.size - 1, MOST_MACHINES).round().astype(np.int64)]
    place = {name: i for i, name in enumerate(tenants)}
    shade = np.array([place.get(owner, _NAMED) for owner in found.owner], dtype=np.int64)
    label = [f"machine {machines[i]}" for i in order]
    traces: list[Trace] = []
    for is_service, colours, kind in ((True, SERVICES, "services"), (False, BATCH, "batch")):
        for i, colour in enumerate(colours):
            part = (shade == i) & (found.is_service == is_service)
            if not part.any():
                continue
            held = np.bincount(row[part], weights=found.cpu_share[part], minlength=machines.size)[order] * 100
            who = tenants[i] if i < len(tenants) else "other tenants"
            traces.append(
                {
                    "type": "bar",
                    "name": f"{kind}: {who}",
                    "x": list(range(order.size)),
                    "y": [float(f"{value:.3g}") for value in held],
                    "text": label,
                    "textposition": "none",
                    "hovertemplate": f"%{{text}}<br>{kind}, {who}: %{{y:.3g}} %<extra></extra>",
                    "marker": {"color": colour, "line": {"width": 0}},
                    "visible": visible,
                    "meta": policy,
                }
            )
    return traces
