"""`step`: the delay from the start of batch work to the agent's first knob: by a tick a second alone, with looks at
batch work's use between ticks, by the kernel's pressure trigger, and by the eBPF probe's late wake-ups.

A guard that reacts late lets a latency spike through each time a batch job starts. A service that uses a third of the
core, four batch groups that are empty; at an instant unknown to the agent they begin to burn. This process reads the
batch groups' knobs every few milliseconds, independently of the agent's own reports, until one changes.
Limits: known to about 5 ms; the instant is that of the first process's start.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import sleep

from cotenant.model.errors import CotenantError
from cotenant.model.machine.knob import UNLIMITED, Knob, KnobTarget
from cotenant.model.pages.figures import OURS, rival
from cotenant_lab.experiments.harness import ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.measures.statistics import bootstrap, quantile
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Picture
from cotenant_lab.experiments.site import agent_process
from cotenant_lab.experiments.site.site import Site, in_plant, now_us

POLLING, LOOKING, TRIGGERED, RUNG = "polling", "looks", "pressure trigger", "late wake-up"
SHORT_MS, LONG_MS = 500, 2000  # of a trigger's window
HOGS = 4
_SERVICE = in_plant("service")
_KNOBS = (Knob.CPU_MAX, Knob.CPU_IDLE, Knob.CPU_WEIGHT, Knob.CPUSET_CPUS)
_LOOK_S = 0.003
_LINES = {POLLING: 2.0, LOOKING: 1.0, TRIGGERED: 0.5, RUNG: 0.5}  # seconds
_COLOURS = {POLLING: rival(0), LOOKING: rival(3), TRIGGERED: rival(5), RUNG: OURS}
_HELD_TO = {LOOKING: (1.0, "longest"), RUNG: (0.5, "median")}  # quantile of the reactions that its line is for
_AFTER_S = 2.0  # how long the load continues


@dataclass(slots=True)
class StepResponse:
    """The experiment."""

    settle_s: float = 4.0
    timeout_s: float = 6.0
    name: str = "step"
    title: str = "From the first batch process to the first knob"
    arms: Sequence[str] = (POLLING, LOOKING, TRIGGERED, RUNG)

    @property
    def block_s(self) -> float:
        """About how long an arm takes."""
        return self.settle_s + 6.0

    def prepare(self, site: Site) -> None:
        """Create the service's group and the batch work's."""
        site.make_plant("service", *(f"batch-{number}" for number in range(HOGS)))

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """One step; the phase against the agent's period is drawn."""
        agent = agent_process.start(site, services={_SERVICE: None}, batch=_hogs(), settings=_settings(arm))
        start_us = now_us() + 300_000
        seconds = self.settle_s + 1 + self.timeout_s + _AFTER_S
        service = site.start_python(
            _SERVICE,
            "cotenant_lab.experiments.loads.sine_service",
            *("--start-us", str(start_us), "--seconds", str(seconds), "--patience", "2"),
            *("--low", "0.30", "--high", "0.35", "--period", "20"),
            pipe=True,
        )
        site.wait_until(start_us + int((self.settle_s + random.Random(seed).random()) * 1e6))
        before = _knob_values(site)
        stepped_us = now_us()
        hogs = [site.start(name, [sys.executable, "-Sc", "while True: pass"], name) for name in _hogs()]
        changed, reaction_us = "", None
        while now_us() - stepped_us < self.timeout_s * 1e6:
            standing = _knob_values(site)
            if standing != before:
                reaction_us = now_us() - stepped_us
                changed = ", ".join(
                    f"{target}={standing[target]}" for target in standing if standing[target] != before.get(target)
                )
                break
            sleep(_LOOK_S)
        story = agent.record()
        site.stop(*hogs, service, kill=True)
        agent.stop()
        turned = any(value.split()[0] != UNLIMITED for target, value in before.items() if target.knob is Knob.CPU_MAX)
        return {"turned_before": turned, "reaction_us": reaction_us, "changed": changed, "agent": story}

    def disturbed(self, record: Record) -> str:
        """Never disturbed by its own measure."""
        return ""

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        """Rounds in which other work made the service wait, so that the agent had written the knobs before the step."""
        why = "the agent had to act before the step, because of others"
        return {
            round_.number: why
            for round_ in rounds
            if any(block.record["turned_before"] for block in round_.blocks.values())
        }

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        """The distribution of the reactions; one that did not come counts as the time limit."""
        figures: dict[str, object] = {}
        rows, checks, curves = [], [], []
        rung: list[float] = []
        for arm in self.arms:
            reactions = [round_.record(arm)["reaction_us"] for round_ in rounds]
            seconds = [self.timeout_s if value is None else value / 1e6 for value in reactions]
            missed = sum(value is None for value in reactions)
            worst = max(seconds)
            rung = seconds if arm == RUNG else rung
            middle = bootstrap(seconds, lambda values: quantile(values, 0.5), 1)
            figures[arm.replace(" ", "_")] = {
                "median_s": round(middle.value, 4),
                "p90_s": round(quantile(seconds, 0.9), 4),
                "worst_s": round(worst, 4),
                "without_reaction": missed,
            }
            rows.append((arm, f"{middle.value:.3f}", f"{quantile(seconds, 0.9):.3f}", f"{worst:.3f}", str(missed)))
            if arm != TRIGGERED or _window_ms() == SHORT_MS:
                share, what = _HELD_TO.get(arm, (0.9, "90th percentile"))
                checks.append(
                    FigureCheck(f"{what} by {arm}", round(quantile(seconds, share), 4), _LINES[arm], unit=" s")
                )
            curves.append(Curve(arm, list(range(len(seconds))), seconds, _COLOURS[arm], is_points=True))
        notes = [
            f"{HOGS} batch processes appear beside a service that wants a third of the core; read from the knobs "
            "themselves, every "
            f"{_LOOK_S * 1000:g} ms. A reaction that did not come in {self.timeout_s:g} s counts as that. The idle "
            "class is off.",
        ]
        notes.append(
            "The probe rings when a wake-up of the service was late, which need not happen at once: held to its line "
            "is its median, and what it did not "
            f"ring for was left to the polling in {sum(value > _LINES[RUNG] for value in rung)} of {len(rung)} rounds."
        )
        if TRIGGERED in self.arms and _window_ms() != SHORT_MS:
            notes.append(
                f"The trigger is not held to its line of {_LINES[TRIGGERED]:g} s: this kernel takes only windows of a "
                "multiple of 2 s from a process without "
                "CAP_SYS_RESOURCE, and looks at them every 2 s."
            )
        columns = ("arm", "median s", "p90 s", "worst s", "no reaction")
        picture = Picture("Reaction by round", "round", "seconds", (("", curves),), y_log=True)
        return ExperimentJudgement(figures, checks, columns, rows, notes, (picture,))


