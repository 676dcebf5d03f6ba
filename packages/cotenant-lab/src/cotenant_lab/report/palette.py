"""One style per policy, the same in every figure.

Ours has the console's accent and the widest line; rivals have the colours of the console's map that are not blue; a
bound is grey and dashed; ablations are paler than ours and dotted. With more rivals than colours, dashes distinguish
them. Colours are names: console/src/report/colours.ts resolves them, in both themes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.model.pages.figures import BOUND, OURS, RIVALS, Dash, ablation, rival

_DASHES: tuple[Dash, ...] = ("solid", "dash", "dot")


@dataclass(frozen=True, slots=True)
class Style:
    """Line style of a policy."""

    colour: str
    dash: Dash
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
            found[policy] = Style(BOUND, "dash", 2.0, 1.0)
        elif role in ("ablation", "ours"):
            found[policy] = Style(ablation(ablations), "dot", 2.0, 1.0)
            ablations += 1
        else:
            found[policy] = Style(rival(rivals), _DASHES[(rivals // RIVALS) % len(_DASHES)], 1.8, 0.9)
            rivals += 1
    return found
