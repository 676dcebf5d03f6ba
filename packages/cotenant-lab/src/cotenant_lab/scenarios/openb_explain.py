"""Explains why a pod of the openb scenario was placed on its node and GPU, or refused.

A placement is one score among 1,213. Every node is judged again at the moment of the decision: the first reason for
rejecting it, or its score and, for our policy, the contribution of each term of Phi.
Limits: for the random policy only the fitting nodes are known.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.gpu.fragmentation import phi_parts
from cotenant.policy.placement.gpu.state import MISFIT_TEXT, Misfit, misfit
from cotenant_lab.baselines.fgd import GpuRule, score_node
from cotenant_lab.contract import TaskExplanation
from cotenant_lab.scenarios.openb_world import OpenbWorld

CANDIDATES = 5  # shown


def find_arrival(world: OpenbWorld, task: str) -> int:
    """Return the position in the arrivals that `task` names: a pod's name, `NAME/2` for its second arrival, or `#N`.

    Raises:
        InvalidInput: no such arrival in this run.
    """
    if task.startswith("#") and task[1:].isdigit() and 1 <= int(task[1:]) <= len(world.pod):
        return int(task[1:]) - 1
    name, _, nth = task.partition("/")
    if name in world.pods.names and (not nth or nth.isdigit()):
        times = np.flatnonzero(world.pod == world.pods.names.index(name))
        if 1 <= int(nth or 1) <= len(times):
            return int(times[int(nth or 1) - 1])
        raise InvalidInput("task", task, f"an arrival of this run; {name} arrives {len(times)} time(s)")
    raise InvalidInput("task", task, f"a pod's name, NAME/2 for its second arrival, or #1..#{len(world.pod)}")


def explanation(world: OpenbWorld, at: int, row: Int, devices: Int) -> TaskExplanation:
    """Judge every node for arrival `at`, let the policy decide, and return both. All earlier arrivals must have
    been placed.
    """
    nodes, shapes, k = world.nodes, world.pods.shapes, int(world.shape[at])
    rule, mix, w = int(world.policy.rule), world.mix, world.weights
    reasons = [Misfit(misfit(nodes, n, shapes, k)) for n in range(len(world.order))]
    fitting = [n for n, reason in enumerate(reasons) if reason == Misfit.FITS]
    judged = []
    for n in fitting:
        score, mask = score_node(rule, nodes, n, world.kept.kinds[n], shapes, k, mix, w, world.kept.term[n])
        parts: tuple[tuple[str, float], ...] = ()
        if world.policy.rule == GpuRule.POTENTIAL:
            before = phi_parts(nodes, n, nodes.cpu_free[n], 0, 0, mix, w)
            after = phi_parts(nodes, n, nodes.cpu_free[n] - shapes.cpu[k], mask, shapes.gpu_milli[k], mix, w)
            parts = tuple((name, float(b - a)) for name, b, a in zip(before._fields, before, after, strict=True))
        judged.append((float(score), n, int(mask), parts))
    judged.sort(key=lambda candidate: (-candidate[0], candidate[1]))
    free_before = nodes.gpu_free.copy()
    world.place(at, at + 1, row, devices)
    name = world.pods.names[world.pod[at]]
    cpu, memory, count, milli, _ = (int(column[k]) for column in shapes)
    lines = [
        f"arrival {at + 1} of {len(world.pod)}; requests {cpu / 1000:g} cores, {memory / 2**30:g} GiB, "
        + (f"{count} x {milli / 1000:g} GPU" if count else "no GPU"),
        f"{len(fitting)} of {len(world.order)} nodes fit",
    ]
    n = int(row[at])
    if n < 0:
        outcome = "refused: it fits no node"
    else:
        outcome = f"placed on {world.node_name(n)}" + (f", GPU {_devices(int(devices[at]))}" if count else "")
        lines.append(
            f"free on its GPUs before: {', '.join(f'{free / 1000:g}' for free in free_before[n, : nodes.gpu_count[n]])}"
        )
        if world.policy.rule == GpuRule.RANDOM:
            lines.append("drawn among the nodes that fit")
        else:
            equals = sum(1 for score, *_ in judged if score == judged[0][0])
            lines.append(
                f"highest score {judged[0][0]:g}, shared by {equals} node(s); the first in the policy's order is taken"
            )
        if world.policy.rule == GpuRule.POTENTIAL:
            lines.append(
                f"score = sum of the parts / {w.quantum:g} GPU, rounded; a part is the reduction of that term, in GPUs"
            )
    return TaskExplanation(
        task=name,
        outcome=outcome,
        lines=tuple(lines),
        rejected=tuple((text, reasons.count(reason)) for reason, text in MISFIT_TEXT.items() if reason in reasons),
        candidates=tuple((world.node_name(n), score, parts) for score, n, _, parts in judged[:CANDIDATES]),
    )


def _devices(mask: int) -> str:
    return ", ".join(str(i) for i in range(mask.bit_length()) if mask >> i & 1)
