"""One colour per policy, the same in every figure.

Ours has the only saturated colour; rivals have muted ones that are readable on white and on near-black; a bound is grey and dashed;
ablations are paler than ours and dotted. With more rivals than colours, dashes distinguish them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_OURS = "#e0245e"
_ABLATIONS = ("#f08ba8", "#c9587e", "#f4b3c5", "#a84468")
_BOUND = "#8a8f98"
_RIVALS = (
    "#3b7dd8",
    "#2a9d8f",
    "#e08a1e",
    "#8d6cc9",
    "#5aa02c",
    "#b5651d",
    "#1fa2c4",
    "#a3487b",
    "#8f9a1b",
    "#6a7fb5",
    "#4d9068",
    "#c0705a",
)
_DASHES = ("solid", "dash", "dot")
SERVICES = ("#1b4f8f", "#2f74c0", "#5b9bd9", "#8fbde8", "#bcd8f3", "#dbe7f3")
BATCH = ("#8f3d0c", "#c75f17", "#e88b3d", "#f3b277", "#f8d0a9", "#f2e2d2")


@dataclass(frozen=True, slots=True)
class Style:
    """Line style of a policy."""

    colour: str
    dash: str
    width: float
    opacity: float


def styles(policies: Sequence[str], roles: Mapping[str, str], ours: str) -> dict[str, Style]:
    """A style for each policy, by its position in `policies`."""
    found: dict[str, Style] = {}
    rivals = ablations = 0
    for policy in policies:
        role = roles[policy]
        if policy == ours:
            found[policy] = Style(_OURS, "solid", 4.0, 1.0)
        elif role == "bound":
            found[policy] = Style(_BOUND, "dash", 2.0, 1.0)
        elif role in ("ablation", "ours"):
            found[policy] = Style(_ABLATIONS[ablations % len(_ABLATIONS)], "dot", 2.0, 1.0)
            ablations += 1
        else:
            dash = _DASHES[(rivals // len(_RIVALS)) % len(_DASHES)]
            found[policy] = Style(_RIVALS[rivals % len(_RIVALS)], dash, 1.8, 0.9)
            rivals += 1
    return found
