"""What is known of how an application and its neighbours slow each other down.

Placement, explanations and people need the same figures about an application, with how certain they are. One frozen
value with the two parameters of the contention model, what a service tolerates, their standard deviations and the
number of observations behind them.
Limits: one number each for all shared resources of a machine together (caches, memory bandwidth, hardware threads).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite


@dataclass(frozen=True, slots=True)
class InterferenceProfile:
    """The profile of one application. A pod slows down by 1 + sensitivity x (the others' pressure x cores in use /
    half a node).
    """

    sensitivity: float
    sensitivity_sd: float
    pressure: float
    pressure_sd: float
    allowance: float = (
        inf  # excess slowdown at its highest load at which a service still meets its objective; inf = not known
    )
    windows: int = 0  # windows of its own pods that were learned from
    neighbour_windows: int = 0  # windows of pods beside it that were learned from
    declared: bool = False  # whether a declared profile was the prior

    @property
    def is_learned(self) -> bool:
        """Whether any observation was used."""
        return self.windows > 0 or self.neighbour_windows > 0

    def words(self) -> str:
        """One line for people."""
        prior = "the declared profile" if self.declared else "the prior that every application has"
        if not self.is_learned:
            return f"nothing learned yet: {prior}, sensitivity {self.sensitivity:.2f}, pressure {self.pressure:.2f}"
        allowance = f", tolerates {100.0 * self.allowance:.0f} % more time" if isfinite(self.allowance) else ""
        return (
            f"sensitivity {self.sensitivity:.2f} ±{self.sensitivity_sd:.2f} from {self.windows} windows of its own "
            "pods, "
            f"pressure {self.pressure:.2f} ±{self.pressure_sd:.2f} from {self.neighbour_windows} windows of pods "
            f"beside it{allowance}; "
            f"started from {prior}"
        )
