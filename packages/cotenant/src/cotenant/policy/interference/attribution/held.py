"""Best-effort pods that a limit of ours holds: what each used before, for as long as the trouble may outlast it.

The guard holds best-effort work within a second, often before a service has been in trouble for as long as an incident
takes to open. Who is held is idle from then on, while the requests that it delayed go on to be late: by activity alone
the pod that caused the trouble looks innocent, and whoever works because of the trouble looks guilty. A cut is seen by
itself, a quota far below what was used just before, so it does not matter which policy made it. In bad samples a held
pod counts as active as before; when the trouble lasts longer than requests wait, only as active as it is.
Limits: quotas of the common group and of pods' own groups; not a CPU set, nor one of a container.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import parse_cpu_max
from cotenant.model.machine.node_state import PPM, NodeState
from cotenant.policy.interference.attribution.settings import AttributionSettings


@dataclass(frozen=True, slots=True)
class HeldUse:
    """What a pod used before it was held, and since when it is."""

    cpu_m: int
    since_us: int


def reads(state: NodeState) -> tuple[KnobTarget, ...]:
    """The quotas that `held_pods` reads. Where no other policy asks for them, what a lease of recovery's own holds
    would look idle by itself.
    """
    groups = {entry.pod.group for entry in state.best_effort_pods} | {state.best_effort_group or ""}
    return tuple(KnobTarget(group, Knob.CPU_MAX) for group in sorted(groups - {""}))


def held_pods(
    state: NodeState,
    used_m: Mapping[str, int],
    before: Mapping[str, HeldUse],
    settings: AttributionSettings,
) -> dict[str, HeldUse]:
    """The pods that are held now, by uid. `used_m`: use in the last sample; `before`: those that were held in it."""
    inside: dict[str, list[str]] = {}
    uses_m = {entry.pod.uid: entry.use.cpu_m or 0 for entry in state.best_effort_pods}
    for entry in state.best_effort_pods:
        for group in {entry.pod.group, _common(state, entry.pod.group)} - {""}:
            inside.setdefault(group, []).append(entry.pod.uid)
    found: dict[str, HeldUse] = {}
    for group, uids in inside.items():
        value = state.knobs.get(KnobTarget(group, Knob.CPU_MAX))
        limit_m = None if value is None else parse_cpu_max(value).cpu_m
        if limit_m is None:
            continue
        free = {uid: before[uid].cpu_m if uid in before else used_m.get(uid, 0) for uid in uids}
        # A cut in the last moments of an interval has changed nothing in it yet.
        if max(limit_m, sum(map(uses_m.__getitem__, uids))) * PPM >= sum(free.values()) * settings.held_ppm:
            continue
        for uid, cpu_m in free.items():
            known = before.get(uid)
            held = HeldUse(cpu_m, state.at_us - state.interval_us) if known is None else known
            if cpu_m and state.at_us - held.since_us <= settings.held_us:
                found[uid] = held
    return found


def _common(state: NodeState, group: str) -> str:
    """The group of all best-effort work, where it contains this one."""
    common = state.best_effort_group or ""
    return common if common and group.startswith(f"{common}/") else ""
