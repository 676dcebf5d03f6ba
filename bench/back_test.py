"""How good predictions of lendable CPU a day ahead are, on real machines that no setting was chosen on, beside the
rules that people use.

Three sets. `alibaba2018`: ten machines of the 2018 trace, eight days, means of 300 s; settings are chosen on the
machines whose name hashes to an even number, figures are of the others. `google2019`: the mean of one cell, 20 days,
which is smoother than any machine; settings are chosen on its first half, figures are of days in the second.
`azure-vm`: virtual machines' cores and lifetimes, of which no use is known, placed on the emptiest of five hosts of 64
cores, in spans of twelve days, of which every second one is reported: what is predicted is *allocation*, and arrivals
are those of the sampler, which have no time of day. None of the three knows requests: in their place stands the highest
use up to then. Every rule has one or two settings chosen by the least pinball loss on its
own half, so all have the same chance; each also stands with its published setting. How far trials of a reserve widen it
(`doubt_days`, `max_tries`) was chosen with both halves in view.

`risk_pct`, `pinball_pct`, `lent_pct`, `squeezed_pct` and `error_pct` are defined in
`cotenant.policy.assess.back_test`, at a stated risk of 1 % and a horizon of 24 h; `low` and `high` are 95 % of the
realised risk by the spread of its days. Passed: error at most 5 %, realised risk from 0.5 to 1.5 %. `free_pct` (ours
only): how far the free CPU of all machines that the course without reserve predicts is from what was free over the 24
hours, percent, mean of the absolute value over origins. The `bound` rows know what no rule can (`Hindsight`): an error
above 5 % there says that a machine's days are too unlike for any reserve of one size. `Sizes` says the same of one
amount for a day, as a workload's size (`cotenant.policy.assess.sizes`), decided every twelve hours, with the rivals'
settings chosen by that. `HeldMaximum`: one amount for 24 h of all machines, as `cotenant assess` states it, decided
every twelve hours, with its error, and how often its range (`cotenant.policy.assess.lent_range`) had what would have
met the risk exactly; `not stated`: where the range says too little. The second table is of consolidation
(`bench.back_test_emptying`).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bench.back_test_emptying import CELL_NODES, CELL_PODS, MACHINE_PODS, VM_HOSTS, alike, emptying_rows, machines
from bench.lending import TRACES, is_reported
from bench.lending import machines as machines_of_lending
from bench.machine import show
from cotenant.model.arrays import Float, Int
from cotenant.model.assess.history import Float32
from cotenant.policy.assess.back_test import BackTest, back_test, origins_of, outcome, score, verdict_of
from cotenant.policy.assess.day_profile import DayProfile, DayProfileSettings
from cotenant.policy.assess.lent_range import COVERAGE_PERCENT, lent_range
from cotenant.policy.assess.predictor import OneByOne, Past, Predictor, flat
from cotenant.policy.assess.recorded_pods import RecordedPods
from cotenant.policy.assess.rivals import BorgPeak, LastDayPeak, NSigma, VpaHistogram
from cotenant.policy.assess.rows import quantiles
from cotenant.policy.assess.size_blend import SizeBlend
from cotenant.policy.assess.sizes import size_test
from cotenant_lab.traces.folder import table_file
from cotenant_lab.traces.read import read_table

STEP_S = 300.0
DAY = 288
CAPACITY_M = 1_000.0
SETS = ("alibaba2018", "google2019", "azure-vm")
HOSTS, CORES, SPAN_DAYS = 5, 64, 12


class Halves(NamedTuple):
    """What settings are chosen on, and what is reported, with the share of it that only serves as history."""

    tuned: Past
    reported: Past
    first_share: float
    note: str


def ours() -> Iterator[Predictor]:
    """Our settings to choose from."""
    for recent in (0.5, 0.75, 1.0):
        for season in (0.6, 0.8, 1.0):
            yield DayProfile(DayProfileSettings(season=season, recent=recent), f"day profile {season:g}, {recent:g}")


@dataclass(frozen=True, slots=True)
class Hindsight:
    """No rule: our courses with one reserve a machine for all origins, by the errors that are still to come; with
    `level`, the mean of the coming day is known too. What it misses, no rule with one reserve a machine can know.
    """

    level: bool
    name: str = "in hindsight"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """Not without a future."""
        raise NotImplementedError

    def below_each(self, past: Past, origins: Sequence[int], horizon: int, risk: float) -> Iterator[Float32]:
        """See `Predictor`; looks beyond the origins."""
        courses = [DayProfile().course(past.until(origin), horizon) for origin in origins]
        for i, origin in enumerate(origins):
            if self.level:
                with warnings.catch_warnings(category=RuntimeWarning, action="ignore"):  # of no value is no value
                    mean = np.nanmean(past.use[:, origin : origin + horizon] - courses[i], axis=1, keepdims=True)
                courses[i] += mean
        misses = [past.use[:, at : at + horizon] - course for at, course in zip(origins, courses, strict=True)]
        reserve = quantiles(np.concatenate(misses, axis=1), 1.0 - risk)
        for course in courses:
            yield course + reserve[:, None].astype(np.float32)


BOUNDS = {
    "bound: reserve in hindsight": Hindsight(level=False),
    "bound: and the day's mean": Hindsight(level=True),
}


@dataclass(frozen=True, slots=True)
class HighestSoFar(OneByOne):
    """In the place of requests: a share of the highest use ever seen."""

    share: float = 1.0
    name: str = "highest so far"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        """See `Predictor`."""
        return flat(self.share * quantiles(past.use, 1.0), horizon)


RULES: dict[str, Sequence[Predictor]] = {
    "highest so far": [HighestSoFar(share) for share in (0.7, 0.8, 0.9, 0.95, 1.0)],
    "last-day peak": [LastDayPeak(factor) for factor in (0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1)],
    "N-sigma": [
        NSigma(sigmas, window) for sigmas in (2.0, 2.5, 3.0, 3.5, 4.0, 5.0) for window in (86_400.0, 3 * 86_400.0)
    ],
    "Borg's peak predictor": [
        BorgPeak(sigmas, share) for sigmas in (0.0, 2.0, 2.5, 3.0, 3.5, 5.0) for share in (0.95, 0.99, 1.0)
    ],
    "VPA's histogram": [
        VpaHistogram(share, margin) for share in (0.90, 0.95, 0.98, 0.99, 1.0) for margin in (0.0, 0.05, 0.15)
    ],
}  # fmt: skip


def past(shares: Float) -> Past:
    """Machines whose use is given in shares."""
    use = (shares * CAPACITY_M).astype(np.float32)
    return Past(use, STEP_S, np.full(len(use), np.nan), np.full(len(use), CAPACITY_M))


def alibaba2018() -> Halves:
    """Machines, of which only the total is known."""
    rows: dict[bool, list[Float]] = {True: [], False: []}
    for machine in machines_of_lending("machines"):
        bucket = (machine.times // STEP_S).astype(np.int64)
        total = np.bincount(bucket, machine.use[0], 8 * DAY)[: 8 * DAY]
        count = np.bincount(bucket, minlength=8 * DAY)[: 8 * DAY]
        rows[is_reported(machine.name)].append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
    note = f"{len(rows[False])} machines tuned, {len(rows[True])} reported"
    return Halves(past(np.array(rows[False])), past(np.array(rows[True])), 1 / 3, note)


def google2019() -> Halves:
    """One cell."""
    path = table_file(TRACES / "google2019-usage", "instance_usage_300s_days1-20")
    if path is None:
        raise SystemExit("no table of google2019-usage in COTENANT_TRACES")
    share = read_table("google2019", "usage", path)[0]["avg_cpu"].to_numpy()[None, :]
    return Halves(past(share[:, : 10 * DAY]), past(share), 0.5, "one cell, days 1-10 tuned, 11-20 reported")


def azure_machines() -> tuple[Float, Float, Float]:
    """When each virtual machine came and left, in hours, and its cores."""
    path = table_file(TRACES / "azure-vm", "azure_vms")
    if path is None:
        raise SystemExit("no table of azure-vm in COTENANT_TRACES")
    table = read_table("azure-vm", "vms", path)[0]
    arrivals, lasts = table["arrival_hours"].to_numpy(), table["duration_hours"].to_numpy()
    return arrivals, arrivals + lasts, table["cpus"].to_numpy()


def azure_hosts() -> tuple[Float, int, int]:
    """The share of each host's cores that is allocated in each step; VMs that fitted nowhere; VMs."""
    arrivals, departures, cpus = azure_machines()
    return *_allocated(arrivals, departures, cpus), len(cpus)


