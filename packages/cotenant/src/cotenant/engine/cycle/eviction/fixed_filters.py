"""Filters that no eviction can change: a node's readiness, its taints, and its labels.

Reasons count the nodes that each filter rejects, and preemption must not clear a node that a filter rejects in any
case. These filters are listed here once, in kube-scheduler's order of plugins; both read the list
(engine/cycle/rejections.py, engine/cycle/eviction/preemption.py). Nodes with equal taints are evaluated once.
Limits: rules of narrowing say themselves whether evictions help (`RuleResult.yields`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.arrays import Mask
from cotenant.model.cluster.labels import UNSCHEDULABLE_TAINT
from cotenant.model.cluster.taints import first_repelling
from cotenant.model.decisions.reasons import NOT_READY
from cotenant.policy.placement.filters import node_affinity, taints

UNSCHEDULABLE = "node(s) were unschedulable"
SHARD = "Shard"  # of nodes on which another scheduler of the same name places
NOT_OURS = "node(s) belonged to another shard"
PLUGINS = (SHARD, "NodeReady", "NodeUnschedulable", "TaintToleration", "NodeAffinity")  # in kube-scheduler's order


class FixedFilter(NamedTuple):
    """The result of one filter, or of one taint."""

    plugin: str
    reason: str
    fails: Mask  # [N]


def fixed_filters(encoder: Encoder, k: int) -> Iterator[FixedFilter]:
    """The results of every filter for shape k."""
    nodes, shapes = encoder.nodes(), encoder.shapes()
    every = np.arange(len(nodes.ready))
    if encoder.closed:
        closed = encoder.closed_rows()
        yield FixedFilter(SHARD, NOT_OURS, closed)
        yield FixedFilter("NodeReady", NOT_READY, ~nodes.ready & ~closed)
    else:
        yield FixedFilter("NodeReady", NOT_READY, ~nodes.ready)
    repelled = np.zeros(len(every), dtype=np.bool_)
    for found in _repelled(encoder, k):
        repelled |= found.fails
        yield found
    # past 64 taints their bits are among the selector's: a node that repels the shape is not counted against its
    # selector
    mismatched = ~node_affinity.mask(nodes, shapes, k, every)
    if encoder.taints_overflow:
        mismatched &= ~repelled
    yield FixedFilter("NodeAffinity", node_affinity.REASON, mismatched)


def passing(encoder: Encoder, k: int) -> Mask:
    """`bool[N]`: rows that pass all of these filters."""
    left = np.ones(encoder.all_rows, dtype=np.bool_)
    for fixed_filter in fixed_filters(encoder, k):
        left &= ~fixed_filter.fails
    return left


def _repelled(encoder: Encoder, k: int) -> Iterator[FixedFilter]:
    """Nodes by the first of their taints that repels the shape."""
    numbers, shape = encoder.taint_lists(), encoder.shape(k)
    tainted = np.flatnonzero(numbers)
    found, first = np.unique(numbers[tainted], return_index=True)
    for number, index in zip(found.tolist(), first.tolist(), strict=True):
        on_node = encoder.node(int(tainted[index])).effective_taints
        taint = first_repelling(on_node, shape.tolerations, shape.unfiltered)
        if taint is None:
            continue
        if taint.key == UNSCHEDULABLE_TAINT:
            yield FixedFilter("NodeUnschedulable", UNSCHEDULABLE, numbers == number)
        else:
            yield FixedFilter("TaintToleration", taints.reason(taint), numbers == number)