def _settings(arm: str) -> dict[str, object]:
    """The agent's settings: the idle class, which protects from the beginning, is off, since otherwise there would
    be nothing to react to.
    """
    policies = {"best_effort_cpu": {"idle": False, "suppress": {"enabled": False}}}
    triggers: dict[str, object] = {"enabled": arm == TRIGGERED}
    if arm == TRIGGERED:
        triggers |= {"stall_ms": 50 if _window_ms() == SHORT_MS else 150, "window_ms": _window_ms()}
    return {
        "policies": policies,
        "pressure": triggers,
        "probe": {"enabled": arm == RUNG},
        "bursts": {"enabled": arm == LOOKING},
    }


def _window_ms() -> int:
    """The shortest window that this kernel grants this process: without CAP_SYS_RESOURCE it has to be a multiple of
    2 s.
    """
    try:
        fd = os.open("/proc/pressure/cpu", os.O_RDWR | os.O_NONBLOCK)
        try:
            os.write(fd, f"some 50000 {SHORT_MS * 1000}".encode())
        finally:
            os.close(fd)
    except OSError:
        return LONG_MS
    return SHORT_MS


def _hogs() -> list[str]:
    return [in_plant(f"batch-{number}") for number in range(HOGS)]


def _knob_values(site: Site) -> dict[KnobTarget, str]:
    values = {}
    for name in _hogs():
        for knob in _KNOBS:
            target = KnobTarget(site.cgroups.path(name), knob)
            try:
                values[target] = site.cgroups.knobs.read(target)
            except CotenantError:
                continue  # not supported on this machine
    return values
