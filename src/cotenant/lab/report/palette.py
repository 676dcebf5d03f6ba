"""One colour per policy, the same in every figure.

Ours has the console's blue and the widest line; rivals have Okabe and Ito's other colours and darker ones, readable on white and on near-black; a bound is grey and dashed;
ablations are paler than ours and dotted. With more rivals than colours, dashes distinguish them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.lab.report.document import NEUTRAL, OURS

_ABLATIONS = ("#8fc1e3", "#4d97c2", "#b3d4e8", "#3a77a0")
_RIVALS = (
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#94821e",
    "#7a68a6",
    "#d55e00",
    "#5c7a3d",
    "#a0526d",
    "#5f9ea0",
    "#b08d57",
    "#9c6ade",
    "#6b7f8c",
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
            found[policy] = Style(OURS, "solid", 4.0, 1.0)
        elif role == "bound":
            found[policy] = Style(NEUTRAL, "dash", 2.0, 1.0)
        elif role in ("ablation", "ours"):
            found[policy] = Style(_ABLATIONS[ablations % len(_ABLATIONS)], "dot", 2.0, 1.0)
            ablations += 1
        else:
            dash = _DASHES[(rivals // len(_RIVALS)) % len(_DASHES)]
            found[policy] = Style(_RIVALS[rivals % len(_RIVALS)], dash, 1.8, 0.9)
            rivals += 1
    return found
