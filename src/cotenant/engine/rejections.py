"""Which filter turned each node down, in Kubernetes' words, with the names that arrays do not know.

Problem: "Insufficient other resource" or "untolerated taint" does not tell a person what to change. Choice: ask the plain filters again, in
kube-scheduler's order, and name the resource and the taint from the encoder. A node counts under the first filter that refuses it; within
resource fit it counts once for every resource it lacks, as in Kubernetes. Limits: it judges the arrays as they stand when asked, and fit
by requests.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.encoding import Encoder
from cotenant.model.arrays import Int, Mask
from cotenant.model.labels import UNSCHEDULABLE_TAINT
from cotenant.model.reasons import NOT_READY, Rejection
from cotenant.model.taints import first_repelling
from cotenant.policy.placement import fit, load_threshold, node_affinity, taints

UNSCHEDULABLE = "node(s) were unschedulable"
GROUP_FULL = "node(s) already held as many pods of the group as allowed"


def rejections(encoder: Encoder, k: int, rows: Int | None = None) -> tuple[Rejection, ...]:
    """Nodes per filter and reason for shape k, over `rows` (those that narrowing left), or every node that is there."""
    nodes, shapes = encoder.nodes(), encoder.shapes()
    left = np.sort(np.array(list(encoder.node_rows.values()), dtype=np.int64)) if rows is None else rows
    found: dict[tuple[str, str], int] = {}

    def count(name: str, reason: str, times: int) -> None:
        if times:
            found[name, reason] = found.get((name, reason), 0) + times

    def keep(passing: Mask, name: str, reason: str) -> None:
        nonlocal left
        count(name, reason, int((~passing).sum()))
        left = left[passing]

    keep(nodes.ready[left], "NodeReady", NOT_READY)
    # Nodes with equal taints are judged by one of them, by the taints themselves: past 64 distinct ones some have no bit.
    here, lists = left, encoder.taint_lists()[left]
    for each, first, times in zip(*np.unique(lists, return_index=True, return_counts=True), strict=True):
        taint = first_repelling(encoder.node(int(here[first])).effective_taints, encoder.shape(k).tolerations)
        if taint is None:
            continue
        keeping = lists != each
        left, lists = left[keeping], lists[keeping]
        if taint.key == UNSCHEDULABLE_TAINT:
            count("NodeUnschedulable", UNSCHEDULABLE, int(times))
        else:
            count("TaintToleration", taints.reason(taint), int(times))
    keep(node_affinity.mask(nodes, shapes, k, left), "NodeAffinity", node_affinity.REASON)
    short = fit.short(nodes, shapes, k, left)
    for column, name in enumerate(encoder.axis.names):
        count("NodeResourcesFit", fit.reason(name), int(short[:, column].sum()))
    left = left[~short.any(axis=1)]
    group = int(shapes.group[k])
    if group >= 0:
        keep(nodes.group_count[left, group] < shapes.group_limit[k], "GroupLimit", GROUP_FULL)
    keep(load_threshold.mask(nodes, shapes, k, left), "LoadThreshold", load_threshold.REASON)
    return tuple(Rejection(name, reason, times) for (name, reason), times in found.items())
