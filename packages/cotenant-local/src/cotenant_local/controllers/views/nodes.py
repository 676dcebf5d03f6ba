"""Views of nodes and of their leases."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from cotenant_local.controllers.views.core import ConditionView, Meta, View


class TaintView(View, frozen=True):
    """A node's taint, not validated."""

    key: str = ""
    effect: str = ""
    value: str = ""
    time_added: datetime | None = None


class NodeSpecView(View, frozen=True):
    """`spec` of a node."""

    taints: tuple[TaintView, ...] = ()
    unschedulable: bool = False


class NodeStatusView(View, frozen=True):
    """`status` of a node."""

    conditions: tuple[ConditionView, ...] = ()
    allocatable: dict[str, str | int | float] = field(default_factory=dict)
    capacity: dict[str, str | int | float] = field(default_factory=dict)


class NodeObjectView(View, frozen=True):
    """A node."""

    metadata: Meta
    spec: NodeSpecView = NodeSpecView()
    status: NodeStatusView = NodeStatusView()

    def condition(self, kind: str) -> ConditionView | None:
        """A condition by its type."""
        for condition in self.status.conditions:
            if condition.type == kind:
                return condition
        return None


class LeaseSpecView(View, frozen=True):
    """`spec` of a lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None


class LeaseView(View, frozen=True):
    """A Lease; a node's has the node's name and is in the namespace `kube-node-lease`."""

    metadata: Meta
    spec: LeaseSpecView = LeaseSpecView()
