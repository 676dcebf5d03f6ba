"""How the sentences of the findings state differences, shares and lists."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from cotenant_lab.comparison import Comparison, Paired
from cotenant_lab.metric import Metric


def by_direction(pairs: Sequence[Paired], metric: Metric) -> tuple[list[Paired], list[Paired], list[Paired]]:
    """Pairs in which ours is ahead, not separated, and behind."""
    ahead = [p for p in pairs if p.difference.excludes_zero and not is_better(p, metric)]
    behind = [p for p in pairs if p.difference.excludes_zero and is_better(p, metric)]
    tied = [p for p in pairs if p.difference.count > 1 and not p.difference.excludes_zero]
    return ahead, tied, behind


def is_better(pair: Paired, metric: Metric) -> bool:
    """Whether the other policy has the better mean."""
    return pair.difference.mean < 0 if metric.better == "lower" else pair.difference.mean > 0


def gap(pair: Paired, metric: Metric) -> str:
    """By how much they differ, with the interval."""
    return amount(abs(pair.difference.mean), pair.difference.half_width, metric)


def signed(pair: Paired, metric: Metric) -> str:
    """The difference with its sign and interval."""
    return ("+" if pair.difference.mean >= 0 else "-") + amount(
        abs(pair.difference.mean), pair.difference.half_width, metric
    )


def amount(value: float, half: float, metric: Metric) -> str:
    """A figure in its unit, with the interval where there is one."""
    if metric.unit == "fraction":
        return points(value, half)
    unit = f" {metric.suffix}" if metric.suffix else ""
    return f"{value:.3g}{unit}" if isnan(half) else f"{value:.3g} ± {half:.2g}{unit}"


def points(value: float, half: float) -> str:
    """A difference of shares."""
    return f"{value * 100:.2f} points" if isnan(half) else f"{value * 100:.2f} ± {half * 100:.2f} points"


def percent(value: float, places: int | None = None) -> str:
    """A share."""
    return f"{value * 100:.3g} %" if places is None else f"{value * 100:.{places}f} %"


def bounded(bound: str) -> str:
    """Words before a figure that is a bound."""
    return {"above": "at least ", "below": "less than ", "exact": ""}[bound]


def counted(some: Sequence[object], every: Sequence[object], noun: str) -> str:
    """Some of so many, in words."""
    if len(every) == 1:
        return f"its one {noun}"
    return f"all {len(every)} {noun}s" if len(some) == len(every) else f"{len(some)} of {len(every)} {noun}s"


def how_many(pairs: Sequence[object], noun: str) -> str:
    """One or several of a noun."""
    return f"the {noun}" if len(pairs) == 1 else f"the {noun}s"


def policies_of(pairs: Sequence[Paired], c: Comparison | None = None) -> str:
    """The policies' names; with `c` given, variants are marked as such."""
    names = [f"{p.policy} (variant)" if c and c.roles[p.policy] == "variant" else p.policy for p in pairs]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def lowered(title: str) -> str:
    """A title within a sentence."""
    return title if title.startswith(("SLO", "GPU", "CPU")) else title[0].lower() + title[1:]
