"""`burst`: a service with bursts under a CPU quota that its mean use never reaches; how much of its waiting the agent
removes.

CFS bandwidth stops a service for the rest of a period as soon as one burst has used the period's quota. Requests of 30
ms of CPU at random times, a tenth of a core on average, under a limit of a quarter of a core: 25 ms in each 100 ms, so
every request is throttled once. The agent is configured to let services keep unused quota and to raise the quota while
they are throttled (CPU burst and quota burst). Figures: latency from the due time, throttled time, within a round.
Limits: without the agent's raising, a request can never be faster than its throttling.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.model.errors import Unsupported
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.pages.figures import BOUND, OURS, rival
from cotenant_lab.experiments.harness import ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.measures.statistics import IntervalEstimate, middle, quantile, ratio
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Picture
from cotenant_lab.experiments.site import agent_process
from cotenant_lab.experiments.site.site import Site, in_plant, now_us

UNLIMITED, LIMITED, REGULATED = "no limit", "limit", "limit, agent"
PERIOD_US = 100_000
_SERVICE = in_plant("service")
_COLOURS = {UNLIMITED: BOUND, LIMITED: rival(0), REGULATED: OURS}
_LEAD_US = 300_000


@dataclass(slots=True)
class BurstStudy:
    """The experiment and its load."""

    limit_m: int = 250  # milli-CPU
    work_ms: float = 30.0
    gap_ms: float = 300.0
    seconds: float = 15.0  # that count
    settle_s: float = 3.0
    name: str = "burst"
    title: str = "A bursty service under a CPU limit"
    arms: Sequence[str] = (UNLIMITED, LIMITED, REGULATED)

    @property
    def block_s(self) -> float:
        """About how long an arm takes."""
        return self.seconds + self.settle_s + 2.0

    def prepare(self, site: Site) -> None:
        """The service's group."""
        site.make_plant("service")
        if gap := site.cgroups.knobs.supported(Knob.CPU_BURST):
            raise Unsupported("the burst experiment", gap.needs)

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """One arm's latencies and throttling. The limit is the experiment's set-up, like a container's limit; only
        the agent changes it afterwards.
        """
        quota = "max" if arm == UNLIMITED else str(self.limit_m * PERIOD_US // 1000)
        site.cgroups.knobs.write(KnobTarget(site.cgroups.path(_SERVICE), Knob.CPU_MAX), f"{quota} {PERIOD_US}")
        agent = None
        if arm == REGULATED:
            limits = {"limits": {"cpu": f"{self.limit_m}m"}, "requests": {"cpu": f"{self.limit_m}m"}}
            agent = agent_process.start(
                site, services={_SERVICE: None}, batch=(), amounts={_SERVICE: limits}, settings=SETTINGS
            )
        start_us = now_us() + _LEAD_US
        seconds = self.settle_s + self.seconds
        service = site.start_python(
            _SERVICE,
            "cotenant_lab.experiments.loads.bursty_service",
            *("--start-us", str(start_us), "--seconds", str(seconds), "--seed", str(seed)),
            *("--gap-ms", str(self.gap_ms), "--work-ms", str(self.work_ms)),
            pipe=True,
        )
        site.wait_until(start_us + int(self.settle_s * 1e6))
        before = site.cgroups.counters(_SERVICE)
        output, _ = service.process.communicate(timeout=seconds + 60)
        after = site.cgroups.counters(_SERVICE)
        story = agent.record() if agent else {}
        site.stop(service)
        if agent:
            agent.stop()
        requests = [latency for due, latency in json.loads(output)["requests"] if due >= self.settle_s * 1e6]
        return {
            "latency_us": requests,
            "throttled_us": (after.throttled_us or 0) - (before.throttled_us or 0),
            "throttled_periods": (after.throttled_periods or 0) - (before.throttled_periods or 0),
            "cpu_us": (after.cpu_us or 0) - (before.cpu_us or 0),
            "agent": story,
        }

    def disturbed(self, record: Record) -> str:
        """Never disturbed by its own measure."""
        return ""

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        """Discards none."""
        return {}

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        """Quantiles by round, their ratios, the throttled time."""
        figures: dict[str, object] = {}
        rows = []
        tails = {
            arm: {
                share: [quantile(round_.record(arm)["latency_us"], share) for round_ in rounds]
                for share in (0.5, 0.9, 0.99)
            }
            for arm in self.arms
        }
        throttled = {arm: [round_.record(arm)["throttled_us"] / self.seconds for round_ in rounds] for arm in self.arms}
        for arm in self.arms:
            p50, p90, p99 = (middle(tails[arm][share]) for share in (0.5, 0.9, 0.99))
            stopped = middle(throttled[arm])
            figures[arm.replace(", ", "_").replace(" ", "_")] = {
                "p50_us": round(p50.value),
                "p90_us": round(p90.value),
                "p99_us": round(p99.value),
                "throttled_us_per_s": round(stopped.value),
            }
            used = middle([round_.record(arm)["cpu_us"] / self.seconds / 10_000 for round_ in rounds])
            ms = [f"{estimate.value / 1000:.0f}" for estimate in (p50, p90, p99, stopped)]
            rows.append((arm, *ms, f"{used.value:.0f} %"))
        if REGULATED not in self.arms:
            return ExperimentJudgement(
                figures, (), ("arm", "p50 ms", "p90 ms", "p99 ms", "throttled ms/s", "of a core"), rows
            )
        checks = [
            _check("p90 with the agent / without", ratio(tails[REGULATED][0.9], tails[LIMITED][0.9]), 0.6),
            _check("p99 with the agent / without", ratio(tails[REGULATED][0.99], tails[LIMITED][0.99]), 0.8),
            _check(
                "throttled time with the agent / without",
                ratio(
                    [max(1.0, entry) for entry in throttled[REGULATED]],
                    [max(1.0, entry) for entry in throttled[LIMITED]],
                ),
                0.5,
            ),
        ]
        notes = (
            f"Requests of {self.work_ms:g} ms of CPU, {self.gap_ms:g} ms apart on average (exponential), limit "
            f"{self.limit_m} milli-CPU in periods of "
            f"{PERIOD_US // 1000} ms; latency from the due time; medians over rounds, ratios within rounds (95 % "
            "bootstrap interval).",
        )
        columns = ("arm", "p50 ms", "p90 ms", "p99 ms", "throttled ms/s", "of a core")
        return ExperimentJudgement(figures, checks, columns, rows, notes, (self._picture(rounds),))

    def _picture(self, rounds: Sequence[ExperimentRound]) -> Picture:
        curves = []
        for arm in self.arms:
            values = sorted(value / 1000 for round_ in rounds for value in round_.record(arm)["latency_us"])
            share = [(len(values) - place) / len(values) for place in range(len(values))]
            curves.append(Curve(arm, values, share, _COLOURS[arm]))
        return Picture(
            "Share of requests slower than ...", "latency, ms", "share", (("", curves),), x_log=True, y_log=True
        )


SETTINGS: Mapping[str, object] = {"policies": {**agent_process.POLICIES, "burst": {"policy": "auto"}}}


def _check(what: str, estimate: IntervalEstimate, bound: float) -> FigureCheck:
    low, high = (None if end is None else round(end, 4) for end in (estimate.low, estimate.high))
    return FigureCheck(what, round(estimate.value, 4), bound, low=low, high=high)
