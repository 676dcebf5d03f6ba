"""A gang's specification, from a PodGroup or from the annotations and labels of its pods.

The same gang may be named by a label, by another label and by an annotation, and its size given differently by a
PodGroup and by each pod. One precedence, upstream's (names: PodGroup labels, `scheduling.x-k8s.io/pod-group` first,
lightweight label, annotation; sizes: the PodGroup if there is one, else the oldest pod), defaults for absent or invalid
values, and a message for everything that was not used as written.
Limits: a minimum has no default: without a valid one there is no spec, and the gang's pods wait with that reason.

Source: Koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go and apis/extension/coscheduling.go.
"""

from __future__ import annotations

import re
from dataclasses import replace

from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups import gang
from cotenant.model.groups.gang import NO_NOTES, GangMode, GangNotes, GangSpec, MatchPolicy, PodGroup
from cotenant.policy.placement.gangs.bundles import MAX_NAMED

_COUNT = re.compile(r"[0-9]{1,9}")


def gang_key(pod: Pod, notes: GangNotes | None) -> str:
    """namespace/name of the pod's gang, empty if it is in none."""
    current = by_group = light = ""
    for key, value in pod.labels.items:
        if key.startswith(gang.POD_GROUP):
            if key == gang.POD_GROUP:
                by_group = value
            elif key == gang.LIGHT_NAME:
                light = value
        elif key == gang.X_POD_GROUP:
            current = value
    name = current or by_group or light or (notes.name if notes is not None else "")
    return f"{pod.namespace}/{name}" if name else ""


def from_pod_group(group: PodGroup) -> tuple[GangSpec, tuple[str, ...]]:
    """The specification from a PodGroup, and messages about what was not used as written."""
    notes, messages = group.notes, list(group.notes.wrong)
    least = group.min_member
    if least is None or least < 1:
        messages.append(f"spec.minMember is {least if least is not None else 'missing'}: 1 counts")
        least = 1
    wait_s = group.wait_s if group.wait_s is not None and group.wait_s > 0 else notes.wait_s
    if wait_s is None and group.api_group == gang.X_GROUP:
        wait_s = gang.X_WAIT_S
    spec = _spec(group.key, least, notes, wait_s, messages, declared=True)
    spec = replace(
        spec,
        min_resources=group.min_resources,
        disruption=group.disruption,
        disrupted_with=group.disrupted_with,
        inner_key=group.inner_key,
    )
    return spec, tuple(messages)


def from_pod(key: str, labels: Labels, notes: GangNotes | None) -> tuple[GangSpec | None, tuple[str, ...]]:
    """The specification of a gang without a PodGroup from its oldest pod, and messages about what was not used as
    written. None = no valid minimum.
    """
    written = notes or NO_NOTES
    messages = list(written.wrong)
    if written.needs_object:
        messages.append(f"its pods name it in spec.schedulingGroup, and there is no PodGroup {key} of {gang.K8S_GROUP}")
        return None, tuple(messages)
    least = written.min_available
    if least is None:
        text = labels.get(gang.LIGHT_MIN_AVAILABLE)
        if text is not None and _COUNT.fullmatch(text):
            least = int(text)
        elif text is not None:
            messages.append(f"label {gang.LIGHT_MIN_AVAILABLE} is {text!r}, not a whole number")
    policy = labels.get(gang.LIGHT_MATCH_POLICY)
    if written.match_policy is None and policy is not None:
        try:
            written = _with_policy(written, MatchPolicy(policy))
        except ValueError:
            messages.append(f"label {gang.LIGHT_MATCH_POLICY} is {policy!r}: {MatchPolicy.ONCE_SATISFIED} counts")
    if least is None or least < 1:
        messages.append(f"neither a PodGroup {key} nor its pods say how many of it must run together")
        return None, tuple(messages)
    return _spec(key, least, written, written.wait_s, messages, declared=False), tuple(messages)


def differences(spec: GangSpec, notes: GangNotes | None) -> str:
    """Where a member's own annotations differ from the effective specification; empty where they do not."""
    if notes is None:
        return ""
    differing = []
    for name, own, counts in (
        ("min-available", notes.min_available, spec.min_available),
        ("mode", notes.mode, spec.mode),
        ("match-policy", notes.match_policy, spec.match_policy),
    ):
        if own is not None and own != counts:
            differing.append(f"{name} {own}, {counts} counts")
    if notes.groups and tuple(sorted({*notes.groups, spec.key})) != tuple(sorted({*spec.groups, spec.key})):
        differing.append("other groups than those that count")
    return "; ".join(differing)


def _spec(
    key: str, least: int, notes: GangNotes, wait_s: float | None, messages: list[str], *, declared: bool
) -> GangSpec:
    total = notes.total if notes.total is not None else least
    if total < least:
        messages.append(f"total-number {total} is below the minimum {least}: {least} counts")
        total = least
    if wait_s is not None and wait_s <= 0:
        messages.append(f"waiting-time {wait_s:g} s is not above 0: {gang.WAIT_S:g} s counts")
        wait_s = None
    if notes.topology is not None and notes.gather:
        messages.append(f"annotation {gang.TOPOLOGY} counts, and not {gang.NETWORK_TOPOLOGY}")
    if (notes.topology is not None or notes.gather) and notes.mode is GangMode.NON_STRICT:
        messages.append("members of a NonStrict gang are not gathered: topology counts for Strict gangs")
    groups = tuple(dict.fromkeys((*notes.groups, key))) if notes.groups else ()
    if notes.groups and key not in notes.groups:
        messages.append(f"the groups do not name {key} itself: it counts among them")
    for other in groups:
        namespace, slash, name = other.partition("/")
        if not (namespace and slash and name):
            messages.append(f"{other!r} among the groups is not namespace/name: it is left out")
    groups = tuple(group for group in groups if all(group.partition("/")))
    if len(groups) > MAX_NAMED:
        messages.append(f"it names {len(groups)} gangs to be placed together: the first {MAX_NAMED} count")
        groups = (*[other for other in groups if other != key][: MAX_NAMED - 1], key)
    return GangSpec(
        key,
        least,
        total,
        notes.mode or GangMode.STRICT,
        notes.match_policy or MatchPolicy.ONCE_SATISFIED,
        wait_s if wait_s is not None else gang.WAIT_S,
        groups if len(groups) > 1 else (),
        declared,
        notes.topology,
        notes.gather if notes.topology is None else (),
    )


def _with_policy(notes: GangNotes, policy: MatchPolicy) -> GangNotes:
    return replace(notes, match_policy=policy)
