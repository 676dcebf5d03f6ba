"""What the manager answers about a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.engine.manager.record import Computed, ZoneRecord


@dataclass(frozen=True, slots=True)
class OfferExplanation:
    """Why a node offers what it offers."""

    node: str
    computed: Computed
    lent: Mapping[str, int]  # on the node now
    written: str  # its annotation
    metric_age_s: float  # NaN = never measured
    written_age_s: float  # NaN = not written by this process
    zones: ZoneRecord | None
    ignored: tuple[str, ...]
    config_error: str