def azure_vm() -> Halves:
    """Hosts with the cores that are allocated on them."""
    allocated, refused, machines = azure_hosts()
    spans = allocated.shape[1] // (SPAN_DAYS * DAY)
    cut = allocated[:, : spans * SPAN_DAYS * DAY].reshape(HOSTS, spans, SPAN_DAYS * DAY)
    halves = [cut[:, half::2].reshape(-1, SPAN_DAYS * DAY) for half in (0, 1)]
    note = f"{len(halves[0])} host spans tuned, {len(halves[1])} reported; {refused} of {machines} VMs fitted nowhere"
    return Halves(past(halves[0]), past(halves[1]), 1 / 3, note)


def placed(arrival_h: Float, departure_h: Float, cpus: Float, hosts: int) -> Int:
    """The host of each machine, the emptiest when it came; -1 = none had room."""
    free = [float(CORES)] * hosts
    leaving: list[tuple[float, int, float]] = []
    on = np.full(len(cpus), -1)
    for at, (hour, until, cores) in enumerate(
        zip(arrival_h.tolist(), departure_h.tolist(), cpus.tolist(), strict=True)
    ):
        gone = [entry for entry in leaving if entry[0] <= hour]
        leaving = [entry for entry in leaving if entry[0] > hour]
        for _, host, held in gone:
            free[host] += held
        host = max(range(hosts), key=free.__getitem__)
        if free[host] < cores:
            continue
        free[host] -= cores
        leaving.append((until, host, cores))
        on[at] = host
    return on


