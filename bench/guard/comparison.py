"""The comparison as an experiment of the product's harness: blocks, their figures, the verdict.

Is a service's tail under the agent that of the service alone, does best-effort work still get the CPU that is left, and
what do the published ways give in the same minutes? Every round runs every arm once in random order with one kind of
hog, so all figures are ratios within rounds; the service alone is measured twice, which shows what the machine itself
differs. p99: geometric mean of the rounds' ratios; p99.9: all rounds' requests together (`tails.py`).
Limits: one core; steady state from a second after the hogs' start; calm windows only, as `guard` has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, isnan, nan
from statistics import median

from bench.guard import hogs
from bench.guard.arms import ALONE, HOGS, OURS, SERVICE, Arm, Suppression, make_groups
from bench.guard.hogs import Kind
from bench.guard.tails import pooled_ratio
from cotenant_lab.experiments.harness import ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.loads import measured_server
from cotenant_lab.experiments.loads.measured_server import GeneratorSettings
from cotenant_lab.experiments.measures.histogram import Histogram
from cotenant_lab.experiments.measures.statistics import IntervalEstimate, bootstrap, ratio
from cotenant_lab.experiments.measures.windows import (
    all_of,
    disturbed,
    disturbed_alone,
    judged_of,
    latencies,
    p99_us,
    stored,
)
from cotenant_lab.experiments.outcome import FigureCheck
from cotenant_lab.experiments.site import agent_process, lateness
from cotenant_lab.experiments.site.site import Site, SiteProcess, in_plant, now_us

_SERVICE = in_plant(SERVICE)


@dataclass(slots=True)
class Comparison:
    """The experiment. `kinds` take turns, a round each."""

    compared: tuple[Arm, ...]
    kinds: tuple[Kind, ...]
    load: GeneratorSettings = field(
        default_factory=lambda: GeneratorSettings(rate=2400.0, items=1250, seconds=2.2, settle_s=1)
    )
    name: str = "guard-comparison"
    title: str = "The guard beside the published: a server and four hogs on one core"
    _rounds: dict[int, int] = field(default_factory=dict)  # seeds in order: a round's arms have the same

    @property
    def arms(self) -> Sequence[str]:
        """The names of the arms."""
        return [arm.name for arm in self.compared]

    @property
    def block_s(self) -> float:
        """About how long an arm takes."""
        return self.load.seconds + self.load.settle_s + 1.6

    def prepare(self, site: Site) -> None:
        """Groups and server."""
        measured_server.program("stress-ng", "the comparison of guards")
        make_groups(site, self.compared)
        measured_server.start(site, _SERVICE, self.load)
        lateness.prepare(site)

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """One arm: latencies by window, what either side used."""
        chosen = next(entry for entry in self.compared if entry.name == arm)
        kind = hogs.spread(self.kinds, self._rounds.setdefault(seed, len(self._rounds)))
        watching = lateness.start(site)
        agent = None
        if chosen.agent:
            services = {_SERVICE: self.load.objective_ms}
            common = site.cgroups.path(chosen.best_effort)
            settings = {"writable": [common], "best_effort_group": common}
            agent = agent_process.start(site, services, chosen.pods, settings)
        running: list[SiteProcess] = []

        def start_hogs() -> None:
            if chosen.hogs and not running:
                running.extend(self._hog(site, chosen, kind, number) for number in range(HOGS))

        load = self.load
        if agent:
            # An agent of a running node knows the latency of its services when best-effort work arrives.
            load = replace(load, settle_s=load.settle_s + 1)
        else:
            start_hogs()
        suppression = Suppression(site, chosen.best_effort) if chosen.suppress else None

        def hear(live: measured_server.Live) -> None:
            if agent:
                agent.report(_SERVICE, live)
                start_hogs()
            if suppression:
                suppression.look()

        stretch = measured_server.measured(site, load, seed, lambda: _counters(site, chosen), hear)
        late = watching.end() if watching else None
        story = agent.record() if agent else {}
        site.stop(*running, kill=True)
        if agent:
            agent.stop()
        began, ended = stretch.ends
        return {
            "kind": kind.name,
            **stored(stretch.slots, late.at if late and stretch.is_realtime else None),
            "live": stretch.live,
            **{name: ended[name] - began[name] for name in began},
            "agent": story,
        }

    def _hog(self, site: Site, arm: Arm, kind: Kind, number: int) -> SiteProcess:
        command = kind.command(hogs.new_folder(site.scratch / f"hog-{number}"))
        if arm.slice_us:
            return site.start_python(arm.pods[number], "bench.guard.sliced", str(arm.slice_us), *command)
        return site.start(arm.pods[number], command, f"hog-{number}")

    def disturbed(self, record: Record) -> str:
        """Why too few windows were calm."""
        return disturbed(record)

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        """Rounds whose p99 alone is far above the median."""
        return disturbed_alone({round_.number: p99_us(judged_of(round_.record(ALONE.name))) for round_ in rounds})

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        """Ratios to the service alone, over all rounds and by kind of hog, and best-effort work's part of the idle
        CPU.
        """
        figures: dict[str, object] = {"kinds": [kind.name for kind in self.kinds]}
        rows: list[tuple[str, ...]] = []
        checks: list[FigureCheck] = []
        for arm in self.compared:
            found = _figures(rounds, arm)
            figures[arm.name] = found.to_object() | {
                kind.name: _figures(some, arm).to_object()
                for kind in self.kinds
                if arm.hogs and (some := [round_ for round_ in rounds if round_.record(arm.name)["kind"] == kind.name])
            }
            rows.append(found.row(arm))
            if arm is OURS:
                checks += found.checks()
        rows += [
            _figures(some, arm).row(arm, kind.name)
            for kind in self.kinds
            for arm in self.compared
            if arm.hogs and (some := [round_ for round_ in rounds if round_.record(arm.name)["kind"] == kind.name])
        ]
        names = ", ".join(f"{arm.name}: {arm.what}" for arm in self.compared)
        notes = (
            f"{self.load.shown}, open loop; "
            f"{self.load.seconds:g} s a block count, from {self.load.settle_s} s after the hogs' "
            f"start. Objective p99 {self.load.objective_ms:g} ms. Hogs: four of one kind in a round "
            f"({', '.join(kind.name for kind in self.kinds)} in turn).",
            f"{names}.",
            "p99: median over rounds; its ratio: geometric mean over rounds; p99.9: all rounds' requests together. "
            "Intervals: 95 %, bootstrap over rounds, in pairs. Latencies are of calm "
            "windows; over all windows: "
            + ", ".join(f"{arm.name} {_ms(_tail(rounds, arm.name, everything=True))}" for arm in self.compared)
            + " ms p99. Of idle: of the CPU that the service left.",
        )
        return ExperimentJudgement(figures, checks, _COLUMNS, rows, notes)


_COLUMNS = ("arm", "hogs", "p50 ms", "p99 ms", "p99.9 ms", "p99 / alone", "p99.9 / alone", "of idle", "rounds")


@dataclass(frozen=True, slots=True)
class _Figures:
    p50_us: int | None
    p99_us: float
    p999_us: int | None
    p99_to_alone: IntervalEstimate
    p999_to_alone: IntervalEstimate
    of_idle: IntervalEstimate
    rounds: int

    def row(self, arm: Arm, kind: str = "all") -> tuple[str, ...]:
        is_base = arm is ALONE
        return (
            arm.name,
            kind if arm.hogs else "–",
            _ms(self.p50_us),
            _ms(self.p99_us),
            _ms(self.p999_us),
            "1" if is_base else self.p99_to_alone.shown(),
            "1" if is_base else self.p999_to_alone.shown(),
            self.of_idle.shown() if arm.hogs else "–",
            str(self.rounds),
        )

    def checks(self) -> list[FigureCheck]:
        tail, far, idle = self.p99_to_alone, self.p999_to_alone, self.of_idle
        return [
            _check("p99 cotenant / alone", tail, 1.04),
            FigureCheck("its interval's upper end", None if tail.high is None else round(tail.high, 4), 1.08),
            _check("p99.9 cotenant / alone", far, 1.1),
            _check("best-effort work's part of the idle CPU", idle, 0.75, at_least=True),
        ]

    def to_object(self) -> dict[str, object]:
        return {
            "p50_us": self.p50_us,
            "p99_us": None if isnan(self.p99_us) else round(self.p99_us),
            "p999_us": self.p999_us,
            "p99_to_alone": _object(self.p99_to_alone),
            "p999_to_alone": _object(self.p999_to_alone),
            "best_effort_of_idle": _object(self.of_idle),
            "rounds": self.rounds,
        }


def _figures(rounds: Sequence[ExperimentRound], arm: Arm) -> _Figures:
    own = [latencies(judged_of(round_.record(arm.name))) for round_ in rounds]
    alone = [latencies(judged_of(round_.record(ALONE.name))) for round_ in rounds]
    pooled = Histogram()
    for histogram in own:
        pooled.merge(histogram)
    pairs = [(a, b) for a, b in zip(map(_p99, own), map(_p99, alone), strict=True) if a and b]
    shares = [_of_idle(round_.record(arm.name)) for round_ in rounds]
    return _Figures(
        pooled.quantile_us(0.5),
        _tail(rounds, arm.name),
        pooled.quantile_us(0.999),
        ratio([a for a, _ in pairs], [b for _, b in pairs]) if pairs else IntervalEstimate(nan, None, None),
        pooled_ratio(own, alone, 0.999),
        bootstrap(shares, lambda values: fsum(values) / len(values), 1),
        len(rounds),
    )


def _p99(histogram: Histogram) -> float:
    return float(histogram.quantile_us(0.99) or 0)


def _tail(rounds: Sequence[ExperimentRound], arm: str, everything: bool = False) -> float:
    """The median over rounds of p99, in calm windows or in all."""
    windows = all_of if everything else judged_of
    known = [tail for round_ in rounds if not isnan(tail := p99_us(windows(round_.record(arm))))]
    return median(known) if known else nan


def _of_idle(record: Record) -> float:
    """Best-effort work's CPU time over what the service, and the experiment's own monitor, left."""
    idle_us = record["passed_us"] - record["service_us"] - record["monitor_us"]
    return float(record["batch_us"] / max(1, idle_us))


def _counters(site: Site, arm: Arm) -> dict[str, int]:
    return {
        "passed_us": now_us(),
        "batch_us": site.cgroups.cpu_us(arm.best_effort) if arm.hogs else 0,
        "service_us": site.cgroups.cpu_us(_SERVICE),
        "monitor_us": site.cgroups.cpu_us(lateness.GROUP),
    }


def _check(what: str, estimate: IntervalEstimate, bound: float, at_least: bool = False) -> FigureCheck:
    low, high = (None if end is None else round(end, 4) for end in (estimate.low, estimate.high))
    return FigureCheck(what, round(estimate.value, 4), bound, at_least, low, high)


def _object(estimate: IntervalEstimate) -> dict[str, float | None]:
    ends = {"low": estimate.low, "high": estimate.high}
    return {"value": round(estimate.value, 4)} | {
        name: None if end is None else round(end, 4) for name, end in ends.items()
    }


def _ms(value_us: float | None) -> str:
    return "–" if value_us is None or isnan(value_us) else f"{value_us / 1000:.2f}"
