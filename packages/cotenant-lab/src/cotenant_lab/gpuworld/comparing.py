"""Rules of sharing compared: each is tuned on some seeds and reported on others.

Every rule has a grid of settings of its own. Chosen is the one with the most offline work among those whose requests
miss their objective no more often than the budget, in the mean over the tuning seeds; where none keeps it, the one that
misses least. Reported are the other seeds, paired: a seed gives every rule the same requests, jobs, law and objectives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

import numpy as np

from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.model.counted import counted
from cotenant.model.devices.card_need import CardNeed
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.overcommit.peak import PeakSettings
from cotenant.policy.placement.devices.strategy import DeviceStrategy
from cotenant_lab.gpuworld.beside import BesideRule
from cotenant_lab.gpuworld.config import WHOLE_MILLI, GpuWorldConfig
from cotenant_lab.gpuworld.gfs import GfsRule
from cotenant_lab.gpuworld.lending import LentRule
from cotenant_lab.gpuworld.product import CotenantRule
from cotenant_lab.gpuworld.sharing import FgdRule, PlainRule, SharingRule, usual_pods
from cotenant_lab.gpuworld.world import GpuOutcome, GpuWorld
from cotenant_lab.statistics import Interval, interval, paired_ratio

DEDICATED, SPOT, BLIND, OURS, HEADROOM = "dedicated", "spot", "mps-blind", "cotenant", "cotenant-headroom"
BESIDE = "cotenant-beside"
_ALL = {"": WHOLE_MILLI}
_SOON = "guard, cool-down of 60 s"
_GUARDS = {
    "guard": GuardConfig(),
    "guard, twice the slack": GuardConfig(cut_below_ppm=100_000, grow_from_ppm=200_000),
    _SOON: GuardConfig(cool_down_us=60_000_000),  # of 300 s, in a day that is squeezed
}

Rule = Callable[[], SharingRule]


def _plain(config: GpuWorldConfig, name: str) -> dict[str, Rule]:
    def per_card(counts: Iterable[int], alone: bool = False, **more: bool | int) -> dict[str, Rule]:
        return {
            f"{counted(count, 'job')} a card": partial(PlainRule, jobs_per_card=count, alone=alone, **more)  # type: ignore[arg-type]
            for count in counts
        }

    match name:
        case "dedicated":
            return per_card((1, 2, 3), alone=True, permanent=True)
        case "spot":
            return per_card((1, 2, 3), alone=True)
        case "spot-reserve":
            return {
                f"{counted(idle, 'card')} idle": partial(PlainRule, jobs_per_card=2, alone=True, reserve=idle)
                for idle in (1, 2, 3)
            }
        case "gfs":
            return {
                f"{rate:.0%} for {counted(hours, 'hour')}": partial(
                    GfsRule, jobs_per_card=3, rate=rate, hours=hours, day_s=config.day_s
                )
                for rate in (0.5, 0.75, 0.9)
                for hours in (1, 4)
            }
        case "mps-blind":
            return per_card((1, 2, 3))
        case "mps-fixed":
            return {
                f"{milli // 10} %": partial(PlainRule, jobs_per_card=3, fixed_milli=milli)
                for milli in (100, 200, 300, 500)
            }
        case "time-slice":
            return per_card((1, 2), sliced=True)
        case _:
            usual = usual_pods(config)
            return {
                f"{counted(count, 'job')} a card": partial(FgdRule, jobs_per_card=count, usual=usual)
                for count in (1, 2, 3)
            }


def _ours(
    config: GpuWorldConfig,
    risks: Mapping[str, float],
    guards: Mapping[str, GuardConfig] = _GUARDS,
    need: CardNeed | None = None,
    beside: Mapping[str, int] = _ALL,
) -> dict[str, Rule]:
    def rule(strategy: DeviceStrategy, guard: GuardConfig, risk: float, most: int) -> SharingRule:
        return CotenantRule(
            config.cards, config.cards_per_root, config.server_memory_pct, usual_pods(config), guard,
            PeakSettings(risk=risk or 0.5), lends_at_risk=bool(risk), strategy=strategy,
            replica_need=need, beside_milli=most,
        )  # fmt: skip

    return {
        ", ".join(filter(None, (strategy.value, text, words, part))): partial(rule, strategy, guard, risk, most)
        for strategy in (DeviceStrategy.FRAGMENTATION, DeviceStrategy.SPREAD)
        for text, guard in guards.items()
        for words, risk in risks.items()
        for part, most in beside.items()
    }


def settings_of(config: GpuWorldConfig, policy: str) -> dict[str, Rule]:
    """The grid of a policy: what a setting is called, and the rule."""
    match policy:
        case "cotenant":
            return _ours(config, {"": 0.0})
        case "cotenant-by-need":
            need = CardNeed(config.server_sm_pct, config.server_bandwidth_pct)
            return _ours(config, {"": 0.0}, need=need)
        case "cotenant-headroom":
            need = CardNeed(config.server_sm_pct, config.server_bandwidth_pct)
            parts = {f"at most {milli // 10} %": milli for milli in (300, 400, 500)}
            return _ours(config, {"": 0.0}, {_SOON: _GUARDS[_SOON]}, need, parts)
        case _ if policy == BESIDE:
            return {f"{spent} % of the budget": partial(_beside, config, spent) for spent in (80, 95)}
        case "cotenant-at-risk":
            return _ours(config, {"risk 30 %": 0.3, "risk 80 %": 0.8}, {"guard": GuardConfig()})
        case "dedicated-lent":
            return {
                f"{counted(count, 'job')} a card, risk {risk:.0%}": partial(
                    LentRule, config.peak_replicas, config.server_memory_pct,
                    GpuLendingSettings(risk=risk, headroom_percent=0, step_percent=5, starting_s=0),
                    count, config.leave_s,
                )
                for risk in (0.5, 0.9, 0.99)
                for count in (2, 3)
            }  # fmt: skip
        case _:
            return _plain(config, policy)


def _beside(config: GpuWorldConfig, spent_percent: int) -> SharingRule:
    """What agent and scheduler do; times of a day are those of one that is squeezed to two hours."""
    settings = GpuLendingSettings(
        headroom_percent=0,
        measured_every_s=20,
        beside_percent=50,
        spent_percent=spent_percent,
        spent_s=config.day_s,
        patience_s=900,
        guard=_GUARDS[_SOON],
    )
    need = CardNeed(config.server_sm_pct, config.server_bandwidth_pct)
    return BesideRule(config.cards, config.cards_per_root, config.server_memory_pct, need, settings, config.leave_s)


POLICIES: Mapping[str, str] = {
    OURS: "shares by allocation, guard on the objective",
    "cotenant-by-need": "ours, and neighbours that want the same of a card are kept apart",
    HEADROOM: "the same, and jobs beside a replica have a part of its multiprocessors at most",
    BESIDE: "what agent and scheduler do: parts of cards lent beside replicas, borrowers suspended",
    "cotenant-at-risk": "ours, and cards are lent at a stated risk only",
    DEDICATED: "cards of their own for the peak, jobs on the others",
    "dedicated-lent": "the same, and idle cards of the service are lent at a stated risk",
    SPOT: "jobs on every card without a replica, evicted for one",
    "spot-reserve": "the same, some cards stay idle",
    "gfs": "the same, within a quota by forecast, and who is evicted is chosen by cost",
    BLIND: "jobs beside replicas, without a limit",
    "mps-fixed": "jobs beside replicas, a fixed percentage of threads",
    "time-slice": "jobs beside replicas, in turns",
    "fgd": "jobs beside replicas, without a limit, placed by FGD",
}


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """One policy on the reported seeds. Figures are means with 95 % intervals."""

    policy: str
    setting: str
    outcomes: tuple[GpuOutcome, ...]
    within: int  # seeds on which the budget was kept
    missed: Interval
    first_token_p99_ms: Interval
    per_token_p99_ms: Interval
    offline_cards: Interval
    eviction_rate: Interval
    lost: Interval
    queue_s: Interval


@dataclass(frozen=True, slots=True)
class GpuComparison:
    """All of them, and ours against the goals, as paired ratios."""

    seeds: tuple[int, ...]
    tuning_seeds: tuple[int, ...]
    results: tuple[PolicyResult, ...]

    def of(self, policy: str) -> PolicyResult:
        """The result of one policy."""
        return next(result for result in self.results if result.policy == policy)

    def ratio(self, figure: str, policy: str, to: str) -> Interval:
        """One figure of a policy over that of another, seed by seed."""
        first, second = ([getattr(one, figure) for one in self.of(name).outcomes] for name in (policy, to))
        return paired_ratio(first, second)


def compare(
    config: GpuWorldConfig,
    policies: Sequence[str],
    seeds: Sequence[int],
    tuning_seeds: Sequence[int],
    jobs: int = 1,
) -> GpuComparison:
    """Tune every policy, then run the chosen settings on the reported seeds."""
    grids = [(policy, setting) for policy in policies for setting in settings_of(config, policy)]
    tuned = _run_all(config, [(*one, seed) for one in grids for seed in tuning_seeds], jobs)
    chosen = {
        policy: best(config, {one[1]: tuned[index] for index, one in enumerate(grids) if one[0] == policy})
        for policy in policies
    }
    shown = [(policy, chosen[policy]) for policy in policies]
    reported = _run_all(config, [(*one, seed) for one in shown for seed in seeds], jobs)
    results = tuple(
        result_of(config, policy, setting, outcomes)
        for (policy, setting), outcomes in zip(shown, reported, strict=True)
    )
    return GpuComparison(tuple(seeds), tuple(tuning_seeds), results)


def run_one(config: GpuWorldConfig, policy: str, setting: str, seed: int) -> GpuOutcome:
    """One day under one setting."""
    return GpuWorld(config, seed, settings_of(config, policy)[setting]).run()


def _run_all(config: GpuWorldConfig, runs: Sequence[tuple[str, str, int]], jobs: int) -> list[list[GpuOutcome]]:
    """Outcomes of consecutive runs of one setting together."""
    columns = tuple(zip(*runs, strict=True))
    if jobs > 1:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(partial(run_one, config), *columns))
    else:
        found = list(map(partial(run_one, config), *columns))
    grouped: dict[tuple[str, str], list[GpuOutcome]] = {}
    for (policy, setting, _), outcome in zip(runs, found, strict=True):
        grouped.setdefault((policy, setting), []).append(outcome)
    return list(grouped.values())


def best(config: GpuWorldConfig, tried: Mapping[str, Sequence[GpuOutcome]]) -> str:
    """The setting with the most offline work within the budget, else the one that misses least."""

    def missed(setting: str) -> float:
        return float(np.mean([one.missed for one in tried[setting]]))

    def offline(setting: str) -> float:
        return float(np.mean([one.offline_cards for one in tried[setting]]))

    kept = [setting for setting in tried if missed(setting) <= config.budget]
    return max(kept, key=offline) if kept else min(tried, key=missed)


def result_of(config: GpuWorldConfig, policy: str, setting: str, outcomes: Sequence[GpuOutcome]) -> PolicyResult:
    """Means and intervals of one setting's outcomes."""

    def mean(figure: str) -> Interval:
        return interval([getattr(one, figure) for one in outcomes])

    return PolicyResult(
        policy, setting, tuple(outcomes), sum(one.missed <= config.budget for one in outcomes), mean("missed"),
        mean("first_token_p99_ms"), mean("per_token_p99_ms"), mean("offline_cards"), mean("eviction_rate"),
        mean("lost"), mean("queue_s"),
    )  # fmt: skip
