"""Where the manager's settings are, and what it reads of a node's GPUs."""

from __future__ import annotations

from contextlib import suppress

from cotenant.drivers.kube.kinds.node import NodeObject, NodeStatus
from cotenant.engine.manager.gpu_nodes import GpuNode
from cotenant.model.cluster.annotations import GPU_TERMS
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import parse_amount
from cotenant.policy.overcommit.gpu_totals import COPIED_LABELS, is_total

CONFIG_NAMESPACE, CONFIG_NAME = "koordinator-system", "slo-controller-config"


def read_gpu_node(obj: NodeObject) -> GpuNode:
    """What a node offers of GPUs, and what was written of them; amounts that cannot be read count as not there."""
    meta, allocatable = obj.metadata, (obj.status or NodeStatus()).allocatable or {}
    amounts, labels = {}, meta.labels or {}
    for name in filter(is_total, allocatable):
        with suppress(InvalidInput):
            amounts[name] = parse_amount(name, allocatable[name])
    copied = {name: labels[name] for name in COPIED_LABELS if name in labels}
    return GpuNode(meta.name or "", meta.uid or "", amounts, (meta.annotations or {}).get(GPU_TERMS, ""), copied)
