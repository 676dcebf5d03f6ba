"""What the figures say, in sentences made by rules from the numbers.

Problem: a reader sees a table and takes every best value for a merit. Choice: rules that say what tells policies apart, what does
not and why, where ours leads, ties and loses, and how far chance could have made it. A rule says nothing where its figures are
not there. Limits: the rules know the lab's metrics, not the workload's story; the scenario's notes tell that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Literal

from cotenant.lab.comparison import Comparison, Paired, Row
from cotenant.lab.metrics import SUSTAINED_LOAD, Metric

Kind = Literal["lead", "loss", "caution", "fact"]

# The founding targets: field, whether it must lie above or below, the value.
FOUNDING_TARGETS = (
    ("success", "above", 0.99),
    ("violation", "below", 0.03),
    ("task_fairness", "above", 0.95),
    ("dominant_fairness", "above", 0.12),
    ("fragmentation", "below", 0.01),
)
_SAME_INDEX = 0.005  # a Jain index that differs by less is the same for a reader


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the figures say. `kind` colours it: ours leads, ours loses or ties, beware, plain fact."""

    kind: Kind
    text: str


def findings(comparison: Comparison) -> tuple[Finding, ...]:
    """Every rule's sentences, in the order to read them."""
    found: list[Finding] = []
    for rule in _RULES:
        found += rule(comparison)
    return tuple(found)


def _leading_figure(c: Comparison) -> list[Finding]:
    """Rivals first; then their variants, which know more or fit otherwise, so that no tie with one is hidden."""
    metric = c.metrics[c.leading]
    if not metric.ranks:
        return []
    pairs = [p for p in c.paired if p.metric == metric.name and p.load == c.focus]
    head = f"On {_lower(metric.title)} at {_percent(c.focus)} load, paired by seed, {c.ours} "
    found = []
    for role, noun, good, bad in _GROUPS:
        group = [p for p in pairs if c.roles[p.policy] == role]
        ahead, tied, behind = _split(group, metric)
        if ahead:
            closest = min(ahead, key=lambda p: abs(p.difference.mean))
            near = f" The closest of them is {closest.policy}, {_gap(closest, metric)} away." if len(ahead) > 1 else ""
            by = f" by {_gap(closest, metric)}" if len(ahead) == 1 else ""
            found.append(Finding(good, f"{head}is ahead of {_count(ahead, group, noun)}: {_names(ahead)}{by}.{near}"))
        if tied:
            told = "; ".join(f"{p.policy} ({_gap(p, metric)})" for p in tied)
            found.append(Finding(bad, f"{head}cannot be told apart from {_some(tied, noun)} {told}."))
        if behind:
            told = "; ".join(f"{p.policy} by {_gap(p, metric)}" for p in behind)
            found.append(Finding(bad, f"{head}loses to {_some(behind, noun)} {told}."))
    return found


# Role, its noun, and how a lead over it and a tie or loss are coloured.
_GROUPS: tuple[tuple[str, str, Kind, Kind], ...] = (
    ("rival", "rival", "lead", "loss"),
    ("variant", "variant", "fact", "fact"),
)


