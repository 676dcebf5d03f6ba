"""Kinds of gangs: whether a pod may be bound, and whether it may enter the queue, as the engine's Gangs plugin
answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cotenant.engine.framework.plugin import PluginHost
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.plugins.gangs.plugin import Gangs
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import POD_GROUP, GangMode, GangNotes, MatchPolicy, PodGroup, PodGroupStatus

Compared = Iterator[tuple[str, Any, Any]]

WAIT_S = 10.0  # of every gang in these cases


def plugin(gangs: Sequence[Mapping[str, Any]]) -> Gangs:
    """The plugin with these gangs declared by PodGroups. One that was satisfied once still has one of its first
    members.
    """
    made = Gangs()
    made.attach(
        PluginHost(say=lambda _: None, happened=lambda _: None, reconsider=lambda _: None, count=lambda _: None)
    )
    for given in gangs:
        made.pod_group_seen(declared(given), 0.0)
        if given.get("once_satisfied", False):
            first, *others = [add(made, f"{given['id']}-first-{i}", given["id"]) for i in range(given["min"])]
            for entry in (first, *others):
                place(made, entry, SchedulingState.BOUND)
            for entry in others:
                made.unreserve(entry)
                made.pod_left(entry)
    return made


def declared(given: Mapping[str, Any]) -> PodGroup:
    key, policy = given["id"], given["match_policy"]
    notes = GangNotes(
        total=given["total"],
        mode=GangMode(given.get("mode", "Strict")),
        groups=tuple(given.get("group") or ()),
        match_policy=MatchPolicy(policy) if policy else None,
    )
    return PodGroup(
        key,
        f"uid-{key}",
        0.0,
        given["min"],
        given.get("wait_seconds", WAIT_S),
        notes,
        PodGroupStatus(key, f"uid-{key}"),
    )


def add(gangs: Gangs, name: str, gang: str | None) -> PodInfo:
    """A pod of this gang arrives; None = of no gang."""
    namespace, _, group = (gang or "default/").partition("/")
    pod = Pod(name, namespace=namespace, labels=Labels.of({POD_GROUP: group} if group else {}))
    entry = PodInfo(ObservedPod(pod, f"uid-{name}", "cotenant", 0.0), state=SchedulingState.QUEUED)
    gangs.pod_arrived(entry)
    return entry


def place(gangs: Gangs, entry: PodInfo, state: SchedulingState) -> None:
    entry.state, entry.node = state, "n"
    gangs.reserve(entry, "n")


def permitted(case: Any) -> Compared:
    gangs = plugin(case.given.get("gangs", ()))
    for kind, state in (("waiting_pods", SchedulingState.WAITING), ("bound_pods", SchedulingState.BOUND)):
        for entry in case.given.get(kind, ()):
            place(gangs, add(gangs, entry["name"], entry["gang"]), state)
    pod = add(gangs, case.given["pod"]["name"], case.given["pod"]["gang"])
    gang = gangs.of(pod.seen.uid)
    allowed = gangs.permit(pod)
    yield "status", case.expect["status"], "not-a-gang" if gang is None else "allow" if allowed else "wait"
    yield "wait_seconds", case.expect["wait_seconds"], 0 if allowed or gang is None else gang.wait_s()


def entered(case: Any) -> Compared:
    given = case.given["gang"]
    gangs = plugin([given] if given is not None else [])
    for name in case.given.get("earlier_members", ()):
        earlier = add(gangs, name, case.given["pod"]["gang"] if given is None else given["id"])
        earlier.state = SchedulingState.BLOCKED if gangs.pre_enqueue(earlier) else SchedulingState.QUEUED
    pod = add(gangs, case.given["pod"]["name"], case.given["pod"]["gang"])
    words, gang = gangs.pre_enqueue(pod), gangs.of(pod.seen.uid)
    result = "not-enough-members" if " members; waits for " in words else "gang-not-initialized" if words else "ok"
    if result == "ok" and gang is not None and gangs.representative(gang) not in (None, pod):
        result = "representative-exists"
    yield "result", case.expect["result"], result


KINDS = {"permit": permitted, "pre_enqueue": entered}
