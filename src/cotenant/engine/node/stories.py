"""Telling one group's or pod's story from what the engine knows.

Problem: a pod is squeezed by knobs of its own groups, of its containers' and of every group above it, and whoever asks names any of them.
Choice: gather what concerns any of these groups; say first what stands now, then what each policy says, then what happened. Limits: groups
that no pod and no knob names are not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cotenant.engine.node.evictions import Evictions
from cotenant.engine.node.plan import within
from cotenant.engine.node.records import Hold, Log, Story, sentences
from cotenant.engine.node.view import NodeView
from cotenant.model.machine.knob import Target
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.verdict import Verdict


def story_of(
    asked: str,
    view: NodeView,
    holds: Sequence[Hold],
    knobs: Mapping[Target, str],
    verdicts: Sequence[tuple[str, Verdict]],
    evictions: Evictions,
    log: Log,
    now_us: int,
) -> Story | None:
    """The story; None where nobody knows the group or pod."""
    group = asked.strip("/")
    pod = view.find(asked) or view.find(group) or view.owner(group)
    known = pod is not None or group in view.groups() or any(hold.target.group == group for hold in holds)
    if not known:
        return None
    groups = _related(group, pod)
    concerned = tuple(hold for hold in holds if hold.target.group in groups)
    story = Story(
        asked=group,
        groups=groups,
        pod=pod.key if pod else "",
        text=(),
        holds=concerned,
        stands=tuple((target, value) for target, value in knobs.items() if target.group in groups),
        verdicts=tuple((policy, verdict.reasons) for policy, verdict in verdicts),
        leaves=_leaves(pod, evictions),
        decisions=log.of(groups, pod.key if pod else ""),
    )
    return replace(story, text=sentences(story, now_us))


def _related(group: str, pod: NodePod | None) -> tuple[str, ...]:
    """The pod's groups, or the group and what was asked for, with all above."""
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


def _leaves(pod: NodePod | None, evictions: Evictions) -> Reason | None:
    """Why the pod leaves, or should."""
    if pod is None:
        return None
    asked = evictions.asked().get(pod.uid)
    if asked is not None:
        said = "accepted" if asked.accepted else "refused" if not asked.outstanding else "no answer yet"
        return replace(asked.wish.reason, text=f"asked to leave ({said}): {asked.wish.reason.text}")
    limit = evictions.paced().get(pod.uid)
    return None if limit is None else Reason("paced", f"its eviction waits for the limit: {limit}")
