"""What the rule of predicted use keeps of pods and nodes.

A pod's measurements outlive its number in the engine, and a node's outlive its row. One record by UID, one by node
name, one by number.
Limits: the last measurement of a node only; earlier ones are in the moments of its pods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import NamedTuple

from cotenant.model.cluster.annotations import RAW_ALLOCATABLE
from cotenant.model.cluster.node import Node
from cotenant.model.machine.node_metric import MeasuredPod, Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, Amounts
from cotenant.policy.overcommit.predicted_use import UNMEASURED, PodUseHistory
from cotenant.policy.placement.load_aware.custom import raw_allocatable


@dataclass(slots=True, eq=False)
class PodRecord:
    """One pod's measurements; kept by UID while the pod is known."""

    history: PodUseHistory = UNMEASURED
    node: str = ""  # where it was assigned last
    since_s: float = nan
    sampled_s: float = nan  # time of the node's measurement that was counted last


@dataclass(slots=True, eq=False)
class CountedPod:
    """A pod that counts."""

    key: str
    request: Use
    lent: Amounts | None  # its requests, where it has lent resources
    record: PodRecord = field(default_factory=PodRecord)
    started_s: float = nan
    row: int = -1


class MeasuredNode(NamedTuple):
    """The last measurement of a node, with its time on this clock."""

    updated_s: float
    interval_s: int
    system: Use
    pods: dict[str, MeasuredPod]
    is_fresh: bool


def allocatable_use(node: Node) -> Use:
    """CPU and memory that the kubelet leaves to pods, amplified where the node is."""
    return Use(node.allocatable.get(CPU_NAME), node.allocatable.get(MEMORY_NAME))


def size_of(node: Node) -> Use:
    """CPU and memory that a node has for pods, before amplification. Raises `InvalidInput` where the annotation of
    raw amounts cannot be read.
    """
    written = node.annotations.get(RAW_ALLOCATABLE) if node.annotations else None
    allocatable = allocatable_use(node)
    if written is None:
        return allocatable
    raw = raw_allocatable(written)
    return Use(raw.cpu_m or allocatable.cpu_m, raw.memory_bytes or allocatable.memory_bytes)