def _sustained_load(c: Comparison) -> list[Finding]:
    mine = next((row for row in c.sustained if row.policy == c.ours), None)
    rivals = [row for row in c.sustained if row.role == "rival"]
    variants = [row for row in c.sustained if row.role == "variant"]
    if mine is None or not rivals:
        return []
    best = max(rivals, key=lambda row: row.mean.mean)
    pair = next(p for p in c.paired if p.metric == SUSTAINED_LOAD.name and p.policy == best.policy)
    lead = -pair.difference.mean
    words = (
        f"{c.ours} sustains {_bounded(mine.bound)}{_percent(mine.mean.mean)} load with both classes at 1 % violation or less; the best "
        f"rival, {best.policy}, {_bounded(best.bound)}{_percent(best.mean.mean)}. Paired by seed the lead is {_points(lead, pair.difference.half_width)}"
    )
    if pair.difference.excludes_zero:
        kind: Kind = "lead" if lead > 0 else "loss"
        found = [Finding(kind, f"{words}: the interval excludes zero.")]
    else:
        found = [Finding("loss", f"{words}: the interval includes zero, so it may be chance.")]
    if variants:
        told = "; ".join(
            f"{p.policy} {_bounded(row.bound)}{_percent(row.mean.mean)} ({_points(p.difference.mean, p.difference.half_width)} from ours)"
            for row in variants
            for p in c.paired
            if p.metric == SUSTAINED_LOAD.name and p.policy == row.policy
        )
        found.append(Finding("fact", f"Variants, which know more or fit otherwise, sustain: {told}."))
    beyond = [row for row in c.sustained if row.bounded]
    if beyond:
        told = ", ".join(f"{row.policy} ({row.bounded} of {len(row.by_seed)} seeds)" for row in beyond)
        found.append(
            Finding(
                "caution",
                f"The sweep ends at {_percent(min(c.loads))} and {_percent(max(c.loads))}; beyond it a sustained load is only bounded, and the "
                f"sweep's end was counted: {told}.",
            )
        )
    gaps = [row.policy for row in c.sustained if any(each.gaps and each.bound != "below" for each in row.by_seed)]
    if gaps:
        found.append(
            Finding(
                "caution",
                f"On some seeds a load below the sustained one already violates more than 1 % (a few large jobs decide it): {', '.join(gaps)}.",
            )
        )
    return found


def _losses(c: Comparison) -> list[Finding]:
    """Every ranking figure at the focus load in which some rival is ahead beyond chance."""
    told = []
    for name in c.measured:
        metric = c.metrics[name]
        pairs = [
            p for p in c.paired if p.metric == name and p.load == c.focus and c.roles[p.policy] in ("rival", "variant")
        ]
        if name == c.leading or not pairs:
            continue
        _, _, behind = _split(pairs, metric)
        if behind:
            worst = max(behind, key=lambda p: abs(p.difference.mean))
            names = _names(sorted(behind, key=lambda p: p.policy), c)
            told.append(f"{_lower(metric.title)}: to {names} (most to {worst.policy}, {_gap(worst, metric)})")
    if told:
        return [Finding("loss", f"Where {c.ours} loses at {_percent(c.focus)} load: {'; '.join(told)}.")]
    if len(c.seeds) > 1 and any(p.load == c.focus and c.roles[p.policy] in ("rival", "variant") for p in c.paired):
        return [
            Finding(
                "lead",
                f"In no other figure that ranks policies is a rival ahead of {c.ours} beyond its interval at {_percent(c.focus)} load.",
            )
        ]
    return []


def _ablations(c: Comparison) -> list[Finding]:
    metric = c.metrics[c.leading]
    pairs = [p for p in c.paired if p.metric == metric.name and p.load == c.focus and c.roles[p.policy] == "ablation"]
    if not pairs:
        return []
    told = "; ".join(
        f"{p.policy} {_signed(p, metric)}{'' if p.difference.excludes_zero else ' (may be chance)'}" for p in pairs
    )
    return [
        Finding(
            "fact",
            f"What the parts of {c.ours} are worth in {_lower(metric.title)} at {_percent(c.focus)} load (without it, minus with it): {told}.",
        )
    ]


def _bound(c: Comparison) -> list[Finding]:
    metric = c.metrics[c.leading]
    pairs = [p for p in c.paired if p.metric == metric.name and p.load == c.focus and c.roles[p.policy] == "bound"]
    return [
        Finding(
            "fact",
            f"{p.policy} knows more than any scheduler can ({c.summaries[p.policy]}): what is left to gain over {c.ours} is {_gap(p, metric)}."
            if _better(p, metric)
            else f"{p.policy} is a frame, not a rival ({c.summaries[p.policy]}); {c.ours} is not behind it here ({_gap(p, metric)}).",
        )
        for p in pairs
    ]


