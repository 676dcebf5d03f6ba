"""Cards' use and energy as they stand in a copy's manifest: NaN is null there, which JSON has a word for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite, nan

import msgspec

from cotenant.model.assess.meters import CardUse, CardUses, Energy, Meters

Amounts = list[float | None]
_UNSAID = "the copy has none, and does not say why"


class ArchivedCard(msgspec.Struct, omit_defaults=True):
    """See `CardUse`."""

    node: str
    card: str
    mean_pct: Amounts
    p99_pct: Amounts
    memory_pct: float | None = None
    pod: str = ""


class ArchivedMeters(msgspec.Struct, omit_defaults=True):
    """See `Meters`."""

    cards: list[ArchivedCard] = []
    cards_source: str = ""
    cards_why: str = ""
    names_pods: bool = False
    energy: dict[str, Amounts] = {}
    node_energy: Amounts = []
    energy_source: str = ""
    energy_why: str = ""


def archived(meters: Meters) -> ArchivedMeters:
    """For the manifest."""
    cards, energy = meters.cards, meters.energy
    return ArchivedMeters(
        [
            ArchivedCard(one.node, one.card, _nulls(one.mean_pct), _nulls(one.p99_pct), one.memory_pct, one.pod)
            for one in cards.cards
        ],
        cards.source,
        cards.why,
        cards.names_pods,
        {pod: _nulls(joules) for pod, joules in energy.pods},
        _nulls(energy.nodes),
        energy.source,
        energy.why,
    )


def of_archive(written: ArchivedMeters) -> Meters:
    """From a manifest; what no meter measures is unknown."""
    cards = tuple(
        CardUse(one.node, one.card, _known(one.mean_pct), _known(one.p99_pct), _percent(one.memory_pct), one.pod)
        for one in written.cards
    )
    energy = tuple((pod, _known(joules)) for pod, joules in written.energy.items())
    why_no_cards = written.cards_why or ("" if cards else _UNSAID)
    why_no_energy = written.energy_why or ("" if energy or written.node_energy else _UNSAID)
    return Meters(
        CardUses(cards, written.cards_source, why_no_cards, written.names_pods),
        Energy(energy, _known(written.node_energy), written.energy_source, why_no_energy),
    )


def renamed_meters(meters: Meters, word: Callable[[str], str], keyed: Callable[[str], str]) -> Meters:
    """With other names: `word` of a node or card, `keyed` of a text with `/`."""
    cards = tuple(
        replace(one, node=word(one.node), card=word(one.card), pod=keyed(one.pod)) for one in meters.cards.cards
    )
    pods = tuple((keyed(pod), joules) for pod, joules in meters.energy.pods)
    return Meters(replace(meters.cards, cards=cards), replace(meters.energy, pods=pods))


def _nulls(values: Sequence[float]) -> Amounts:
    return [value if isfinite(value) else None for value in values]


def _known(values: Amounts) -> tuple[float, ...]:
    return tuple(value if value is not None and isfinite(value) and value >= 0 else nan for value in values)


def _percent(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) and value >= 0 else None
