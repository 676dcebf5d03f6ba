"""Node: read for a scheduler, and its allocatable pools for the node's own agent.

Evictions against requests need the pools that requests are made from, batch and mid among them, and those change while
the node runs. The agent reads the allocatable amounts of its Node object.
Limits: for the agent, what is absent or cannot be read is none; a scheduler refuses a node whose size it cannot read.
Source: Koordinator's batch and mid resources (batch-cpu and mid-cpu are in milli-CPU).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Quantities, Text
from cotenant.drivers.kube.kinds.parts import Condition, ObjectMeta
from cotenant.drivers.kube.kinds.taints import ApiTaint, read_taints
from cotenant.model.cluster.annotations import ON_NODES
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.managed import NORMALIZATION_ANNOTATION
from cotenant.model.cluster.node import Node
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_state import Allocatable
from cotenant.model.quantities import milli, parse_quantity, whole
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY, Amounts


class NodeSpec(ApiStruct, frozen=True):
    """What administrators and controllers set on a node."""

    unschedulable: bool | None = None
    taints: tuple[ApiTaint, ...] | None = None


class NodeImage(ApiStruct, frozen=True):
    """An image that the node has, with all its names."""

    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeAddress(ApiStruct, frozen=True):
    """An address of a node; `type` is InternalIP, Hostname, ..."""

    type: Text = None
    address: Text = None


class NodeInfo(ApiStruct, frozen=True):
    """What a kubelet says of itself."""

    kubelet_version: Text = None


class NodeStatus(ApiStruct, frozen=True):
    """What the node's kubelet reports."""

    allocatable: Quantities = None
    capacity: Quantities = None
    conditions: tuple[Condition, ...] | None = None
    images: tuple[NodeImage, ...] | None = None
    addresses: tuple[NodeAddress, ...] | None = None
    node_info: NodeInfo | None = None


class NodeObject(ApiStruct, frozen=True):
    """v1 Node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


NODES = Kind("Node", "", "v1", "nodes", False, NodeObject)
_VERSION = re.compile(r"v?(\d+)\.(\d+)\.")


def read_node(obj: NodeObject) -> Node:
    """A node. `InvalidInput` names what of it is wrong: without knowing its size, nothing can be placed on it."""
    meta, spec, status = obj.metadata, obj.spec or NodeSpec(), obj.status or NodeStatus()
    where = f"node {meta.name}"
    # Without a Ready condition the kubelet has not reported yet. The taints of the node controller decide about
    # placement, not this.
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions or ())
    return Node(
        name=meta.name or "",
        allocatable=Amounts.parse(status.allocatable or {}, f"{where}: allocatable"),
        labels=Labels.of(meta.labels or {}),
        taints=read_taints(spec.taints or (), f"{where}: taints"),
        unschedulable=bool(spec.unschedulable),
        ready=ready,
        taints_decide=True,
        images=tuple((name, image.size_bytes) for image in status.images or () for name in image.names or ()),
        annotations=_known_annotations(meta.annotations),
    )


def internal_address(obj: NodeObject) -> str:
    """The first internal address; empty where the node has none."""
    found = (obj.status.addresses if obj.status is not None else None) or ()
    return next((node_address.address or "" for node_address in found if node_address.type == "InternalIP"), "")


def kubelet_version(obj: NodeObject) -> tuple[int, int] | None:
    """The version of its kubelet, major and minor; None where it has not reported."""
    info = obj.status.node_info if obj.status is not None else None
    found = _VERSION.match((info.kubelet_version if info is not None else None) or "")
    return (int(found[1]), int(found[2])) if found else None


def _known_annotations(written: Mapping[str, str] | None) -> Labels:
    """The annotations that a scheduler uses."""
    found = {name: written[name] for name in ON_NODES if name in written} if written else {}
    return Labels.of(found) if found else NO_LABELS


def allocatable_of(node: NodeObject) -> Allocatable | None:
    """The amounts that pods of each class may request; None while the object has no allocatable amounts."""
    amounts = node.status.allocatable if node.status is not None else None
    if not amounts:
        return None

    def amount(name: str, read: Callable[[str | int | float], int] = whole) -> int:
        try:
            return max(0, read(amounts.get(name) or 0))
        except InvalidInput:
            return 0

    return Allocatable(
        cpu_m=amount("cpu", milli),
        batch_cpu_m=amount(BATCH_CPU),
        mid_cpu_m=amount(MID_CPU),
        memory_bytes=amount("memory"),
        batch_memory_bytes=amount(BATCH_MEMORY),
        mid_memory_bytes=amount(MID_MEMORY),
        cpu_ratio_milli=_ratio_milli((node.metadata.annotations or {}).get(NORMALIZATION_ANNOTATION)),
    )


def _ratio_milli(text: str | None) -> int:
    """The CPU normalization ratio in thousandths; 1000 where it is absent or not from 1 to 5."""
    try:
        nano = parse_quantity(text, NORMALIZATION_ANNOTATION).nano if text is not None else 0
    except InvalidInput:
        nano = 0
    ratio = (nano + 500_000) // 1_000_000
    return ratio if 1000 <= ratio <= 5000 else 1000
