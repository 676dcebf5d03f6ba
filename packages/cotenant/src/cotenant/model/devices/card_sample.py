"""What a service on a GPU and its neighbours did over one interval, by the path on which they could disturb it.

A card is shared at several places, and no source measures all of them by pod: so a path that was not measured is absent
with a sentence, which is not a path on which nobody did anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class CardPath(StrEnum):
    """A place at which pods compete."""

    SM = "SM"  # multiprocessors of a card that both have
    MEMORY_BANDWIDTH = "memory bandwidth"  # of such a card
    PCIE = "PCIe"  # the root under which their cards are
    HOST_CPU = "host CPU"  # tokeniser, data loader


@dataclass(frozen=True, slots=True)
class CardSample:
    """One interval. `use`: by path, what each pod took, the service included: thousandths of a card, bytes a second, or
    thousandths of a CPU.
    """

    at_ms: int  # its end
    level_milli: int  # the service's latency over its objective, thousandths
    use: Mapping[CardPath, Mapping[str, int]]
    gaps: Mapping[CardPath, str] = field(default_factory=dict)  # why a path is not measured
