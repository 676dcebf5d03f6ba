"""When a pending pod is tried again.

Problem: "it will be retried" does not help to decide whether to wait. Choice: the queue's own times, and the events that would activate the pod's group, in words.
Limits: an activated group is still ordered by priority; how many groups are before it is not reported.
"""

from __future__ import annotations

from cotenant.engine.cycle.placing import ROW_LOCAL
from cotenant.engine.framework.events import EVERYTHING, Event, helping
from cotenant.engine.framework.pod_state import PodInfo, State
from cotenant.engine.framework.queueing import Group, Standing
from cotenant.engine.framework.settings import Settings
from cotenant.model.decisions.answers import Retry

_WORDS = {
    "NodeAdd": "a node comes",
    "NodeUpdate": "a node changes",
    "NodeDelete": "a node goes",
    "AssignedPodAdd": "a pod is placed",
    "AssignedPodUpdate": "a placed pod changes",
    "AssignedPodDelete": "a placed pod goes",
    "NamespaceUpdate": "a namespace's labels change",
}


def retry(entry: PodInfo, group: Group | None, nominated: bool, settings: Settings, now_s: float) -> Retry:
    """For an unassigned pod; `group` is its group in the queue, `nominated` whether it has a nominated node."""
    standing = entry.state.name.lower()
    if entry.state is State.GATED:
        return Retry(standing, "when its scheduling gates are removed")
    if entry.state is State.BLOCKED:
        return Retry(standing, "as soon as that changes")
    if entry.state is State.HELD:
        until_s = entry.since_s + settings.backoff.rest_s(entry.failures)
        return Retry(standing, "after its rest: its bind, or the eviction for it, failed", until_s)
    if group is None:
        return Retry(standing, "it does not wait in the queue")
    if group.standing is Standing.ACTIVE:
        return Retry(group.standing.value, "in the next judgement", now_s)
    if group.standing is Standing.BACKOFF:
        return Retry(group.standing.value, "after its back-off: something has happened that may help", group.until_s)
    flush_s = group.since_s + settings.flush_s
    if nominated:
        return Retry(group.standing.value, "when those who were evicted for it are gone", flush_s)
    return Retry(group.standing.value, f"when {_helping_events(group)}", flush_s)


def _helping_events(group: Group) -> str:
    filters = group.verdict.filters if group.verdict is not None else frozenset({EVERYTHING})
    events: set[Event] = set()
    for name in filters - ROW_LOCAL:
        events |= helping(name)
    if events == set(Event):
        return "anything changes"
    words = [_WORDS.get(event.value, event.value) for event in Event if event in events]
    if filters & ROW_LOCAL or not filters:
        words.insert(0, "a node has room and labels for it")
    return " or ".join(words)
