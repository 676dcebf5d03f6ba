"""Views of EvictionRequests and Evictions."""

from __future__ import annotations

from datetime import datetime

from cotenant_local.controllers.views.core import ConditionView, Meta, View


class PodReference(View, frozen=True):
    """A pod by name and UID."""

    name: str = ""
    uid: str = ""


class EvictionTargetView(View, frozen=True):
    """What is to be evicted."""

    pod: PodReference = PodReference()


class RequestSpecView(View, frozen=True):
    """`spec` of an EvictionRequest."""

    target: EvictionTargetView = EvictionTargetView()
    requester: str = ""
    intent: str = ""


class RequestStatusView(View, frozen=True):
    """`status` of an EvictionRequest."""

    observed_generation: int = 0
    conditions: tuple[ConditionView, ...] = ()


class EvictionRequestView(View, frozen=True):
    """An EvictionRequest."""

    metadata: Meta
    spec: RequestSpecView = RequestSpecView()
    status: RequestStatusView = RequestStatusView()

    @property
    def wants_eviction(self) -> bool:
        """Whether its requester still wants the eviction; deleting it counts as a withdrawal."""
        return self.spec.intent == "Eviction" and not self.metadata.terminating


class EvictionSpecView(View, frozen=True):
    """`spec` of an Eviction."""

    target: EvictionTargetView = EvictionTargetView()


class RequesterView(View, frozen=True):
    """Who asked for an Eviction."""

    name: str = ""
    intent: str = ""


class TargetResponderView(View, frozen=True):
    """Who may respond, and whether it is its turn."""

    name: str = ""
    priority: int = 0
    state: str = "Inactive"


class ResponderStatusView(View, frozen=True):
    """How far a responder is."""

    name: str = ""
    start_time: datetime | None = None
    heartbeat_time: datetime | None = None
    expected_completion_time: datetime | None = None
    completion_time: datetime | None = None
    message: str = ""


class EvictionStatusView(View, frozen=True):
    """`status` of an Eviction."""

    observed_generation: int = 0
    conditions: tuple[ConditionView, ...] = ()
    requesters: tuple[RequesterView, ...] = ()
    target_responders: tuple[TargetResponderView, ...] = ()
    responders: tuple[ResponderStatusView, ...] = ()


class EvictionView(View, frozen=True):
    """An Eviction of lifecycle.k8s.io."""

    metadata: Meta
    spec: EvictionSpecView = EvictionSpecView()
    status: EvictionStatusView = EvictionStatusView()

    def condition(self, type_: str) -> ConditionView | None:
        """A condition by type."""
        return next((found for found in self.status.conditions if found.type == type_), None)

    @property
    def has_ended(self) -> bool:
        """Whether it was carried out, or has failed for good."""
        return any(
            found.type in ("TargetEvicted", "Failed") and found.status == "True" for found in self.status.conditions
        )