def _founding(c: Comparison) -> list[Finding]:
    if c.workload != "founding" or c.file or not all(name in c.measured for name, _, _ in FOUNDING_TARGETS):
        return []
    load = c.focus
    rows = [row for row in c.rows if row.load == load and row.role != "bound"]
    meets = [row.policy for row in rows if _meets(row)]
    words = (
        "success > 99 %, violation < 3 %, per-task fairness > 0.95, dominant-share fairness > 0.12, fragmentation < 1 %"
    )
    fails = [f"{row.policy} ({', '.join(_missed(row, c))})" for row in rows if row.policy not in meets]
    text = f"The five founding targets ({words}) are met together by {len(meets)} of {len(rows)} policies"
    found = [Finding("fact", f"{text}; they are missed by {'; '.join(fails)}." if fails else f"{text}.")]
    if "random" in meets:
        found.append(
            Finding(
                "caution",
                "Random placement meets all five founding targets too. Meeting them does not show that a scheduler is good. What tells "
                "policies apart is violation by class, the sustained load, fragmentation of packers, and the tail of slowdowns.",
            )
        )
    return found


def _dominant_share(c: Comparison) -> list[Finding]:
    rows = [
        row
        for row in c.rows
        if row.load == c.focus and row.role != "bound" and isfinite(row.get("dominant_fairness").mean)
    ]
    if len(rows) < 2:
        return []
    values = [row.get("dominant_fairness").mean for row in rows]
    spread = max(values) - min(values)
    if spread >= _SAME_INDEX:
        return []
    return [
        Finding(
            "caution",
            f"Dominant-share fairness is the same for all {len(rows)} policies ({min(values):.3f} to {max(values):.3f}): it measures how "
            "unequal the tenants' demands are, a property of the trace, and no scheduler's merit or fault.",
        )
    ]


def _utilisation(c: Comparison) -> list[Finding]:
    if c.metrics["utilisation"].owner != "load":
        return []
    rows = [
        row for row in c.rows if row.load == c.focus and row.role != "bound" and isfinite(row.get("utilisation").mean)
    ]
    if len(rows) < 2 or "violation" not in c.measured:
        return []
    top = max(rows, key=lambda row: row.get("utilisation").mean)
    low = min(rows, key=lambda row: row.get("utilisation").mean)
    if top.get("utilisation").mean - low.get("utilisation").mean < 0.002:
        return [
            Finding(
                "caution",
                "Utilisation is an input here: the same work was given to every policy, and all of them show the same.",
            )
        ]
    return [
        Finding(
            "caution",
            "Utilisation follows from the load. Where it differs it is no merit: slowed pods stay longer. The highest, "
            f"{top.policy} with {_percent(top.get('utilisation').mean, 1)} of CPU requested, has {_percent(top.get('violation').mean)} violation; "
            f"the lowest, {low.policy} with {_percent(low.get('utilisation').mean, 1)}, has {_percent(low.get('violation').mean)}.",
        )
    ]


def _saturated(c: Comparison) -> list[Finding]:
    told = []
    for name in ("success", "granted_fairness"):
        rows = [row for row in c.rows if row.load == c.focus and isfinite(row.get(name).mean)]
        if len(rows) > 1 and min(row.get(name).mean for row in rows) > 0.99:
            told.append(_lower(c.metrics[name].title))
    if not told:
        return []
    return [
        Finding(
            "caution",
            f"At {_percent(c.focus)} load {' and '.join(told)} {'lies' if len(told) == 1 else 'lie'} above 0.99 for every policy and {'tells' if len(told) == 1 else 'tell'} none apart.",
        )
    ]


