"""One track of the guard: the machine of `step.py` with its memory, over the worst signal of one kind of pod.

Pods with an objective and pods without one may not cost best-effort work the same, so one ceiling cannot serve both.
Each kind has a track with its own mode, ceiling and times; the guard's ceiling is the lower one.
Limits: a track knows nothing of the other but what it is given (`lowest_m`, `grows`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from cotenant.model.machine.node_state import PPM
from cotenant.policy.nodeqos.guard import step as guard_step
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.signals import PodSignal


class GuardMode(IntEnum):
    """Modes of the guard."""

    OFF = guard_step.OFF  # no pod to protect, or switched off
    GROW = guard_step.GROW
    HOLD = guard_step.HOLD
    CUT = guard_step.CUT
    DISABLED = guard_step.DISABLED


@dataclass(frozen=True, slots=True)
class Track:
    """State of one track between calls."""

    mode: GuardMode = GuardMode.OFF
    ceiling_m: int | None = None  # None: not evaluated yet
    restless_us: int | None = None  # when trouble was last seen
    grown_us: int | None = None  # when the ceiling last grew
    cut_us: int | None = None  # when it was last cut
    missed_us: int | None = None  # since when an objective has been missed
    cool_until_us: int = 0


@dataclass(frozen=True, slots=True)
class TrackStep:
    """What a track did."""

    after: Track
    before_m: int
    ceiling_m: int
    worst: PodSignal
    awaits_effect: bool

    def raised_to(self, lowest_m: int, now_us: int) -> TrackStep:
        """The step with a ceiling of at least `lowest_m`."""
        if self.ceiling_m >= lowest_m:
            return self
        return replace(self, ceiling_m=lowest_m, after=replace(self.after, ceiling_m=lowest_m, grown_us=now_us))


def advance(
    track: Track,
    worst: PodSignal,
    now_us: int,
    used_m: int,
    capacity_m: int,
    config: GuardConfig,
    lowest_m: int = 0,
    grows: bool = True,
) -> TrackStep:
    """One step. No cut goes below `lowest_m`; with `grows` False the ceiling does not rise."""
    missed_us = _first(track.missed_us, now_us) if worst.severity == guard_step.MISSED else None
    restless_us = now_us if worst.severity > guard_step.CALM else track.restless_us
    mode = GuardMode(
        guard_step.next_mode(
            track.mode,
            worst.severity,
            since(missed_us, now_us, 0),
            config.miss_limit_us,
            since(restless_us, now_us, config.calm_us),
            config.calm_us,
            track.cool_until_us - now_us,
        )
    )
    before_m = capacity_m if track.ceiling_m is None else min(track.ceiling_m, capacity_m)
    # A signal measured before the last cut does not show its effect.
    awaits_effect = mode is GuardMode.CUT and track.cut_us is not None and now_us - worst.age_us <= track.cut_us
    is_due = mode is GuardMode.GROW and since(track.grown_us, now_us, config.grow_every_us) >= config.grow_every_us
    ceiling_m = guard_step.next_ceiling_m(
        GuardMode.HOLD if awaits_effect else mode,
        before_m,
        used_m,
        capacity_m,
        max(lowest_m, min(config.min_cpu_m, capacity_m * config.min_ppm // PPM)),
        config.disabled_cpu_m,
        config.cut_ppm,
        capacity_m * config.growth_ppm // PPM if is_due and grows else 0,
    )
    cooling = mode is GuardMode.DISABLED and (
        track.mode is not GuardMode.DISABLED or worst.severity == guard_step.MISSED
    )
    after = Track(
        mode=mode,
        ceiling_m=ceiling_m,
        restless_us=restless_us,
        grown_us=now_us if ceiling_m > before_m else track.grown_us,
        cut_us=now_us if mode in (GuardMode.CUT, GuardMode.DISABLED) and not awaits_effect else track.cut_us,
        missed_us=missed_us,
        cool_until_us=now_us + config.cool_down_us if cooling else track.cool_until_us,
    )
    return TrackStep(after, before_m, ceiling_m, worst, awaits_effect)


def since(then_us: int | None, now_us: int, unknown_us: int) -> int:
    """Elapsed time; 0 where the clock went back."""
    return unknown_us if then_us is None else max(0, now_us - then_us)


def _first(since_us: int | None, now_us: int) -> int:
    return now_us if since_us is None else min(since_us, now_us)
