"""The guard: a ceiling on best-effort CPU that protects the services, regardless of free CPU.

A node may have free CPU while its services miss their objectives. The state machine of `step.py` over the signal of the
worst-off protected pod: cut at once and by half, disabled when an objective stays missed, growing by a tenth of the
node every two seconds only after ten seconds of calm. Pods without an objective have a track of their own (`track.py`):
whatever they suffer, they do not push best-effort work below the node less their bound (`bound.py`), and where the
ceiling stands below that it rises at once, unless an objective is in danger. Its only clock is the state's.
Limits: CPU only; which best-effort pod is the cause is determined by policy/interference.

Source: Lo et al., Heracles, ISCA'15, top-level controller. Its switch at 85 % load is omitted: the allowance of
`cpu/suppression.py` does that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_state import PPM, NodeState, PodUse
from cotenant.policy.nodeqos.amounts import cpu_text
from cotenant.policy.nodeqos.cpu.suppression import best_effort_use_m
from cotenant.policy.nodeqos.guard import step as guard_step
from cotenant.policy.nodeqos.guard.alarms import Alarms
from cotenant.policy.nodeqos.guard.bound import Owed, owed
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.signals import (
    Burn,
    PodSignal,
    best_effort_blame,
    has_objective,
    pod_signal,
    protected,
    updated_burn,
)
from cotenant.policy.nodeqos.guard.track import GuardMode, Track, TrackStep, advance, since


@dataclass(frozen=True, slots=True)
class GuardMemory:
    """State of the guard between calls; bounded by the number of protected pods."""

    objectives: Track = field(default_factory=Track)  # of pods with an objective
    others: Track = field(default_factory=Track)
    judged_us: int | None = None
    stolen_us: int | None = None  # when CPU time was last stolen by the hypervisor
    burns: tuple[Burn, ...] = ()

    @property
    def ceiling_m(self) -> int | None:
        """The last ceiling; None: not evaluated yet."""
        known = [track.ceiling_m for track in (self.objectives, self.others) if track.ceiling_m is not None]
        return min(known, default=None)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The guard's current ceiling."""

    cpu_m: int  # at most the node
    mode: GuardMode
    protects: bool  # whether there are pods to protect, so that the idle class is useful
    reason: Reason
    cause: str = ""  # the signal that decided; empty where the guard is off


