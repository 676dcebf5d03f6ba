"""The guard: a ceiling on best-effort CPU that protects the services' objectives, regardless of free CPU.

Problem: a node may have free CPU while its services miss their objectives. Choice: the state machine of `step.py` over the signal of the worst-off
protected pod: cut at once and by half, disabled when an objective stays missed, growing by a tenth of the node every two seconds only
after ten seconds of calm. Its only clock is the state's. Limits: CPU only; which best-effort pod is the cause is determined by policy/interference.

Source: Lo et al., Heracles, ISCA'15, top-level controller. Its switch at 85 % load is omitted: the allowance of `cpu/suppression.py` does that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from cotenant.model.machine.node_decision import Reason, Term
from cotenant.model.machine.node_state import PPM, NodeState, PodUse
from cotenant.policy.nodeqos.amounts import cpu_text, percent_text
from cotenant.policy.nodeqos.cpu.suppression import best_effort_use_m, is_below
from cotenant.policy.nodeqos.guard import step as guard_step
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.signals import (
    Burn,
    PodSignal,
    best_effort_blame,
    pod_signal,
    protected,
    updated_burn,
)


class GuardMode(IntEnum):
    """Modes of the guard."""

    OFF = guard_step.OFF  # no pod to protect, or switched off
    GROW = guard_step.GROW
    HOLD = guard_step.HOLD
    CUT = guard_step.CUT
    DISABLED = guard_step.DISABLED


@dataclass(frozen=True, slots=True)
class GuardMemory:
    """State of the guard between calls; bounded by the number of protected pods."""

    mode: GuardMode = GuardMode.OFF
    ceiling_m: int | None = None  # None: not evaluated yet
    restless_us: int | None = None  # when trouble was last seen
    grown_us: int | None = None  # when the ceiling last grew
    cut_us: int | None = None  # when it was last cut
    missed_us: int | None = None  # since when an objective has been missed
    cool_until_us: int = 0
    judged_us: int | None = None
    stolen_us: int | None = None  # when CPU time was last stolen by the hypervisor
    burns: tuple[Burn, ...] = ()


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The guard's current ceiling."""

    cpu_m: int  # at most the node
    mode: GuardMode
    protects: bool  # whether there are pods to protect, so that the idle class is useful
    reason: Reason


