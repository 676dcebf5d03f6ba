"""What exporters of others measured by the day: cards' use (DCGM) and energy (Kepler).

A day's mean and p99 say what is needed of a card, and a day's joules what is needed of a pod, so no series are kept.
Where an exporter is not there, `why` is the sentence that stands in place of figures.
"""

from __future__ import annotations

from dataclasses import dataclass

NOT_ASKED = "cards' use and energy are read from Prometheus, and none was given"


@dataclass(frozen=True, slots=True)
class CardUse:
    """One card; percent by day, the oldest first, NaN where unknown. `pod`: NAMESPACE/POD that has it, "" = unknown."""

    node: str
    card: str
    mean_pct: tuple[float, ...]
    p99_pct: tuple[float, ...]
    memory_pct: float | None = None  # the highest share of its memory
    pod: str = ""


@dataclass(frozen=True, slots=True)
class CardUses:
    """All cards that are measured. `source`: by which metric."""

    cards: tuple[CardUse, ...] = ()
    source: str = ""
    why: str = NOT_ASKED
    names_pods: bool = False  # the exporter says which pod has a card


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules of each pod (NAMESPACE/POD) and of all nodes together, by day, the oldest first; NaN where unknown."""

    pods: tuple[tuple[str, tuple[float, ...]], ...] = ()
    nodes: tuple[float, ...] = ()
    source: str = ""
    why: str = NOT_ASKED


@dataclass(frozen=True, slots=True)
class Meters:
    """Both."""

    cards: CardUses = CardUses()
    energy: Energy = Energy()


NO_METERS = Meters()
