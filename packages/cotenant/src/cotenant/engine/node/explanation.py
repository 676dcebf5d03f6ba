"""The explanation of one group or pod from the engine's state.

A pod is throttled by knobs of its own groups, of its containers' and of every group above it, and a user may name any
of them. Gather what concerns any of these groups; report the current state first, then each policy's reasons, then past
decisions.
Limits: groups that belong to no pod and have no knob are not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cotenant.engine.node.decision_log import DecisionLog, GroupExplanation, HeldKnob, sentences
from cotenant.engine.node.evictions import NOT_NAMED, Evictions
from cotenant.engine.node.knobs.knob_entry import KnobEntry
from cotenant.engine.node.knobs.plan import within
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import NodePolicy
from cotenant.engine.node.view import NodePodsView
from cotenant.model.machine.knob import KnobTarget
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.verdict import PolicyVerdict


def held_knob(entry: KnobEntry, policy: NodePolicy | None, mode: AgentMode) -> HeldKnob:
    """A knob as a person sees it; `policy` is the one that wants it, where that is still on."""
    observed = mode is AgentMode.OBSERVE and not entry.status.is_backing_off
    return HeldKnob(
        entry.target,
        entry.value,
        "would be held" if observed else entry.status.value,
        entry.policy,
        entry.reason,
        entry.since_us,
        entry.overruled,
        policy.lifts if policy else "",
        entry.detail,
    )


def explain_group(
    asked: str,
    view: NodePodsView,
    holds: Sequence[HeldKnob],
    knobs: Mapping[KnobTarget, str],
    verdicts: Sequence[tuple[str, PolicyVerdict]],
    evictions: Evictions,
    log: DecisionLog,
    now_us: int,
) -> GroupExplanation | None:
    """The explanation; None where the group or pod is not known."""
    group = asked.strip("/")
    pod = view.find(asked) or view.find(group) or view.owner(group)
    known = pod is not None or group in view.groups() or any(hold.target.group == group for hold in holds)
    if not known:
        return None
    groups = _related(group, pod)
    concerned = tuple(hold for hold in holds if hold.target.group in groups)
    explanation = GroupExplanation(
        asked=group,
        groups=groups,
        pod=pod.key if pod else "",
        text=(),
        holds=concerned,
        stands=tuple((target, value) for target, value in knobs.items() if target.group in groups),
        verdicts=tuple((policy, verdict.reasons) for policy, verdict in verdicts),
        leaves=_eviction_reason(pod, evictions),
        decisions=log.of(groups, pod.key if pod else ""),
        signals=view.signals.of(pod.uid, now_us) if pod else (),
    )
    changed = ", ".join(pod.relabelled) if pod else ""
    note = (f"changed since the pod was bound, and without effect: {changed}",) if changed else ()
    return replace(explanation, text=(*note, *sentences(explanation, now_us)))


def _related(group: str, pod: NodePod | None) -> tuple[str, ...]:
    """The pod's groups and the given group, with all groups above them."""
    own = {group} if pod is None else {pod.group, *(container.group for container in pod.containers)}
    if pod is not None and within(group, (pod.group,)):
        own.add(group)
    related = set(own)
    for path in own:
        while "/" in path:
            path = path.rpartition("/")[0]
            related.add(path)
    related.discard("")
    return tuple(sorted(related))


def _eviction_reason(pod: NodePod | None, evictions: Evictions) -> Reason | None:
    """Why the pod's eviction was requested, or is waiting."""
    if pod is None:
        return None
    asked = evictions.asked().get(pod.uid)
    if asked is not None:
        outcome = "accepted" if asked.accepted else "refused" if not asked.outstanding else "no answer yet"
        return replace(asked.eviction.reason, text=f"eviction requested ({outcome}): {asked.eviction.reason.text}")
    waits_for = evictions.paced().get(pod.uid)
    if waits_for is None:
        return None
    what = waits_for if waits_for == NOT_NAMED else f"a limit: {waits_for}"
    return Reason("paced", f"its eviction waits for {what}")