def _allocated(arrival_h: Float, departure_h: Float, cpus: Float) -> tuple[Float, int]:
    """Mean share of each host's cores that is allocated in each step, and how many found no host."""
    steps = int(arrival_h.max() * 3600 / STEP_S)
    change = np.zeros((HOSTS, steps + 1))
    on = placed(arrival_h, departure_h, cpus, HOSTS)
    kept = on >= 0
    for hours, sign in ((arrival_h, 1.0), (departure_h, -1.0)):
        column = np.minimum(np.round(hours[kept] * 3600 / STEP_S).astype(np.int64), steps)
        np.add.at(change, (on[kept], column), sign * cpus[kept])
    return np.cumsum(change, axis=1)[:, :steps] / CORES, int((~kept).sum())


def azure_parts(half: int = 1) -> list[RecordedPods]:
    """The reported spans with the machines themselves, on hosts that are half full; with `half` 0 the others."""
    arrivals, departures, cpus = azure_machines()
    on = placed(arrivals, departures, cpus, VM_HOSTS)
    width = SPAN_DAYS * DAY
    spans = int(arrivals.max() * 3600 / STEP_S) // width
    return [
        machines(
            on, arrivals * 3600, departures * 3600, cpus * 1000.0, VM_HOSTS,
            range(span * width, (span + 1) * width), STEP_S, CORES * 1000.0,
        )
        for span in range(half, spans, 2)
    ]  # fmt: skip


def parts_of(name: str, reported: Past) -> list[RecordedPods]:
    """A set's reported half as nodes with pods."""
    if name == "azure-vm":
        return azure_parts()
    nodes, pods = (CELL_NODES, CELL_PODS) if name == "google2019" else (1, MACHINE_PODS)
    return [alike(reported, nodes, pods)]


def chosen(tuned: Past, settings: Sequence[Predictor]) -> Predictor:
    """The setting with the least pinball loss."""
    found = back_test(tuned, 0.0, ours=settings[0], rivals=settings[1:])
    losses = [score.pinball_pct for score in found.scores]
    return settings[losses.index(min(losses))]


def size_rivals(tuned: Past) -> list[Predictor]:
    """Each rule as published, and with the setting whose sizes have the least loss on the half for that."""
    origins = origins_of(tuned, DAY, 43_200.0)
    found: list[Predictor] = [HighestSoFar(), LastDayPeak(), NSigma(), BorgPeak(), VpaHistogram()]
    for settings in RULES.values():
        tried = size_test(tuned, ours=settings[0], rivals=settings[1:], origins=origins)
        losses = [score.pinball_pct for score in tried.scores]
        found.append(settings[losses.index(min(losses))])
    return found


