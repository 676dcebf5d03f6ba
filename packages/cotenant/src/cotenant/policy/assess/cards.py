"""What cards are used and which could be shared, from their days.

Shareable: allocated whole, and quiet: every day's p99 of use, and the memory, below half, so that two such fit one
card. Where the exporter does not say which pod has a card, a node's free cards may be among its quiet ones, which makes
a range of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from cotenant.model.assess.figure import AssessedFigure, unknown
from cotenant.model.assess.meters import CardUse, CardUses
from cotenant.policy.assess.use import MIN_DAYS

HALF_PCT = 50.0


def used_cards(kind: str, uses: CardUses) -> AssessedFigure:
    """Cards' worth of use: the sum of their means."""
    key, title, unit = f"{kind}_used", f"{kind}: cards used", "cards"
    definition = "the share of time in which a kernel ran, mean of each day, summed over cards, mean of the days"
    if not uses.cards:
        return unknown(key, title, unit, definition, uses.why)
    means = np.array([card.mean_pct for card in uses.cards], np.float64)
    days = np.nansum(means, axis=0)[~np.isnan(means).all(axis=0)] / 100.0
    if not len(days):
        return unknown(key, title, unit, definition, f"{uses.source} has no value in these days")
    value = float(days.mean())
    said = f"{definition}; {uses.source}, of {len(uses.cards):,} cards"
    if len(days) < MIN_DAYS:
        return AssessedFigure(
            key, title, value, unit, said, f"none: {len(days)} days are known, a range needs {MIN_DAYS}"
        )
    interval = f"the smallest and the largest of {len(days)} days"
    return AssessedFigure(key, title, value, unit, said, interval, float(days.min()), float(days.max()))


def shareable_cards(kind: str, uses: CardUses, whole: Mapping[str, int]) -> AssessedFigure:
    """`whole`: cards of each node that are allocated whole."""
    key, title, unit = f"{kind}_shareable", f"{kind}: cards that could be shared", "cards"
    definition = (
        f"cards allocated whole of which less than {HALF_PCT:g} % is used at every day's p99, and less than "
        f"{HALF_PCT:g} % of the memory"
    )
    if not uses.cards:
        return unknown(key, title, unit, definition, uses.why)
    of_node: defaultdict[str, list[CardUse]] = defaultdict(list)
    for card in uses.cards:
        of_node[card.node].append(card)
    low = high = 0
    for node, cards in of_node.items():
        quiet = [card for card in cards if _is_quiet(card)]
        if uses.names_pods:
            held = sum(bool(card.pod) for card in quiet)
            low, high = low + held, high + held
        else:
            free = max(0, len(cards) - whole.get(node, 0))
            low, high = low + max(0, len(quiet) - free), high + min(len(quiet), whole.get(node, 0))
    said = f"{definition}; {uses.source}"
    if uses.names_pods:
        return AssessedFigure(key, title, float(low), unit, said, "counted: the exporter names the pod that has a card")
    interval = "at least, and at most: the exporter does not name the pod that has a card"
    return AssessedFigure(key, title, float(low), unit, said, interval, float(low), float(high))


def _is_quiet(card: CardUse) -> bool:
    tail = [value for value in card.p99_pct if not np.isnan(value)]
    return bool(tail) and max(tail) < HALF_PCT and (card.memory_pct is None or card.memory_pct < HALF_PCT)


def energy_a_day(joules: Sequence[Sequence[float]]) -> tuple[float, float, float, int] | None:
    """Mean, least and most kWh of the days on which anything is known, and how many these are."""
    days = np.array(joules, np.float64)
    if not days.size:
        return None
    known = ~np.isnan(days).all(axis=0)
    if not known.any():
        return None
    kwh = np.nansum(days[:, known], axis=0) / 3.6e6
    return float(kwh.mean()), float(kwh.min()), float(kwh.max()), int(known.sum())
