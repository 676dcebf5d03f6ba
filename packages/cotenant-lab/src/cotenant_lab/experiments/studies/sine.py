"""`sine`, the founding Test 1: a service whose demand is a sine shares one core with batch work; alone, together,
together under the agent.

Does the service get the CPU that it demands, when it demands it, while the batch work still gets the rest? A service
that demands 10-70 % of the core with a period of 20 s and drops work that has waited for 2 s, and four batch groups,
each one busy process with the default weight, like four containers: the kernel's fair share of the service is then a
fifth of the core. Delivered CPU is the group's counter, four times a second; demanded is the sine's integral over the
same instants. The figure is their correlation over one period after a second of settling, the median over rounds, and
how much of the core's idle time (that the service did not demand) the batch work used.
Limits: one core; how bad it is unregulated depends on the number of batch groups, which is therefore stated.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isnan

from cotenant.model.pages.figures import BOUND, OURS, rival
from cotenant_lab.experiments.harness import ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.loads.sine_demand import SineDemand
from cotenant_lab.experiments.measures.statistics import IntervalEstimate, correlation, middle
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Picture
from cotenant_lab.experiments.site import agent_process
from cotenant_lab.experiments.site.site import Site, in_plant, now_us

ALONE, UNREGULATED, REGULATED = "alone", "unregulated", "regulated"
HOGS = 4
PATIENCE_S = 2.0
_SAMPLE_US = 250_000
_SETTLE_US = 1_000_000
_LEAD_US = 300_000  # for the child to start
_BIN = 2  # samples a bin of the correlation: half a second
_SERVICE = in_plant("service")
_MIN_DELIVERED = 0.95  # of what was demanded, alone; a block with less was disturbed
_MIN_ALONE = 0.90  # a round in which not even the service alone follows the sine is discarded


@dataclass(slots=True)
class SineStudy:
    """The experiment; `demand` may be shortened for a quick look."""

    demand: SineDemand = field(default_factory=SineDemand)
    name: str = "sine"
    title: str = "A sine-wave service and batch work on one core"
    arms: Sequence[str] = (ALONE, UNREGULATED, REGULATED)

    @property
    def block_s(self) -> float:
        """About how long an arm takes, with starting and ending its processes."""
        return self.demand.period_s + 3.5

    def prepare(self, site: Site) -> None:
        """Create the service's group and the batch work's."""
        site.make_plant("service", *(f"batch-{number}" for number in range(HOGS)))

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """One arm over one period; `seed` is not used, the demand is the same each time."""
        agent = None
        if arm == REGULATED:
            agent = agent_process.start(site, services={_SERVICE: None}, batch=_hogs())
        start_us = now_us() + _LEAD_US
        seconds = (_SETTLE_US / 1e6) + self.demand.period_s + 0.5
        service = site.start_python(
            _SERVICE,
            "cotenant_lab.experiments.loads.sine_service",
            *("--start-us", str(start_us), "--seconds", str(seconds), "--patience", str(PATIENCE_S)),
            *("--low", str(self.demand.low), "--high", str(self.demand.high), "--period", str(self.demand.period_s)),
            pipe=True,
        )
        site.wait_until(start_us)
        hogs = (
            []
            if arm == ALONE
            else [site.start(name, [sys.executable, "-Sc", "while True: pass"], name) for name in _hogs()]
        )
        site.wait_until(start_us + _SETTLE_US)
        with site.measured(may_be_used_idle=arm == ALONE):
            samples = self._samples(site, start_us)
        agent_record = agent.record() if agent else {}
        service.process.wait(10)
        output = service.process.stdout.read() if service.process.stdout else b""
        site.stop(*hogs, kill=True)
        site.stop(service)
        if agent:
            agent.stop()
        work = json.loads(output or b"{}")
        return {"arm": arm, "samples": samples, "work": work, "agent": agent_record}

    def disturbed(self, record: Record) -> str:
        """Alone, the service leaves most of the core, which others may use; it is disturbed where it did not get
        what it demanded.
        """
        if record["arm"] != ALONE:
            return ""
        shares = self._shares(record)
        got = _mean(shares.delivered) / _mean(shares.demanded)
        return f"the service got {got:.0%} of what it demanded" if got < _MIN_DELIVERED else ""

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        """Rounds in which even the service alone did not follow its demand."""
        whys = {}
        for round_ in rounds:
            value = _correlation(self._shares(round_.record(ALONE)))
            if isnan(value) or value < _MIN_ALONE:
                whys[round_.number] = f"alone, the correlation was only {value:.2f}"
        return whys

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        """Correlations, the batch work's share of the idle time, and what the service had to drop."""
        figures: dict[str, dict[str, float | None]] = {}
        checks, rows, estimates = [], [], {}
        for arm in self.arms:
            shares = [self._shares(round_.record(arm)) for round_ in rounds]
            following = estimates[arm] = middle([_correlation(share) for share in shares])
            delivered = middle([_mean(share.delivered) / _mean(share.demanded) for share in shares])
            dropped = middle([_dropped(round_.record(arm)) for round_ in rounds])
            hog = middle([_of_idle(share) for share in shares])
            figures[arm] = {
                "correlation": round(following.value, 4),
                "low": _rounded(following.low),
                "high": _rounded(following.high),
                "delivered_of_demanded": round(delivered.value, 4),
                "dropped_of_demanded": round(dropped.value, 4),
                "hog_share_of_idle": round(hog.value, 4) if arm != ALONE else None,
            }
            rows.append(
                (
                    arm,
                    following.shown(),
                    f"{delivered.value:.0%}",
                    f"{dropped.value:.0%}",
                    f"{hog.value:.0%}" if arm != ALONE else "–",
                )
            )
        checks = [
            _check("correlation alone", estimates[ALONE], 0.95, True, ALONE),
            _check("correlation unregulated", estimates[UNREGULATED], 0.6, False, UNREGULATED),
        ]
        if REGULATED in self.arms:
            hog = middle([_of_idle(self._shares(round_.record(REGULATED))) for round_ in rounds])
            checks += [
                _check("correlation regulated", estimates[REGULATED], 0.9, True, REGULATED),
                _check("batch work's share of the idle CPU, regulated", hog, 0.7, True, REGULATED),
            ]
        columns = ("arm", "correlation", "delivered of demanded", "dropped", "batch work's share of idle")
        notes = (
            f"Service: {self.demand.low:.0%} to {self.demand.high:.0%} of the core, period {self.demand.period_s:g} "
            "s; work that waited "
            f"{PATIENCE_S:g} s is dropped. Batch work: {HOGS} groups of the usual weight, a busy process each.",
            "Correlation of delivered with demanded CPU over half-second bins of one period, median over rounds (95 % "
            "bootstrap interval). "
            "Idle: what the service did not demand.",
        )
        return ExperimentJudgement(figures, checks, columns, rows, notes, (self._picture(rounds[-1]),))

    def _samples(self, site: Site, start_us: int) -> list[list[int]]:
        """[microseconds since the start, the service's CPU time, the batch work's], after settling and until one
        period later.
        """
        samples = []
        for place in range(int(self.demand.period_s * 1e6) // _SAMPLE_US + 1):
            site.wait_until(start_us + _SETTLE_US + place * _SAMPLE_US)
            at = now_us() - start_us
            samples.append([at, site.cgroups.cpu_us(_SERVICE), sum(site.cgroups.cpu_us(name) for name in _hogs())])
        return samples

    def _shares(self, record: Record) -> _Shares:
        samples = record["samples"][::_BIN]
        shares = _Shares([], [], [], [])
        for (at, service, hogs), (next_at, next_service, next_hogs) in pairwise(samples):
            passed = next_at - at
            demanded_s = self.demand.work_s(next_at / 1e6) - self.demand.work_s(at / 1e6)
            shares.at_s.append((at + next_at) / 2e6)
            shares.demanded.append(demanded_s * 1e6 / passed)
            shares.delivered.append((next_service - service) / passed)
            shares.hogs.append((next_hogs - hogs) / passed)
        return shares

    def _picture(self, shown: ExperimentRound) -> Picture:
        panels = []
        for arm in self.arms:
            shares = self._shares(shown.record(arm))
            at = [round(x - _SETTLE_US / 1e6, 3) for x in shares.at_s]
            percent = [[round(100 * y, 2) for y in group] for group in (shares.hogs, shares.delivered, shares.demanded)]
            curves = [
                Curve("batch work", at, percent[0], rival(0), is_filled=True),
                Curve("service, delivered", at, percent[1], OURS),
                Curve("service, demanded", at, percent[2], BOUND, is_dashed=True),
            ]
            title = f"{arm}: correlation {_correlation(shares):.2f}"
            panels.append((title, curves[1:] if arm == ALONE else curves))
        return Picture("Demanded and delivered CPU, the last round", "seconds", "% of the core", panels)


@dataclass(slots=True)
class _Shares:
    """By bin: the middle in seconds since the start, and shares of the core."""

    at_s: list[float]
    demanded: list[float]
    delivered: list[float]
    hogs: list[float]


def _hogs() -> list[str]:
    return [in_plant(f"batch-{number}") for number in range(HOGS)]


def _correlation(shares: _Shares) -> float:
    return correlation(shares.demanded, shares.delivered)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _dropped(record: Record) -> float:
    work = record["work"]
    return work["dropped_s"] / work["asked_s"] if work.get("asked_s") else float("nan")


def _of_idle(shares: _Shares) -> float:
    return _mean(shares.hogs) / (1 - _mean(shares.demanded))


def _check(what: str, estimate: IntervalEstimate, bound: float, at_least: bool, arm: str) -> FigureCheck:
    low, high = _rounded(estimate.low), _rounded(estimate.high)
    return FigureCheck(what, round(estimate.value, 4), bound, at_least, low, high, arms=(arm,))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