def rows_of(name: str, halves: Halves) -> tuple[list[dict[str, Any]], str]:
    """A row a rule: ours as it is shipped, ours and rivals tuned, rivals as published."""
    shipped: list[tuple[str, Predictor]] = [("day profile (ours), as shipped", DayProfile())]
    shipped.append(("day profile (ours), tuned", chosen(halves.tuned, list(ours()))))
    for text, settings in RULES.items():
        shipped.append((f"{text}, tuned", chosen(halves.tuned, settings)))
    published: list[Predictor] = [HighestSoFar(), LastDayPeak(), NSigma(), BorgPeak(), VpaHistogram()]
    shipped += [(f"{known.name}, as published", known) for known in published]
    free = _free_error(halves, 24 * 12)
    found: BackTest = back_test(
        halves.reported,
        0.0,
        ours=shipped[0][1],
        rivals=[rule for _, rule in shipped[1:]],
        first_share=halves.first_share,
    )
    bounds = back_test(
        halves.reported,
        0.0,
        ours=Hindsight(level=False),
        rivals=tuple(BOUNDS.values())[1:],
        first_share=halves.first_share,
    )
    rows = []
    labelled = (*shipped, *BOUNDS.items())
    for (label, rule), one in zip(labelled, (*found.scores, *bounds.scores), strict=True):
        passed = one.error_pct <= 5.0 and 0.5 <= one.risk_pct <= 1.5
        rows.append(
            {
                "set": name,
                "rule": label,
                "setting": _setting(rule),
                "risk_pct": round(one.risk_pct, 2),
                "low": round(one.risk_low_pct, 2),
                "high": round(one.risk_high_pct, 2),
                "pinball_pct": round(one.pinball_pct, 4),
                "lent_pct": round(one.lent_pct, 1),
                "squeezed_pct": round(one.squeezed_pct, 2),
                "error_pct": round(one.error_pct, 1),
                "free_pct": round(free, 1) if rule is shipped[0][1] else "",
                "passed": "yes" if passed else "no",
            }
        )
    said = verdict_of(found.stated_risk, (found.scores[0], *found.scores[2:]))
    origins = origins_of(halves.reported, DAY, 43_200.0, halves.first_share)
    tried = size_test(halves.reported, rivals=size_rivals(halves.tuned), origins=origins).verdict
    note = f"{name}: {halves.note}; {len(found.scores[0].outcomes)} origins. {said}"
    return rows, f"{note}\nSizes: {tried}\nHeld: {held_amounts(halves.reported, origins)}"


def held_amounts(reported: Past, origins: Sequence[int], risk: float = 0.01) -> str:
    """How good one amount for the day and its range are, as a sentence."""
    said = SizeBlend().below_each(reported, origins, DAY, risk)
    found = [outcome(reported, amounts, origin, 0.0, risk) for origin, amounts in zip(origins, said, strict=True)]
    of = score("held", found)
    tried = inside = stated = 0
    for at, now in enumerate(found):
        passed = [one for one in found[:at] if one.at_s + one.horizon_s <= now.at_s]
        reach = lent_range(passed, now.lent, now.capacity)
        if reach is not None:
            tried += 1
            inside += reach.low <= now.in_hindsight <= reach.high
            stated += reach.is_carried(now.lent)
    return (
        f"risk {of.risk_pct:.2f} %, lent {of.lent_pct:.1f} % of the capacity, error {of.error_pct:.1f} %; of {tried} "
        f"ranges of {COVERAGE_PERCENT} % {inside} had what would have met the risk; {tried - stated} not stated."
    )


def _free_error(halves: Halves, horizon: int) -> float:
    errors = []
    for origin in origins_of(halves.reported, horizon, first_share=halves.first_share):
        real = halves.reported.use[:, origin : origin + horizon]
        course = DayProfile().course(halves.reported.until(origin), horizon)
        known = ~np.isnan(real) & ~np.isnan(course)
        free = float((CAPACITY_M - real[known]).sum())
        errors.append(abs(float((CAPACITY_M - course[known]).sum()) - free) / free)
    return 100 * float(np.mean(errors))


def _setting(rule: Predictor) -> str:
    if isinstance(rule, Hindsight):
        return "one a machine"
    if isinstance(rule, DayProfile):
        return f"season {rule.settings.season:g}, recent {rule.settings.recent:g}"
    if isinstance(rule, HighestSoFar):
        return f"share {rule.share:g}"
    if isinstance(rule, LastDayPeak):
        return f"x {rule.factor:g}"
    if isinstance(rule, NSigma):
        return f"{rule.sigmas:g} sigma of {rule.window_s / 86_400:g} d"
    if isinstance(rule, BorgPeak):
        return f"{rule.sigmas:g} sigma, p{100 * rule.share:g}"
    assert isinstance(rule, VpaHistogram)
    return f"p{100 * rule.share:g} + {100 * rule.margin:g} %"


LOADERS: dict[str, Callable[[], Halves]] = {"alibaba2018": alibaba2018, "google2019": google2019, "azure-vm": azure_vm}


def main(arguments: Sequence[str] | None = None) -> int:
    """A row a rule, and a sentence a set."""
    parser = argparse.ArgumentParser(prog="python -m bench.back_test", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--set", choices=SETS, action="append", dest="sets")
    parser.add_argument("--of", choices=("use", "emptying", "all"), default="all")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    for name in asked.sets or SETS:
        halves = LOADERS[name]()
        if asked.of in ("use", "all"):
            rows, said = rows_of(name, halves)
            show(rows, asked.json)
            if not asked.json:
                print(said)
        if asked.of in ("emptying", "all"):
            tuned = size_rivals(halves.tuned)[len(RULES) :]
            show(emptying_rows(name, parts_of(name, halves.reported), tuned, _setting), asked.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
