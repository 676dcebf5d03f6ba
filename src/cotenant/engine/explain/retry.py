"""When a pod that waits is judged again.

Problem: "it will be retried" helps nobody decide whether to wait. Choice: the queue's own times, and the events that would wake the pod's group, in words.
Limits: a group that is woken still has its turn by priority; how many stand before it is not told.
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


def retry(entry: PodInfo, group: Group | None, promised: bool, settings: Settings, now_s: float) -> Retry:
    """Of a pod that sits nowhere; `group` is where it waits in the queue, `promised` whether a node is kept for it."""
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
    if promised:
        return Retry(group.standing.value, "when those who were evicted for it are gone", flush_s)
    return Retry(group.standing.value, f"when {_what_helps(group)}", flush_s)


def _what_helps(group: Group) -> str:
    filters = group.verdict.filters if group.verdict is not None else frozenset({EVERYTHING})
    events: set[Event] = set()
    for name in filters - ROW_LOCAL:
        events |= helping(name)
    if events == set(Event):
        return "anything changes"
    told = [_WORDS.get(event.value, event.value) for event in Event if event in events]
    if filters & ROW_LOCAL or not filters:
        told.insert(0, "a node has room and labels for it")
    return " or ".join(told)
