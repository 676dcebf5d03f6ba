"""When a pending pod is tried again.

"it will be retried" does not help to decide whether to wait. The queue's own times, and the events that would activate
the pod's group, in words.
Limits: an activated group is still ordered by priority; how many groups are before it is not reported.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.engine.cycle.placing import ROW_LOCAL
from cotenant.engine.framework.events import EVERYTHING, EventKind
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.framework.queueing import QueuedGroup, QueueStanding
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.decisions.answers import PodRetry

# what happens -> to what
_WORDS = {
    EventKind.NODE_ADDED: ("is added", "a node"),
    EventKind.NODE_CHANGED: ("changes", "a node"),
    EventKind.NODE_GONE: ("is deleted", "a node"),
    EventKind.POD_ASSIGNED: ("is placed", "a pod"),
    EventKind.POD_CHANGED: ("changes", "a placed pod"),
    EventKind.POD_GONE: ("leaves its node", "a pod"),
    EventKind.NAMESPACE: ("is relabelled", "a namespace"),
    EventKind.TOPOLOGY: ("reports another CPU topology", "a node"),
    EventKind.QUOTA: ("has room", "its quota"),
    EventKind.NODE_STORAGE: ("can attach more volumes", "a node"),
    EventKind.NODE_LOAD: ("reports less load", "a node"),
    EventKind.GANG: ("can spare members", "a gang"),
    EventKind.CLAIM: ("changes", "a resource claim"),
    EventKind.DEVICES: ("change", "devices of nodes or their classes"),
    EventKind.BUDGET: ("changes", "a disruption budget"),
}


def retry(
    entry: PodInfo,
    group: QueuedGroup | None,
    nominated: bool,
    settings: EngineSettings,
    helping: Callable[[str], frozenset[EventKind]],
    now_s: float,
) -> PodRetry:
    """For an unassigned pod; `group` is its group in the queue, `nominated` whether it has a nominated node, `helping`
    says which events may end a refusal by a filter or plugin.
    """
    standing = entry.state.name.lower()
    if entry.state is SchedulingState.GATED:
        return PodRetry(standing, "when its scheduling gates are removed")
    if entry.state is SchedulingState.BLOCKED:
        return PodRetry(standing, "as soon as that changes")
    if entry.state is SchedulingState.HELD:
        until_s = entry.since_s + settings.backoff.rest_s(entry.failures)
        return PodRetry(
            standing, "after its back-off: its bind, or the eviction for it, failed, or it released its node", until_s
        )
    if group is None:
        return PodRetry(standing, "it does not wait in the queue")
    if group.standing is QueueStanding.ACTIVE:
        return PodRetry(group.standing.value, "in the next scheduling round", now_s)
    if group.overruns and group.standing is QueueStanding.BACKOFF:
        return PodRetry(
            "set aside", "apart from the others, with a longer limit where no other pod waits", group.until_s
        )
    if group.standing is QueueStanding.BACKOFF:
        return PodRetry(group.standing.value, "after its back-off: something has happened that may help", group.until_s)
    flush_s = group.since_s + settings.flush_s
    if nominated:
        return PodRetry(group.standing.value, "when the pods that were evicted for it have terminated", flush_s)
    return PodRetry(group.standing.value, f"when {_helping_events(group, helping)}", flush_s)


def _helping_events(group: QueuedGroup, helping: Callable[[str], frozenset[EventKind]]) -> str:
    filters = group.verdict.filters if group.verdict is not None else frozenset({EVERYTHING})
    events: set[EventKind] = set()
    for name in filters - ROW_LOCAL:
        events |= helping(name)
    if events == set(EventKind):
        return "anything changes"
    happens: dict[str, list[str]] = {}  # by what it happens to
    for event in EventKind:
        if event in events:
            verb, subject = _WORDS[event]
            happens.setdefault(subject, []).append(verb)
    words = [
        f"{subject} {', '.join(verbs[:-1])}{' or ' if verbs[1:] else ''}{verbs[-1]}"
        for subject, verbs in happens.items()
    ]
    if filters & ROW_LOCAL or not filters:
        words.insert(0, "a node has room and labels for it")
    return ", or ".join(words) or "more of its gang is there"
