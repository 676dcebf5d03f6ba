"""EvictionRequests over time: who acts when, for how long, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from cotenant_local.controllers.cluster.eviction_requests import (
    DEFAULT_RESPONDER,
    HEARTBEAT_S,
    reconcile_eviction,
    reconcile_request,
)
from cotenant_local.controllers.runtime.actions import Create, EvictWithinBudgets, Patch, Plan
from cotenant_local.controllers.views.core import stamp
from cotenant_local.controllers.views.evictions import EvictionRequestView, EvictionView
from cotenant_local.controllers.views.pods import PodObjectView

NOW = 1_800_000_000.0


@dataclass
class World:
    """The objects of one target, changed by what the plans say."""

    pod: dict[str, Any] | None = field(
        default_factory=lambda: {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {}, "status": {}}
    )
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    eviction: dict[str, Any] | None = None
    evicted: int = 0
    now_s: float = NOW
    requeue_at_s: float | None = None

    def ask(self, name: str, requester: str, intent: str = "Eviction") -> None:
        before = self.requests.get(name)
        generation = before["metadata"]["generation"] + 1 if before else 1
        self.requests[name] = {
            "metadata": {"name": name, "namespace": "n", "uid": f"ru-{name}", "generation": generation},
            "spec": {"requester": requester, "intent": intent, "target": {"pod": {"name": "p", "uid": "u"}}},
            "status": before["status"] if before else {},
        }

    def settle(self, seconds: float = 0.0) -> World:
        """Reconcile until nothing changes."""
        self.now_s += seconds
        for _ in range(20):
            changed = False
            pod = None if self.pod is None else msgspec.convert(self.pod, PodObjectView)
            asked = [msgspec.convert(one, EvictionRequestView) for one in self.requests.values()]
            for request in asked:
                made = [] if self.eviction is None else [msgspec.convert(self.eviction, EvictionView)]
                changed |= self._apply(reconcile_request(request, made, pod, self.now_s), request.metadata.name)
            if self.eviction is not None:
                made = [msgspec.convert(self.eviction, EvictionView)]
                plan = reconcile_eviction(made[0], asked, pod, self.now_s)
                self.requeue_at_s = plan.requeue_at_s
                changed |= self._apply(plan, "")
            if not changed:
                return self
        raise AssertionError("it never rests")

    def _apply(self, plan: Plan, request: str) -> bool:
        changed = False
        for action in plan.actions:
            if isinstance(action, Create):
                assert self.eviction is None
                self.eviction = {**action.obj, "status": {}}
                self.eviction["metadata"] = {**action.obj["metadata"], "uid": "eu", "generation": 1}
                changed = True
            elif isinstance(action, Patch):
                obj = self.requests[request] if request else self.eviction
                assert obj is not None
                obj["status"] = {**obj["status"], **action.body["status"]}
                changed = True
            elif isinstance(action, EvictWithinBudgets):
                self.evicted += 1
        return changed

    def report(self, name: str, **fields: Any) -> None:
        assert self.eviction is not None
        for one in self.eviction["status"]["responders"]:
            if one["name"] == name:
                one.update(fields)

    @property
    def states(self) -> dict[str, str]:
        assert self.eviction is not None
        return {one["name"]: one["state"] for one in self.eviction["status"]["targetResponders"]}

    def ended(self, request: str = "r") -> dict[str, tuple[str, str]]:
        found = self.requests[request]["status"]["conditions"]
        return {one["type"]: (one["status"], one["reason"]) for one in found}


def responders(world: World, **priorities: int) -> World:
    assert world.pod is not None
    world.pod["spec"]["evictionResponders"] = [
        {"name": f"{name}.example.com/r", "priority": priority} for name, priority in priorities.items()
    ]
    return world


def test_without_responders_the_pod_is_evicted_at_once_and_the_request_hears_of_its_end() -> None:
    world = World()
    world.ask("r", "cotenant.io/rebalancer")
    world.settle()
    assert (world.states, world.evicted > 0) == ({DEFAULT_RESPONDER: "Active"}, True)
    assert world.ended() == {"Failed": ("False", "AwaitingEviction"), "TargetEvicted": ("False", "AwaitingEviction")}
    world.pod = None
    world.settle(6.0)
    assert world.ended()["TargetEvicted"] == ("True", "PodDeleted")
    assert world.eviction is not None
    assert world.eviction["metadata"]["ownerReferences"][0]["uid"] == "ru-r"


def test_responders_act_by_priority_and_one_that_completes_hands_on() -> None:
    world = responders(World(), low=2000, high=10_000)
    world.ask("r", "cotenant.io/rebalancer")
    world.settle()
    high, low = "high.example.com/r", "low.example.com/r"
    assert world.states == {high: "Active", low: "Inactive", DEFAULT_RESPONDER: "Inactive"}
    world.report(high, heartbeatTime=stamp(NOW + 30), message="copying", expectedCompletionTime=stamp(NOW + 600))
    world.settle(60.0)
    assert world.evicted == 0
    world.report(high, completionTime=stamp(NOW + 60))
    world.settle()
    assert world.states == {high: "Completed", low: "Active", DEFAULT_RESPONDER: "Inactive"}
    assert world.eviction is not None
    assert next(one for one in world.eviction["status"]["responders"] if one["name"] == high)["message"] == "copying"


def test_a_silent_responder_is_interrupted_after_twenty_minutes() -> None:
    world = responders(World(), silent=10_000)
    world.ask("r", "cotenant.io/rebalancer")
    world.settle()
    assert world.requeue_at_s == NOW + HEARTBEAT_S
    world.settle(HEARTBEAT_S - 1)
    assert (world.states["silent.example.com/r"], world.evicted) == ("Active", 0)
    world.settle(1.0)
    assert world.states == {"silent.example.com/r": "Interrupted", DEFAULT_RESPONDER: "Active"}
    assert world.evicted > 0


def test_an_eviction_ends_once_everybody_has_withdrawn() -> None:
    world = responders(World(), slow=10_000)
    world.ask("r", "cotenant.io/rebalancer")
    world.ask("other", "example.com/drain")
    world.settle()
    world.ask("r", "cotenant.io/rebalancer", "Withdrawn")
    world.settle()
    assert world.states["slow.example.com/r"] == "Active"
    assert world.eviction is not None
    assert world.eviction["status"]["requesters"] == [
        {"name": "cotenant.io/rebalancer", "intent": "Withdrawn"},
        {"name": "example.com/drain", "intent": "Eviction"},
    ]
    del world.requests["other"]  # deleting counts as a withdrawal
    world.settle()
    assert world.states["slow.example.com/r"] == "Canceled"
    assert world.ended()["Failed"] == ("True", "CanceledDueToNoRequesters")
    assert world.evicted == 0


def test_a_pod_of_a_group_or_of_another_uid_or_none_cannot_be_requested() -> None:
    for change in ({"spec": {"schedulingGroup": {"podGroupName": "g"}}}, {"metadata": {"uid": "v", "name": "p"}}, None):
        world = World()
        world.pod = None if change is None else {**(world.pod or {}), **change}
        if world.pod is not None:
            world.pod["metadata"] = {"name": "p", "namespace": "n", "uid": "u", **change.get("metadata", {})}  # type: ignore[union-attr]
        world.ask("r", "cotenant.io/rebalancer")
        world.settle()
        assert world.ended()["Failed"] == ("True", "EvictionInvalid")
        assert world.eviction is None


def test_a_responder_that_did_not_say_that_it_is_done_has_five_seconds() -> None:
    world = responders(World(), quick=10_000)
    world.ask("r", "cotenant.io/rebalancer")
    world.settle()
    world.pod = None
    world.settle(1.0)
    assert world.ended()["TargetEvicted"][0] == "False"
    world.settle(5.0)
    assert world.ended()["TargetEvicted"] == ("True", "PodDeleted")
    assert world.states["quick.example.com/r"] == "Interrupted"
