"""`guard`: a real server keeps its tail latency while batch work uses the rest of its core.

Does a service that waits in the kernel's run queue behind batch work get its latency back under the agent, and does the
batch work still progress? Redis on the plant's core under our open-loop generator on the other; stress-ng in four batch
groups of the default weight; the arms of a round have the same arrivals. Latency counts from the due time; the first
seconds of a block do not count. The latency is reported to the agent every second, as a service would, and it has the
objective; batch work starts a second after the load. In the regulated arm the same load runs for `warm_s` before: the
guard cuts when batch work starts with a burst, which no class keeps from the service, and needs some twenty undisturbed
seconds to give everything back. Figures: ratios of p99 within a round, and the batch work's progress as CPU time. A
hypervisor that takes a core away is in every arm's tail: latencies count in windows that a lateness monitor on each
core found calm (`windows.py`), and those over all windows are shown beside them.
Limits: the steady state is compared; one server, one kind of request; p99 of a block rests on its slowest hundredth, so
rounds are many; anything else that delays a real-time process is left out with the hypervisor; the arms of a round have
the same arrivals, but not the same calm windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import isnan
from statistics import median

from cotenant.model.pages.figures import BOUND, OURS, rival
from cotenant_lab.experiments.harness import ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.loads import measured_server
from cotenant_lab.experiments.loads.measured_server import GeneratorSettings
from cotenant_lab.experiments.measures.histogram import Histogram, highest_of
from cotenant_lab.experiments.measures.statistics import IntervalEstimate, middle, ratio
from cotenant_lab.experiments.measures.windows import (
    LATE_US,
    WINDOW_US,
    MeasuredWindow,
    all_of,
    calm,
    disturbed,
    disturbed_alone,
    judged_of,
    lags,
    latencies,
    p99_us,
    stored,
)
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Picture
from cotenant_lab.experiments.site import agent_process, lateness
from cotenant_lab.experiments.site.site import Site, SiteProcess, in_plant, now_us

ALONE, UNREGULATED, REGULATED = "alone", "unregulated", "regulated"
HOGS = 4
_SERVICE = in_plant("service")


@dataclass(slots=True)
class GuardStudy:
    """The experiment and its load."""

    load: GeneratorSettings = field(default_factory=GeneratorSettings)
    warm_s: float = 24.0  # of the regulated arm
    name: str = "guard"
    title: str = "Redis under load and stress-ng on one core"
    arms: Sequence[str] = (ALONE, UNREGULATED, REGULATED)

    @property
    def block_s(self) -> float:
        """About how long an arm takes."""
        return self.load.seconds + self.load.settle_s + 2.0 + self.warm_s / len(self.arms)

    def prepare(self, site: Site) -> None:
        """Start the server, which runs through all rounds; fill its list."""
        measured_server.program("stress-ng", "the guard experiment")
        site.make_plant("service", *(f"batch-{number}" for number in range(HOGS)))
        measured_server.start(site, _SERVICE, self.load)
        lateness.prepare(site)

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """One arm: its latencies, what the batch work did."""
        # First: the cost of its start is over before there is a load.
        watching = lateness.start(site)
        agent = None
        if arm == REGULATED:
            agent = agent_process.start(site, services={_SERVICE: self.load.objective_ms}, batch=_hogs())
        hogs: list[SiteProcess] = []

        def hear(live: measured_server.Live) -> None:
            if agent:
                agent.report(_SERVICE, live)
            if arm != ALONE and not hogs:
                # The service starts first: its latency is known when the batch work starts.
                hogs.extend(_stress(site, name) for name in _hogs())

        if agent:
            warm = replace(self.load, seconds=self.warm_s - self.load.settle_s)
            measured_server.measured(site, warm, seed + 1, lambda: None, hear)
        stretch = measured_server.measured(site, self.load, seed, lambda: _counters(site), hear)
        late = watching.end() if watching else None
        story = agent.record() if agent else {}
        site.stop(*hogs, kill=True)
        if agent:
            agent.stop()
        began, ended = stretch.ends
        return {
            **stored(stretch.slots, late.at if late and stretch.is_realtime else None),
            "live": stretch.live,
            **{name: ended[name] - began[name] for name in began},
            "agent": story,
        }

    def disturbed(self, record: Record) -> str:
        """Why too few windows were calm; empty where there was no lateness monitor."""
        return disturbed(record)

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        """Rounds whose p99 alone is far above the median."""
        return disturbed_alone({round_.number: p99_us(judged_of(round_.record(ALONE))) for round_ in rounds})

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        """Ratios of p99 within rounds, over calm windows and over all, the batch work's progress, and the
        generator's own lateness.
        """
        records = [entry.record(arm) for entry in rounds for arm in self.arms]
        has_witness = all(record["witness"] for record in records)
        windows = {arm: [all_of(entry.record(arm)) for entry in rounds] for arm in self.arms}
        judged = {arm: [calm(window) for window in windows[arm]] if has_witness else windows[arm] for arm in self.arms}
        tails = {arm: [p99_us(group) for group in judged[arm]] for arm in self.arms}
        all_tails = {arm: [p99_us(window) for window in windows[arm]] for arm in self.arms}
        batch = {arm: [_batch_us(entry.record(arm)) for entry in rounds] for arm in self.arms}
        pooled = {arm: latencies(chain.from_iterable(judged[arm])) for arm in self.arms}
        witness_share = median(record["witness_us"] / record["passed_us"] for record in records)
        figures: dict[str, object] = {
            "judged": "calm windows" if has_witness else "all windows",
            "witness_share_of_core": round(witness_share, 4),
        }
        rows, checks = [], []
        for arm in self.arms:
            over = pooled[arm].above(round(self.load.objective_ms * 1000))
            lag_us = lags(chain.from_iterable(windows[arm])).quantile_us(0.99)
            tail, all_tail = middle(tails[arm]).value, middle(all_tails[arm]).value
            against = ratio(tails[arm], tails[ALONE])
            share = median(
                entry["batch_us"] / entry["passed_us"] for entry in (round_.record(arm) for round_ in rounds)
            )
            calm_share = sum(map(len, judged[arm])) / max(1, sum(map(len, windows[arm]))) if has_witness else None
            figures[arm] = {
                "p50_us": pooled[arm].quantile_us(0.5),
                "p99_us": _whole(tail),
                "p999_us": pooled[arm].quantile_us(0.999),
                "requests": pooled[arm].total,
                "over_objective": over,
                "p99_to_alone": _object(against),
                "calm_share_of_windows": None if calm_share is None else round(calm_share, 4),
                "late_share_of_windows": _late(windows[arm]) if has_witness else None,
                "all_windows": {
                    "p99_us": _whole(all_tail),
                    "p99_to_alone": _object(ratio(all_tails[arm], all_tails[ALONE])),
                },
                "batch_share_of_core": round(share, 4),
                "generator_lag_p99_us": lag_us,
            }
            rows.append(
                (
                    arm,
                    _ms(pooled[arm].quantile_us(0.5)),
                    _ms(_whole(tail)),
                    _ms(pooled[arm].quantile_us(0.999)),
                    against.shown() if arm != ALONE else "1",
                    f"{100 * over / max(1, pooled[arm].total):.2f} %",
                    f"{share:.0%}" if arm != ALONE else "–",
                    _ms(lag_us),
                    "–" if calm_share is None else f"{calm_share:.0%}",
                )
            )
        checks.append(_check("p99 unregulated / alone", ratio(tails[UNREGULATED], tails[ALONE]), 3.0, True))
        if REGULATED in self.arms:
            progress = ratio(batch[REGULATED], batch[UNREGULATED])
            figures["batch_progress"] = _object(progress)
            checks.insert(0, _check("p99 regulated / alone", ratio(tails[REGULATED], tails[ALONE]), 1.3, False))
            checks.append(_check("batch work's CPU time, regulated / unregulated", progress, 0.5, True))
        columns = (
            "arm",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "p99 / alone",
            f"> {self.load.objective_ms:g} ms",
            "batch of core",
            "lag p99 ms",
            "calm",
        )
        notes = (
            f"{self.load.shown}, open loop; objective p99 {self.load.objective_ms:g} ms; {self.load.seconds:g} s a "
            f"block count. Batch work: {HOGS} groups of the default weight, one stress-ng each.",
            "Latency counts from when a request was due. p99: median over rounds; ratios: geometric mean over rounds "
            "(95 % bootstrap interval). "
            "Lag: how late the generator sent, over all windows, which is in every latency.",
            _of_windows(all_tails, has_witness, witness_share),
        )
        return ExperimentJudgement(
            figures, checks, columns, rows, notes, (self._distribution(pooled), self._by_round(tails))
        )

    def _distribution(self, pooled: Mapping[str, Histogram]) -> Picture:
        curves = []
        for arm, latency in pooled.items():
            seen, x, y = 0, [], []
            for bucket in sorted(latency.counts):
                above = (latency.total - seen) / latency.total
                x.append(highest_of(bucket) / 1000)
                y.append(above)
                seen += latency.counts[bucket]
            curves.append(Curve(arm, x, y, COLOURS[arm]))
        return Picture(
            "Share of requests slower than ...",
            "latency, ms",
            "share",
            (("all rounds and windows that count", curves),),
            True,
            True,
        )

    def _by_round(self, tails: Mapping[str, Sequence[float]]) -> Picture:
        curves = [
            Curve(arm, list(range(len(values))), [value / 1000 for value in values], COLOURS[arm], is_points=True)
            for arm, values in tails.items()
        ]
        return Picture("p99 by round", "round", "p99, ms", (("", curves),), y_log=True)


COLOURS = {ALONE: BOUND, UNREGULATED: rival(0), REGULATED: OURS}


def _hogs() -> list[str]:
    return [in_plant(f"batch-{number}") for number in range(HOGS)]


def _stress(site: Site, group: str) -> SiteProcess:
    return site.start(group, ["stress-ng", "--cpu", "1", "--cpu-method", "matrixprod", "--quiet"], group)


def _counters(site: Site) -> dict[str, int]:
    return {
        "passed_us": now_us(),
        "batch_us": sum(site.cgroups.cpu_us(name) for name in _hogs()),
        "service_us": site.cgroups.cpu_us(_SERVICE),
        "witness_us": site.cgroups.cpu_us(lateness.GROUP),
    }


def _late(blocks: Iterable[Iterable[MeasuredWindow]]) -> dict[str, float]:
    """The share of windows in which each monitor was late: on the plant's core, and on the load's."""
    windows = list(chain.from_iterable(blocks))
    most = max(1, len(windows))
    return {
        "plant": round(sum(window.is_late_on_plant for window in windows) / most, 4),
        "load": round(sum(window.is_late_on_load for window in windows) / most, 4),
    }


def _batch_us(record: Record) -> float:
    return max(1.0, float(record["batch_us"]))


def _of_windows(all_tails: Mapping[str, Sequence[float]], has_witness: bool, witness_share: float) -> str:
    """Which windows the table's latencies cover, and the latencies over all windows."""
    if not has_witness:
        return (
            "No lateness monitor, since real-time priority was refused: all windows count, and time taken by a "
            "hypervisor is in every latency."
        )
    seen = [f"{arm} {_ms(_whole(middle(tails).value))}" for arm, tails in all_tails.items()]
    against = [
        f"{arm} / alone {ratio(tails, all_tails[ALONE]).shown()}" for arm, tails in all_tails.items() if arm != ALONE
    ]
    return (
        f"Latencies are of calm windows: {WINDOW_US // 1000} ms in which, and in the one before, neither the "
        "generator nor the lateness monitor on the plant's core, "
        f"both of real-time priority, was late by more than {LATE_US // 1000} ms. p99 over all windows, ms: "
        f"{', '.join(seen)}; {', '.join(against)}. "
        f"The lateness monitor used {witness_share:.1%} of the core."
    )


def _whole(value_us: float) -> int | None:
    return None if isnan(value_us) else round(value_us)


def _ms(value_us: float | None) -> str:
    return "–" if value_us is None else f"{value_us / 1000:.2f}"


def _object(estimate: IntervalEstimate) -> dict[str, float | None]:
    return {
        "ratio": round(estimate.value, 4),
        "low": None if estimate.low is None else round(estimate.low, 4),
        "high": None if estimate.high is None else round(estimate.high, 4),
    }


def _check(what: str, estimate: IntervalEstimate, bound: float, at_least: bool) -> FigureCheck:
    low, high = (None if end is None else round(end, 4) for end in (estimate.low, estimate.high))
    return FigureCheck(what, round(estimate.value, 4), bound, at_least, low, high)