def judge(
    state: NodeState, config: GuardConfig, memory: GuardMemory, yielding: bool = False
) -> tuple[Ceiling, GuardMemory]:
    """The new ceiling. An alarm in the state, of a protected group or of the machine, counts as pressure at once.

    `yielding`: best-effort work is already in the idle class. Then a short wait (an alarm of less than `stall_cut_ppm`) only keeps the
    ceiling from growing: work that already yields to every service would cause the same wait with half the quota.
    """
    pods = protected(state)
    capacity_m, now_us = state.host.capacity_cpu_m, state.at_us
    if not config.enabled or not pods:
        text = "guard is off: " + ("it is switched off" if not config.enabled else "no pod to protect")
        reason = Reason("cpu-guard", text, (Term("node", capacity_m, "mCPU"),))
        return Ceiling(capacity_m, GuardMode.OFF, bool(pods), reason), GuardMemory()

    burns = _burns(pods, state, config, memory)
    stolen_us = now_us if (state.host.steal_ppm or 0) >= config.stolen_ppm else memory.stolen_us
    stolen = stolen_us is not None and _since(stolen_us, now_us, 0) <= config.stolen_for_us
    blame_shares = best_effort_blame(state, pods)
    signals = [
        pod_signal(
            entry, burns.get(entry.pod.uid) or Burn(entry.pod.uid), config, blame_shares.get(entry.pod.group), stolen
        )
        for entry in pods
    ]
    worst = _with_alarms(max(signals, key=lambda each: each.severity), pods, state, config, yielding)
    used_m = best_effort_use_m(state)
    # The use measured before an alarm does not describe the present.
    innocent = not state.alarms and used_m * PPM < config.innocent_ppm * capacity_m
    if worst.severity > guard_step.CLOSE and innocent:
        text = f"{worst.text}; best-effort work uses {cpu_text(used_m)} CPU and is not the cause"
        worst = replace(worst, severity=guard_step.CLOSE, text=text)

    missed_us = _first(memory.missed_us, now_us) if worst.severity == guard_step.MISSED else None
    restless_us = now_us if worst.severity > guard_step.CALM else memory.restless_us
    mode = GuardMode(
        guard_step.next_mode(
            memory.mode,
            worst.severity,
            _since(missed_us, now_us, 0),
            config.miss_limit_us,
            _since(restless_us, now_us, config.calm_us),
            config.calm_us,
            memory.cool_until_us - now_us,
        )
    )
    before_m = capacity_m if memory.ceiling_m is None else min(memory.ceiling_m, capacity_m)
    # A signal measured before the last cut does not show its effect.
    awaits_effect = mode is GuardMode.CUT and memory.cut_us is not None and now_us - worst.age_us <= memory.cut_us
    grows = mode is GuardMode.GROW and _since(memory.grown_us, now_us, config.grow_every_us) >= config.grow_every_us
    ceiling_m = guard_step.next_ceiling_m(
        GuardMode.HOLD if awaits_effect else mode,
        before_m,
        used_m,
        capacity_m,
        min(config.least_cpu_m, capacity_m * config.least_ppm // PPM),
        config.disabled_cpu_m,
        config.cut_ppm,
        capacity_m * config.growth_ppm // PPM if grows else 0,
    )
    cooling = mode is GuardMode.DISABLED and (
        memory.mode is not GuardMode.DISABLED or worst.severity == guard_step.MISSED
    )
    after = GuardMemory(
        mode=mode,
        ceiling_m=ceiling_m,
        restless_us=restless_us,
        grown_us=now_us if ceiling_m > before_m else memory.grown_us,
        cut_us=now_us if mode in (GuardMode.CUT, GuardMode.DISABLED) and not awaits_effect else memory.cut_us,
        missed_us=missed_us,
        cool_until_us=now_us + config.cool_down_us if cooling else memory.cool_until_us,
        judged_us=now_us,
        stolen_us=stolen_us,
        burns=tuple(burns.values()),
    )
    reason = _reason(mode, before_m, ceiling_m, worst, awaits_effect, after.cool_until_us - now_us)
    return Ceiling(ceiling_m, mode, True, reason), after


def _burns(pods: tuple[PodUse, ...], state: NodeState, config: GuardConfig, memory: GuardMemory) -> dict[str, Burn]:
    """The averages of the current pods with an objective."""
    before = {burn.uid: burn for burn in memory.burns}
    elapsed_us = _since(memory.judged_us, state.at_us, state.interval_us)
    return {
        entry.pod.uid: updated_burn(before.get(entry.pod.uid) or Burn(entry.pod.uid), entry.health, elapsed_us, config)
        for entry in pods
        if entry.pod.objective_p99_us is not None or entry.signals
    }


def _with_alarms(
    worst: PodSignal, pods: tuple[PodUse, ...], state: NodeState, config: GuardConfig, yielding: bool
) -> PodSignal:
    for alarm in state.alarms:
        severity = guard_step.CLOSE if yielding and alarm.stall_ppm < config.stall_cut_ppm else guard_step.PRESSED
        pod_key = next(
            (entry.pod.key for entry in pods if entry.pod.group and is_below(alarm.group, entry.pod.group)), ""
        )
        if alarm.what == "cpu" and worst.severity < severity and (pod_key or not alarm.group):
            text = (
                f"{pod_key or 'the machine'} was stalled on CPU for {percent_text(alarm.stall_ppm)} of the alarm window"
            )
            worst = PodSignal(pod_key, severity, "alarm", text)
    return worst


def _first(since_us: int | None, now_us: int) -> int:
    return now_us if since_us is None else min(since_us, now_us)


def _since(then_us: int | None, now_us: int, unknown_us: int) -> int:
    """Elapsed time; 0 where the clock went back."""
    return unknown_us if then_us is None else max(0, now_us - then_us)


def _reason(
    mode: GuardMode, before_m: int, ceiling_m: int, worst: PodSignal, awaits_effect: bool, cooling_us: int
) -> Reason:
    cause = f"{worst.text} [{worst.signal}]"
    now = f"{cpu_text(ceiling_m)} CPU"
    match mode:
        case GuardMode.CUT if awaits_effect:
            text = f"guard waits for the effect of its cut to {now}: {cause}"
        case GuardMode.CUT:
            text = f"guard cuts best-effort work to {now}: {cause}"
        case GuardMode.DISABLED:
            text = f"guard limits best-effort work to {now} for at least {max(0, cooling_us) // 1_000_000} s: {cause}"
        case GuardMode.GROW:
            text = f"guard allows {now}: {cause}"
        case _:
            text = f"guard holds at {now}: {cause}"
    terms = [Term("ceiling before", before_m, "mCPU")]
    if ceiling_m != before_m:
        terms.append(Term("growth" if ceiling_m > before_m else "cut", ceiling_m - before_m, "mCPU"))
    return Reason("cpu-guard", text, (*terms, *worst.terms))
