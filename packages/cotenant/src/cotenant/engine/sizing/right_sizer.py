"""All RightSizings: objects, pods, measurements and objectives in; statuses and resizes out.

A decision is made from what is stored, and what it stores is waited for before the next: a resize is asked for only
when the change that it belongs to can be read again by whoever leads after a crash. Every replica learns the use, so
one that begins to lead knows it; it is stored with every status, and at least once in `STORE_S`.
Limits: one container a pod; an object costs a look once a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.sizing import hourly
from cotenant.engine.sizing.changing import go_on, late_anew, spread
from cotenant.engine.sizing.clocks import not_ahead
from cotenant.engine.sizing.outcomes import judged
from cotenant.engine.sizing.reports import CapacityOf, Reports
from cotenant.engine.sizing.scene import ResizePod, SizingScene, SizingStep, WriteSizing
from cotenant.engine.sizing.suggesting import QUIET_S, idle
from cotenant.model.autonomy.autonomy import Action, AutonomyRung
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.model.sizes.container import SizedPod
from cotenant.model.sizes.right_sizing import HourlyUse, RightSizing, SizingMode
from cotenant.model.traces.objective import ObjectiveState, ObjectiveStatus
from cotenant.policy.assess.container_sizes import HeldResources
from cotenant.policy.autonomy.ladder import Earned, LadderSettings, earned
from cotenant.policy.sizing.proof import Sign

TICK_S = 1.0
STORE_S = 600.0  # of a history alone
CONFIRM_S = 30.0  # until a write that no watch shows is issued again
RESIZE_AGAIN_S = 10.0
MAX_REFUSALS = 6  # each doubles the time until the same is asked again: ten minutes at last
REFUSAL_S = 3600.0  # for which a refusal keeps pods that were made anew as they are
SIZE_EVERY_S = 60.0
_BURNS = (ObjectiveState.BURNING, ObjectiveState.EXHAUSTED)

Stamp = Callable[[float], str]
_Owner = tuple[str, str, str]  # namespace, kind, name


@dataclass(slots=True)
class _Kept:
    """What is known of one object beside what is stored."""

    sizing: RightSizing
    history: HourlyUse
    sent: WriteSizing | None = None  # not yet seen as stored
    sent_s: float = -inf
    stored_s: float = -inf
    sized_s: float = -inf
    refusal: str = ""
    refused_s: float = inf  # when a decision first knew of it
    fresh: set[str] = field(default_factory=set)  # pods with a report that no decision has seen

    def forgive(self) -> None:
        """What was refused may be asked for again."""
        self.refusal, self.refused_s = "", inf


class RightSizer:
    """Events correct facts; `decide` returns instructions. Times are Unix seconds."""

    def __init__(
        self, stamp: Stamp, permissions: Permissions | None = None, capacity_of: CapacityOf = lambda node: None
    ) -> None:
        self._stamp = stamp
        self.reports = Reports(capacity_of)
        self.permissions = permissions or Permissions()
        self._rungs: dict[str, AutonomyRung] = {}  # earned, by namespace, at this look
        self._sizings: dict[str, _Kept] = {}
        self._of_target: dict[_Owner, set[str]] = {}  # keys of objects
        self._pods: dict[str, SizedPod] = {}  # by UID
        self._uid_of: dict[str, str] = {}  # by namespace/name
        self._above: dict[_Owner, _Owner] = {}  # of ReplicaSets: their controllers
        self._below: dict[_Owner, set[_Owner]] = {}
        self._of_owner: dict[_Owner, set[str]] = {}  # UIDs of its pods
        self._due_s = -inf
        self._measured: dict[str, MeasuredPod] = {}  # by namespace/name
        self._objectives: dict[str, ObjectiveStatus] = {}
        self._held: dict[_Owner, dict[str, HeldResources]] = {}  # what is scaled -> by autoscaler
        self._resized: dict[str, tuple[float, ResizePod]] = {}  # by UID
        self._refusals: dict[str, int] = {}  # of the last one, by UID
        self._foreign: set[str] = set()  # UIDs of pods that somebody else resized, until a decision knows
        self._heard_s: dict[str, float] = {}  # when somebody else resized a pod, as a decision has heard
        self._left: dict[str, float] = {}  # those that are not touched, and until when
        self._waiting_s: dict[str, float] = {}  # pods made anew whose kubelet has not taken a size: since when

    # ---- events

    def sizing_seen(self, sizing: RightSizing) -> None:
        """An object as it is stored."""
        kept = self._sizings.get(sizing.key)
        if kept is None or _target(kept.sizing) != _target(sizing):
            self._forget_target(sizing.key)
            self._of_target.setdefault(_target(sizing), set()).add(sizing.key)
        if kept is None or kept.sizing.uid != sizing.uid:
            self._sizings[sizing.key] = _Kept(sizing, sizing.status.history)
            return
        if kept.sizing.generation != sizing.generation:
            kept.forgive()
        kept.sizing = sizing
        if kept.sent is not None and kept.sent.status == sizing.status:
            kept.sent = None

    def sizing_gone(self, key: str) -> None:
        """Deleted, or unreadable: its pods keep what they have."""
        self._forget_target(key)
        self._sizings.pop(key, None)

    def _forget_target(self, key: str) -> None:
        kept = self._sizings.get(key)
        if kept is not None:
            of = self._of_target[_target(kept.sizing)]
            of.discard(key)
            if not of:
                del self._of_target[_target(kept.sizing)]

    def pod_seen(self, pod: SizedPod) -> None:
        """A pod as it is now."""
        if self._uid_of.get(pod.key, pod.uid) != pod.uid:
            self.pod_gone(pod.key)
        before, (_, asked) = self._pods.get(pod.uid), self._resized.get(pod.uid, (0.0, None))
        if before is not None and self._targets(pod):
            sizes = [found.size for found in pod.containers]
            if sizes != [found.size for found in before.containers] and (asked is None or sizes != [asked.size]):
                self._foreign.add(pod.uid)
        self._pods[pod.uid], self._uid_of[pod.key] = pod, pod.uid
        self._of_owner.setdefault((pod.namespace, pod.owner_kind, pod.owner_name), set()).add(pod.uid)

    def pod_gone(self, key: str) -> None:
        """Deleted."""
        uid = self._uid_of.pop(key, "")
        pod = self._pods.pop(uid, None)
        self._resized.pop(uid, None)
        self._refusals.pop(uid, None)
        self._foreign.discard(uid)
        self._heard_s.pop(uid, None)
        self._left.pop(uid, None)
        self._waiting_s.pop(uid, None)
        self._measured.pop(key, None)
        if pod is not None:
            owner = (pod.namespace, pod.owner_kind, pod.owner_name)
            self._of_owner.get(owner, set()).discard(uid)
            if not self._of_owner.get(owner):
                self._of_owner.pop(owner, None)

    def owner_seen(self, namespace: str, name: str, above: tuple[str, str] | None) -> None:
        """A ReplicaSet and what controls it: kind and name."""
        own = (namespace, "ReplicaSet", name)
        old = self._above.pop(own, None)
        if old is not None:
            self._below.get(old, set()).discard(own)
        if above is not None:
            self._above[own] = (namespace, *above)
            self._below.setdefault((namespace, *above), set()).add(own)

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """A node's report: histories and proofs learn from it, at the time of its arrival."""
        if not self._sizings or metric.pods is None or not self.reports.is_new(metric):
            return
        for key, measured in metric.pods.items():
            pod = self._pods.get(self._uid_of.get(key, ""))
            if pod is None or not pod.is_running:
                continue
            of = self._targets(pod)
            if not of or not self.reports.is_possible(pod, measured.use):
                continue
            self._measured[key] = measured
            for kept in (self._sizings[name] for name in of):
                kept.fresh.add(pod.uid)
                kept.history = hourly.observed(kept.history, (measured.use,), now_s)

    def _targets(self, pod: SizedPod) -> set[str]:
        """Keys of the objects that are about this pod."""
        owner = (pod.namespace, pod.owner_kind, pod.owner_name)
        return self._of_target.get(owner) or self._of_target.get(self._above.get(owner, owner)) or set()

    def objective_seen(self, objective: ObjectiveStatus) -> None:
        """How an objective stands."""
        self._objectives[objective.key] = objective

    def objective_gone(self, key: str) -> None:
        """Deleted."""
        self._objectives.pop(key, None)

    def autoscaler_seen(self, key: str, target: tuple[str, str, str], held: HeldResources) -> None:
        """What an autoscaler goes by; `target` is namespace, kind and name."""
        self.autoscaler_gone(key)
        self._held.setdefault(target, {})[key] = held

    def autoscaler_gone(self, key: str) -> None:
        """Deleted."""
        for of in self._held.values():
            of.pop(key, None)

    def resize_refused(self, resize: ResizePod, why: str) -> None:
        """The API server does not take it."""
        kept = self._sizings.get(resize.sizing)
        if kept is not None:
            kept.refusal = why
            self._refusals[resize.uid] = self._refusals.get(resize.uid, 0) + 1

    def leads_now(self) -> None:
        """This replica begins to lead: what it knows as sent was another's, or was never written."""
        self._resized.clear()
        self._foreign.clear()  # it may be the other leader that resized them
        for kept in self._sizings.values():
            kept.sent = None

    # ---- decisions

    def next_s(self) -> float:
        """When `decide` is due; inf without an object."""
        return self._due_s if self._sizings else inf

    def decide(self, now_s: float) -> tuple[WriteSizing | ResizePod, ...]:
        """What is to be written now."""
        self._due_s = now_s + TICK_S
        self._rungs.clear()
        found: list[WriteSizing | ResizePod] = []
        for key in sorted(self._sizings):
            found += self._of(self._sizings[key], now_s)
        return tuple(found)

    def _of(self, kept: _Kept, now_s: float) -> list[WriteSizing | ResizePod]:
        if kept.sent is not None:
            if now_s - kept.sent_s < CONFIRM_S:
                return []
            kept.sent = None  # it was refused, or lost: decided anew
        stored = kept.sizing.status
        if kept.refusal:
            kept.refused_s = min(kept.refused_s, now_s)
            if stored.change is None and now_s - kept.refused_s >= REFUSAL_S:
                kept.forgive()
        scene = self._scene(kept, now_s)
        stepped = self._stepped(scene, now_s)
        resizes = [resize for resize in stepped.resizes if self._is_new(resize, now_s)]
        status = replace(stepped.status, observed_generation=kept.sizing.generation)
        is_due = replace(status, history=stored.history) != stored or now_s - kept.stored_s >= STORE_S
        if not is_due or status == stored:
            return [*resizes]
        if status.change != stored.change:
            kept.forgive()
        write = WriteSizing(kept.sizing.key, kept.sizing.uid, status)
        kept.sent, kept.sent_s, kept.stored_s = write, now_s, now_s
        return [write, *resizes]

    def _stepped(self, scene: SizingScene, now_s: float) -> SizingStep:
        sizing, status = scene.sizing, scene.sizing.status
        if sizing.wrong:
            return SizingStep(replace(status, state="invalid", message="; ".join(sizing.wrong)))
        first = min(self._of_target[_target(sizing)])
        if first != sizing.key:
            return SizingStep(replace(status, state="invalid", message=f"its workload is sized by {first}"))
        foreign = dict.fromkeys(self._foreign.intersection(scene.pods), now_s + QUIET_S)
        self._foreign -= foreign.keys()
        foreign = self._unheard(scene, now_s) | foreign
        self._left |= foreign
        if status.change is not None:
            names = sorted(scene.pods[uid].name for uid in foreign)
            return go_on(scene, now_s, self._stamp, names[0] if names else "")
        if foreign:
            until_s = max(status.quiet_until_s, *foreign.values())
            scene = replace(scene, sizing=replace(sizing, status=replace(status, quiet_until_s=until_s)))
        found = idle(scene, now_s)
        if found.change is not None:
            return SizingStep(found)
        left = {uid for uid, until_s in self._left.items() if now_s < until_s}
        return SizingStep(found, (*spread(scene, left), *self._given_back(scene, now_s)))

    def _unheard(self, scene: SizingScene, now_s: float) -> dict[str, float]:
        """Pods that somebody else resized within a day while this process did not look, and until when they are left:
        no manager ran, or another one led.
        """
        found: dict[str, float] = {}
        for uid, pod in scene.pods.items():
            at_s = pod.resized_by_others_s
            if at_s > self._heard_s.get(uid, -inf):
                self._heard_s[uid] = at_s
                if now_s - at_s < QUIET_S:
                    found[uid] = min(now_s, at_s) + QUIET_S
        return found

    def _given_back(self, scene: SizingScene, now_s: float) -> tuple[ResizePod, ...]:
        """What pods that were made anew had, where their kubelet does not take the proven size: it is not asked again
        for a day.
        """
        for uid, pod in scene.pods.items():
            if pod.pending:
                self._waiting_s.setdefault(uid, now_s)
            else:
                self._waiting_s.pop(uid, None)
        late = late_anew(scene, self._waiting_s, now_s)
        for resize in late:
            self._left[resize.uid] = now_s + QUIET_S
            pod, waited_s = scene.pods[resize.uid], now_s - self._waiting_s[resize.uid]
            self._sizings[
                scene.sizing.key
            ].refusal = f"{pod.name}: {pod.pending} for {waited_s:.0f} s: {pod.pending_why}"
        return late

    def _scene(self, kept: _Kept, now_s: float) -> SizingScene:
        sizing = replace(kept.sizing, status=not_ahead(replace(kept.sizing.status, history=kept.history), now_s))
        pods = self._replicas(sizing)
        may_size = now_s - kept.sized_s >= SIZE_EVERY_S or sizing.status.state in ("", "learning")
        if may_size:
            kept.sized_s = now_s
        reported, kept.fresh = frozenset(kept.fresh), set()
        held = [*self._held.get(_target(sizing), {}).values(), _allocated(pods)]
        return SizingScene(
            sizing,
            pods,
            {uid: self._sign(pod) for uid, pod in pods.items()},
            reported,
            self._burns(sizing),
            HeldResources(
                next((one.cpu for one in held if one.cpu), ""),
                next((one.memory for one in held if one.memory), ""),
            ),
            may_size,
            kept.refusal,
            self.permissions.of(Action.SIZES, sizing.namespace, now_s),
            self._rung(sizing.namespace, now_s) if sizing.mode is SizingMode.EARNED else AutonomyRung.APPROVE,
        )

    def earned(self, namespace: str, now_s: float) -> Earned:
        """How far the changes of a namespace have led."""
        receipts = [
            kept.sizing.status.receipts for kept in self._sizings.values() if kept.sizing.namespace == namespace
        ]
        return earned([found for own in receipts for found in judged(own, now_s)], LadderSettings())

    def _rung(self, namespace: str, now_s: float) -> AutonomyRung:
        if namespace not in self._rungs:
            self._rungs[namespace] = self.earned(namespace, now_s).rung
        return self._rungs[namespace]

    def may_resize(self, resize: ResizePod, now_s: float) -> bool:
        """Whether a resize that was decided may still be sent."""
        return resize.undoes or not self.permissions.of(Action.SIZES, resize.namespace, now_s).is_frozen

    def _burns(self, sizing: RightSizing) -> bool | None:
        found = self._objectives.get(f"{sizing.namespace}/{sizing.objective}") if sizing.objective else None
        return None if found is None or found.state is None else found.state in _BURNS

    def _replicas(self, sizing: RightSizing) -> dict[str, SizedPod]:
        target = _target(sizing)
        owners = (target, *self._below.get(target, ()))
        own = [self._pods[uid] for owner in owners for uid in self._of_owner.get(owner, ())]
        return {pod.uid: pod for pod in own if pod.is_running}

    def _sign(self, pod: SizedPod) -> Sign:
        container = pod.containers[0]
        measured = self._measured.get(pod.key)
        signals = measured.signals if measured is not None else None
        return Sign(
            pod.uid,
            pod.name,
            pod.is_ready,
            sum(one.restarts for one in pod.containers),
            any(one.was_oom_killed for one in pod.containers),
            container.size,
            measured.use if measured is not None else None,
            signals.wait_per_cpu if signals is not None else None,
            signals.latency_p99_ms if signals is not None else None,
        )

    def _is_new(self, resize: ResizePod, now_s: float) -> bool:
        at_s, last = self._resized.get(resize.uid, (-inf, None))
        if last != resize:
            self._refusals.pop(resize.uid, None)
        elif now_s - at_s < RESIZE_AGAIN_S * 2.0 ** min(self._refusals.get(resize.uid, 0), MAX_REFUSALS):
            return False
        self._resized[resize.uid] = (now_s, resize)
        return True


def _allocated(pods: Mapping[str, SizedPod]) -> HeldResources:
    """CPUs and NUMA nodes were given for the amount that a pod requested: another one would not be theirs."""
    said = "stays: a scheduler allocated it by CPU or NUMA node"
    found = {resource for pod in pods.values() for resource in pod.allocated_by}
    return HeldResources(f"CPU {said}" if CPU_NAME in found else "", f"memory {said}" if MEMORY_NAME in found else "")


def _target(sizing: RightSizing) -> _Owner:
    return (sizing.namespace, sizing.workload_kind, sizing.workload_name)
