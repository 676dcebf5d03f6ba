"""How much of the time best-effort limits are in force beside a writer whose clock is an argument.

A kubelet writes once a minute, and no test waits that long; but how soon a limit is back after such a write is real
time. After each step the limits are watched until they are back (or given up), then for a few periods of the agent; the
share without them counts for the simulated time until the next step. What the write itself cost counts as it was
measured.
A gap is in seconds of a quiet machine: how long an agent waits for its turn on a busy one is no fault of its.
Limits: a gap shorter than the interval of polling is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.fakes.node.kubelet.kubelet import Step
from tests.fakes.waiting import Bound, eventually

PATIENCE_S = 2.0  # real time after which a limit counts as lost until the next step
INTERVAL_S = 0.005


@dataclass(slots=True)
class InForce:
    """`holds`: whether all limits stand now. `periods`: how often the agent has decided; two more than before are
    watched.
    """

    holds: Callable[[], bool]
    periods: Callable[[], float]
    total_s: float = 0.0
    lost_s: float = 0.0
    gaps: list[tuple[str, float, float]] = field(
        default_factory=list
    )  # after which step: seconds, and the share of looks that failed later
    _pending: tuple[float, float] = (0.0, 0.0)

    @property
    def share(self) -> float:
        """Of the simulated time."""
        return 1.0 - self.lost_s / self.total_s if self.total_s else 1.0

    def watch(self, steps: Iterable[Step]) -> InForce:
        """Take the steps one after the other."""
        for step in steps:
            self._close(step.after_s)
            if step.what != "nothing":
                self.after(step.what)
        return self

    def after(self, what: str, lasts_s: float = 0.0) -> None:
        """Something has just been written; the next thing is `lasts_s` later, if that is known."""
        since = Bound(PATIENCE_S)
        looks: list[bool] = []

        def are_back() -> bool:
            holds = self.holds()
            since.reached()
            return holds

        try:
            eventually("the limits are back", are_back, PATIENCE_S, interval_s=INTERVAL_S)
        except AssertionError:
            gap, failed = PATIENCE_S, 1.0
        else:
            gap = since.gone_s
            until = self.periods() + 2
            eventually("the agent decides", lambda: looks.append(self.holds()) or self.periods() >= until)
            failed = looks.count(False) / len(looks)
        self._pending = (gap, failed)
        self.gaps.append((what, round(gap, 4), round(failed, 3)))
        if lasts_s:
            self._close(lasts_s)

    def _close(self, seconds: float) -> None:
        gap, failed = self._pending
        self.total_s += seconds
        at_first = min(gap, seconds)
        self.lost_s += at_first + (seconds - at_first) * failed
        self._pending = (0.0, failed)