def _chance(c: Comparison) -> list[Finding]:
    found = []
    count = len(c.seeds)
    if count == 1:
        found.append(
            Finding(
                "caution",
                "One seed: there are no intervals, and no difference here can be told from chance. Take it as an anecdote.",
            )
        )
    elif count < 10:
        found.append(
            Finding(
                "caution",
                f"Only {count} seeds: intervals are wide, and ten or more are needed before a small difference means anything.",
            )
        )
    compared = sum(p.difference.count > 1 for p in c.paired)
    if count > 1 and compared >= 20:
        found.append(
            Finding(
                "caution",
                f"{compared:,} paired differences are given with 95 % intervals: about {max(1, round(compared / 20))} of them would exclude zero by "
                "chance alone if no policy differed.",
            )
        )
    if c.failures:
        found.append(
            Finding(
                "caution",
                f"{len(c.failures)} of the runs failed and are missing from the figures; they are listed below.",
            )
        )
    return found


_RULES: tuple[Callable[[Comparison], list[Finding]], ...] = (
    _leading_figure,
    _sustained_load,
    _losses,
    _ablations,
    _bound,
    _founding,
    _dominant_share,
    _utilisation,
    _saturated,
    _chance,
)


def _meets(row: Row) -> bool:
    return all(_target_met(row, *target) for target in FOUNDING_TARGETS)


def _target_met(row: Row, name: str, side: str, value: float) -> bool:
    mean = row.get(name).mean
    return mean > value if side == "above" else mean < value


def _missed(row: Row, c: Comparison) -> list[str]:
    return [_lower(c.metrics[target[0]].title) for target in FOUNDING_TARGETS if not _target_met(row, *target)]


def _split(pairs: Sequence[Paired], metric: Metric) -> tuple[list[Paired], list[Paired], list[Paired]]:
    """Pairs in which ours is ahead, cannot be told apart, and is behind."""
    ahead = [p for p in pairs if p.difference.excludes_zero and not _better(p, metric)]
    behind = [p for p in pairs if p.difference.excludes_zero and _better(p, metric)]
    tied = [p for p in pairs if p.difference.count > 1 and not p.difference.excludes_zero]
    return ahead, tied, behind


def _better(pair: Paired, metric: Metric) -> bool:
    """Whether the other policy has the better mean."""
    return pair.difference.mean < 0 if metric.better == "lower" else pair.difference.mean > 0


def _gap(pair: Paired, metric: Metric) -> str:
    return _amount(abs(pair.difference.mean), pair.difference.half_width, metric)


def _signed(pair: Paired, metric: Metric) -> str:
    return ("+" if pair.difference.mean >= 0 else "-") + _amount(
        abs(pair.difference.mean), pair.difference.half_width, metric
    )


def _amount(value: float, half: float, metric: Metric) -> str:
    if metric.unit == "fraction":
        return _points(value, half)
    unit = f" {metric.suffix}" if metric.suffix else ""
    return f"{value:.3g}{unit}" if isnan(half) else f"{value:.3g} ± {half:.2g}{unit}"


def _points(value: float, half: float) -> str:
    return f"{value * 100:.2f} points" if isnan(half) else f"{value * 100:.2f} ± {half * 100:.2f} points"


def _percent(value: float, places: int | None = None) -> str:
    return f"{value * 100:.3g} %" if places is None else f"{value * 100:.{places}f} %"


def _bounded(bound: str) -> str:
    return {"above": "at least ", "below": "less than ", "exact": ""}[bound]


def _count(some: Sequence[object], every: Sequence[object], noun: str) -> str:
    if len(every) == 1:
        return f"its one {noun}"
    return f"all {len(every)} {noun}s" if len(some) == len(every) else f"{len(some)} of {len(every)} {noun}s"


def _some(pairs: Sequence[object], noun: str) -> str:
    return f"the {noun}" if len(pairs) == 1 else f"the {noun}s"


def _names(pairs: Sequence[Paired], c: Comparison | None = None) -> str:
    """The policies' names; with `c` given, variants are marked as such."""
    names = [f"{p.policy} (variant)" if c and c.roles[p.policy] == "variant" else p.policy for p in pairs]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _lower(title: str) -> str:
    return title if title.startswith(("SLO", "GPU", "CPU")) else title[0].lower() + title[1:]