def judge(
    state: NodeState, config: GuardConfig, memory: GuardMemory, yielding: bool = False
) -> tuple[Ceiling, GuardMemory]:
    """The new ceiling. An alarm in the state, of a protected group or of the machine, counts as pressure at once.

    `yielding`: best-effort work is already in the idle class. Then a short wait (an alarm of less than `stall_cut_ppm`)
    only keeps the ceiling from growing: work that already yields to every service would cause the same wait with half
    the quota.
    """
    pods = protected(state)
    capacity_m, now_us = state.host.capacity_cpu_m, state.at_us
    if not config.enabled or not pods:
        text = "guard is off: " + ("it is switched off" if not config.enabled else "no pod to protect")
        reason = Reason("cpu-guard", text, (DecisionTerm("node", capacity_m, "mCPU"),))
        return Ceiling(capacity_m, GuardMode.OFF, bool(pods), reason), GuardMemory()

    burns = _burns(pods, state, config, memory)
    stolen_us = now_us if (state.host.steal_ppm or 0) >= config.stolen_ppm else memory.stolen_us
    stolen = stolen_us is not None and since(stolen_us, now_us, 0) <= config.stolen_for_us
    blame = best_effort_blame(state, pods)
    signals = {
        entry.pod.uid: pod_signal(
            entry, burns.get(entry.pod.uid) or Burn(entry.pod.uid), config, blame.get(entry.pod.group), stolen
        )
        for entry in pods
    }
    alarms = Alarms.of(state, pods, config, yielding)
    used_m = best_effort_use_m(state)
    # The use measured before an alarm does not describe the present.
    innocent = not state.alarms and used_m * PPM < config.innocent_ppm * capacity_m

    def worst_of(found: Sequence[PodSignal]) -> PodSignal:
        worst = max(found, key=lambda entry: entry.severity)
        if worst.severity <= guard_step.CLOSE or not innocent:
            return worst
        text = f"{worst.text}; best-effort work uses {cpu_text(used_m)} CPU and is not the cause"
        return replace(worst, severity=guard_step.CLOSE, text=text)

    judged = tuple(entry for entry in pods if has_objective(entry))
    others = tuple(entry for entry in pods if not has_objective(entry))
    steps: list[tuple[TrackStep, Owed | None]] = []
    objectives, rest, in_danger = Track(), Track(), False
    left = memory.objectives.ceiling_m is not None and memory.objectives.ceiling_m < capacity_m
    if judged or left:
        # What was cut for a pod that is gone grows back like any other.
        gone = PodSignal("", guard_step.CALM, "usage only", "no pod with an objective is left")
        worst = worst_of(alarms.over(judged, signals, with_machine=True)) if judged else gone
        in_danger = worst.severity > guard_step.CALM
        step = advance(memory.objectives, worst, now_us, used_m, capacity_m, config)
        objectives = step.after
        steps.append((step, None))
    if others:
        found = alarms.over(others, signals, with_machine=not judged)
        pressed = [entry for entry, element in zip(others, found, strict=False) if element.severity > guard_step.CLOSE]
        if not judged and alarms.machine is not None:
            pressed = list(others)
        bound = owed(pressed or others, config, blame, alarms.stalls(with_machine=not judged))
        every = owed(others, config, blame, alarms.stalls(with_machine=not judged))
        step = advance(
            memory.others,
            worst_of(found),
            now_us,
            used_m,
            capacity_m,
            config,
            bound.lowest_m(capacity_m),
            grows=not in_danger,
        )
        if not in_danger:
            step = step.raised_to(every.lowest_m(capacity_m), now_us)
        rest = step.after
        steps.append((step, bound))
    elif in_danger and memory.others.ceiling_m is not None and memory.others.ceiling_m < capacity_m:
        # What was cut for pods that are gone is not given back while an objective is in danger.
        gone = PodSignal("", guard_step.CALM, "usage only", "no pod without an objective is left")
        step = advance(memory.others, gone, now_us, used_m, capacity_m, config, grows=False)
        rest = step.after
        steps.append((step, None))
    binding, owing = min(steps, key=lambda element: (element[0].ceiling_m, -element[0].after.mode))
    after = GuardMemory(objectives, rest, now_us, stolen_us, tuple(burns.values()))
    reason = _reason(binding, owing, capacity_m, now_us)
    return Ceiling(binding.ceiling_m, binding.after.mode, True, reason, binding.worst.text), after


def _burns(pods: tuple[PodUse, ...], state: NodeState, config: GuardConfig, memory: GuardMemory) -> dict[str, Burn]:
    """The averages of the current pods with an objective."""
    before = {burn.uid: burn for burn in memory.burns}
    elapsed_us = since(memory.judged_us, state.at_us, state.interval_us)
    return {
        entry.pod.uid: updated_burn(before.get(entry.pod.uid) or Burn(entry.pod.uid), entry.health, elapsed_us, config)
        for entry in pods
        if entry.pod.objective_p99_us is not None or entry.signals
    }


def _reason(step: TrackStep, owing: Owed | None, capacity_m: int, now_us: int) -> Reason:
    mode, worst, ceiling_m = step.after.mode, step.worst, step.ceiling_m
    cause = f"{worst.text} [{worst.signal}]"
    now = f"{cpu_text(ceiling_m)} CPU"
    match mode:
        case GuardMode.CUT if step.awaits_effect:
            text = f"guard waits for the effect of its cut to {now}: {cause}"
        case GuardMode.CUT:
            text = f"guard cuts best-effort work to {now}: {cause}"
        case GuardMode.DISABLED:
            cooling_us = step.after.cool_until_us - now_us
            text = f"guard limits best-effort work to {now} for at least {max(0, cooling_us) // 1_000_000} s: {cause}"
        case GuardMode.GROW:
            text = f"guard allows {now}: {cause}"
        case _:
            text = f"guard holds at {now}: {cause}"
    if owing is not None and owing.cpu_m is not None and ceiling_m < capacity_m:
        if ceiling_m >= owing.lowest_m(capacity_m):
            text += f"; without an objective, at most {cpu_text(owing.cpu_m)} CPU are taken"
        return Reason("cpu-guard", text, (*owing.terms(capacity_m, ceiling_m), *worst.terms))
    terms = [DecisionTerm("ceiling before", step.before_m, "mCPU")]
    if ceiling_m != step.before_m:
        terms.append(DecisionTerm("growth" if ceiling_m > step.before_m else "cut", ceiling_m - step.before_m, "mCPU"))
    return Reason("cpu-guard", text, (*terms, *worst.terms))
