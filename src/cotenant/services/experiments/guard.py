"""`guard`: a real server keeps its tail while batch work uses the rest of its core.

Problem: does a service that waits in the kernel's run queue behind batch work get its latency back under the agent, and does the batch work still
get on? Choice: Redis on the plant's core under our open-loop generator on the other; stress-ng in four batch groups of the usual weight;
the arms of a round see the same arrivals. Latency counts from the due time; the first seconds of a block do not count. The agent is told
the latency every second, as a service would report it, and has the objective; batch work comes a second after the load. In the regulated arm the same
load runs for `warm_s` before: the guard cuts when batch work arrives with a start-up burst, which no class keeps from the service, and takes
some twenty seconds of calm to give everything back. Figures: ratios of p99 within a round, and the batch work's progress as CPU time. Limits: what is
compared is the steady state; one server, one kind of request; p99 of a block rests on its slowest hundredth, so rounds are many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from cotenant.services.experiments import agent_process, redis_service
from cotenant.services.experiments.figures import Estimate, middle, ratio
from cotenant.services.experiments.harness import Judgement, Record, Round
from cotenant.services.experiments.histogram import Histogram, highest_of
from cotenant.services.experiments.outcome import Check, Curve, Picture
from cotenant.services.experiments.redis_service import Load
from cotenant.services.experiments.site import Child, Site, in_plant, now_us

ALONE, UNREGULATED, REGULATED = "alone", "unregulated", "regulated"
HOGS = 4
_SERVICE = in_plant("service")
_TIMES_ALONE = 3.0  # a round whose lone tail is above so many times the usual one was disturbed


@dataclass(slots=True)
class Guard:
    """The experiment and its load."""

    load: Load = field(default_factory=Load)
    warm_s: float = 24.0  # of the regulated arm
    name: str = "guard"
    title: str = "Redis under load and stress-ng on one core"
    arms: Sequence[str] = (ALONE, UNREGULATED, REGULATED)

    @property
    def block_s(self) -> float:
        """About how long an arm takes."""
        return self.load.seconds + self.load.settle_s + 1.5 + self.warm_s / len(self.arms)

    def prepare(self, site: Site) -> None:
        """Start the server, which stays; fill its list."""
        redis_service.program("stress-ng", "the guard experiment")
        site.make_plant("service", *(f"batch-{number}" for number in range(HOGS)))
        redis_service.start(site, _SERVICE, self.load)

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """One arm: its latencies, what the batch work did."""
        agent = None
        if arm == REGULATED:
            agent = agent_process.start(site, services={_SERVICE: self.load.objective_ms}, batch=_hogs())
        hogs: list[Child] = []

        def hear(live: redis_service.Live) -> None:
            if agent:
                agent.report(_SERVICE, live)
            if arm != ALONE and not hogs:
                # The service was there first: its latency is known when the batch work comes.
                hogs.extend(_stress(site, name) for name in _hogs())

        if agent:
            warm = replace(self.load, seconds=self.warm_s - self.load.settle_s)
            redis_service.measured(site, warm, seed + 1, lambda: None, hear)
        stretch = redis_service.measured(site, self.load, seed, lambda: _counters(site), hear)
        story = agent.story() if agent else {}
        site.stop(*hogs, kill=True)
        if agent:
            agent.stop()
        (began, batch, service), (ended, last_batch, last_service) = stretch.ends
        return {
            "latency": stretch.latency,
            "lag": stretch.lag,
            "live": stretch.live,
            "passed_us": ended - began,
            "batch_us": last_batch - batch,
            "service_us": last_service - service,
            "agent": story,
        }

    def discard(self, rounds: Sequence[Round]) -> Mapping[int, str]:
        """Rounds whose lone tail is far above the usual one."""
        tails = {each.number: _p99_us(each.record(ALONE)) for each in rounds}
        usual = median(tails.values()) if tails else 0.0
        return {
            number: f"alone, p99 was {tail / 1000:.2f} ms, {tail / usual:.1f} times the usual"
            for number, tail in tails.items()
            if tail > _TIMES_ALONE * usual
        }

    def judge(self, rounds: Sequence[Round]) -> Judgement:
        """Ratios of p99 within rounds, the batch work's progress, and the generator's own lateness."""
        tails = {arm: [_p99_us(each.record(arm)) for each in rounds] for arm in self.arms}
        batch = {arm: [_batch_us(each.record(arm)) for each in rounds] for arm in self.arms}
        figures: dict[str, object] = {}
        rows, checks = [], []
        for arm in self.arms:
            pooled, lag = _pooled(rounds, arm, "latency"), _pooled(rounds, arm, "lag")
            tail = middle(tails[arm])
            against = ratio(tails[arm], tails[ALONE])
            share = median(each["batch_us"] / each["passed_us"] for each in (round_.record(arm) for round_ in rounds))
            figures[arm] = {
                "p50_us": pooled.quantile_us(0.5),
                "p99_us": round(tail.value),
                "p999_us": pooled.quantile_us(0.999),
                "requests": pooled.total,
                "over_objective": pooled.above(round(self.load.objective_ms * 1000)),
                "p99_to_alone": _object(against),
                "batch_share_of_core": round(share, 4),
                "generator_lag_p99_us": lag.quantile_us(0.99),
            }
            rows.append(
                (
                    arm,
                    _ms(pooled.quantile_us(0.5)),
                    _ms(tail.value),
                    _ms(pooled.quantile_us(0.999)),
                    against.shown() if arm != ALONE else "1",
                    f"{100 * pooled.above(round(self.load.objective_ms * 1000)) / max(1, pooled.total):.2f} %",
                    f"{share:.0%}" if arm != ALONE else "–",
                    _ms(lag.quantile_us(0.99)),
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
            "over objective",
            "batch of core",
            "lag p99 ms",
        )
        notes = (
            f"Redis answers {self.load.rate:g} LPOS a second over a list of {self.load.items}, open loop; objective p99 {self.load.objective_ms:g} ms; {self.load.seconds:g} s a "
            f"block count. Batch work: {HOGS} groups of the usual weight, one stress-ng each.",
            "Latency counts from when a request was due. p99: median over rounds; ratios: geometric mean over rounds (95 % bootstrap interval). "
            "Lag: how late the generator sent, which is in every latency.",
        )
        return Judgement(figures, checks, columns, rows, notes, (self._distribution(rounds), self._by_round(tails)))

    def _distribution(self, rounds: Sequence[Round]) -> Picture:
        curves = []
        for arm in self.arms:
            pooled = _pooled(rounds, arm, "latency")
            seen, x, y = 0, [], []
            for bucket in sorted(pooled.counts):
                above = (pooled.total - seen) / pooled.total
                x.append(highest_of(bucket) / 1000)
                y.append(above)
                seen += pooled.counts[bucket]
            curves.append(Curve(arm, x, y, COLOURS[arm]))
        return Picture(
            "Share of requests slower than ...",
            "latency, ms",
            "share",
            (("all rounds that count", curves),),
            True,
            True,
        )

    def _by_round(self, tails: Mapping[str, Sequence[float]]) -> Picture:
        curves = [
            Curve(arm, list(range(len(values))), [value / 1000 for value in values], COLOURS[arm], is_points=True)
            for arm, values in tails.items()
        ]
        return Picture("p99 by round", "round", "p99, ms", (("", curves),), y_log=True)


COLOURS = {ALONE: "#22262e", UNREGULATED: "#c2703d", REGULATED: "#2f6fde"}


def _hogs() -> list[str]:
    return [in_plant(f"batch-{number}") for number in range(HOGS)]


def _stress(site: Site, group: str) -> Child:
    return site.start(group, ["stress-ng", "--cpu", "1", "--cpu-method", "matrixprod", "--quiet"], group)


def _counters(site: Site) -> list[int]:
    return [now_us(), sum(site.grounds.cpu_us(name) for name in _hogs()), site.grounds.cpu_us(_SERVICE)]


def _p99_us(record: Record) -> float:
    return float(Histogram.from_pairs(record["latency"]).quantile_us(0.99) or "nan")


def _batch_us(record: Record) -> float:
    return max(1.0, float(record["batch_us"]))


def _pooled(rounds: Sequence[Round], arm: str, what: str) -> Histogram:
    pooled = Histogram()
    for each in rounds:
        pooled.merge(Histogram.from_pairs(each.record(arm)[what]))
    return pooled


def _ms(value_us: float | None) -> str:
    return "–" if value_us is None else f"{value_us / 1000:.2f}"


def _object(estimate: Estimate) -> dict[str, float | None]:
    return {
        "ratio": round(estimate.value, 4),
        "low": None if estimate.low is None else round(estimate.low, 4),
        "high": None if estimate.high is None else round(estimate.high, 4),
    }


def _check(what: str, estimate: Estimate, bound: float, at_least: bool) -> Check:
    low, high = (None if end is None else round(end, 4) for end in (estimate.low, estimate.high))
    return Check(what, round(estimate.value, 4), bound, at_least, low, high)
