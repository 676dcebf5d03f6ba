"""What the manager would have lent over a recorded history, step by step, and what of it would have been squeezed.

The amounts are the manager's own: the peak policy with its hysteresis and its hourly feedback, or the formula by use
that upstream ships, over columns of nodes (ADR 24). At each step the policy knows the steps up to it; the amount stands
until the next known step, where it is compared with what was used. A core-step is *squeezed* where use and the lent
amount together exceed the capacity: best-effort work would have been held back there by so much, and services not,
as they have the higher weight.
Limits: a node's use counts as one pod's; all that is lent counts as used, so squeezed is an upper bound; use within a
step is not seen; the first day only teaches and is not counted. The manager judges an hour one hour later than here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.assess.history import Float32
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.columns import ABSENT, HighPriorityColumns, PeakColumns, by_usage, written_by_band
from cotenant.policy.overcommit.facts import Policy
from cotenant.policy.overcommit.hysteresis import HysteresisBand
from cotenant.policy.overcommit.peak import PeakSettings, calibrated

TAUGHT_S = 86_400.0  # not counted
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class RecordedNodes:
    """One resource of nodes: use `[nodes, steps]` with NaN for unknown, and the rest by node, all in one unit."""

    start_s: float
    step_s: float
    use: Float32
    requested: Float  # NaN = unknown
    capacity: Float

    def __post_init__(self) -> None:
        for name in ("requested", "capacity"):
            if len(getattr(self, name)) != len(self.use):
                raise InvalidInput(name, len(getattr(self, name)), f"one for each of {len(self.use)} nodes")
        if not self.step_s > 0:
            raise InvalidInput("step", self.step_s, "seconds above 0")


@dataclass(frozen=True, slots=True)
class LentDay:
    """One day (UTC) of the replay; amounts are sums over node-steps."""

    day: date
    lent: float
    squeezed: float
    capacity: float
    node_hours: int
    broken: int  # node-hours with any squeezed step
    touched: float = 0.0  # of what was lent, at node-steps at which some of it was squeezed
    overused: int = 0  # node-steps at which services alone used more than the node has

    @property
    def squeezed_share(self) -> float:
        """Of what was lent."""
        return self.squeezed / self.lent if self.lent > 0 else 0.0

    @property
    def touched_share(self) -> float:
        """Of the minutes of batch pods that are spread evenly over what is lent: those with less than was lent."""
        return self.touched / self.lent if self.lent > 0 else 0.0

    def told(self) -> str:
        """The day as a sentence."""
        services = "no service" if not self.overused else f"services at {self.overused:,} node-steps by their own use"
        return (
            f"Had you lent this on {self.day:%A}, {100 * self.touched_share:.2g} % of batch pod minutes would have "
            f"been squeezed, and {services}: {100 * self.squeezed_share:.2g} % of the lent core-hours, in "
            f"{self.broken} of {self.node_hours} node-hours."
        )


@dataclass(frozen=True, slots=True)
class LentHistory:
    """The whole replay."""

    policy: Policy
    days: tuple[LentDay, ...]
    nodes: int  # that were judged

    @property
    def lent_share(self) -> float:
        """Of the capacity; NaN where nothing was judged."""
        capacity = sum(day.capacity for day in self.days)
        return sum(day.lent for day in self.days) / capacity if capacity > 0 else float("nan")

    @property
    def broken_share(self) -> float:
        """Of node-hours, which is what the policy's risk is stated of; NaN where nothing was judged."""
        hours = sum(day.node_hours for day in self.days)
        return sum(day.broken for day in self.days) / hours if hours else float("nan")

    @property
    def squeezed_share(self) -> float:
        """Of what was lent."""
        lent = sum(day.lent for day in self.days)
        return sum(day.squeezed for day in self.days) / lent if lent > 0 else 0.0


@dataclass(slots=True)
class _Tally:
    """Sums by day."""

    by_day: dict[date, list[float]] = field(default_factory=dict)  # as LentDay

    def add(self, at_s: float, *amounts: float) -> None:
        sums = self.by_day.setdefault(datetime.fromtimestamp(at_s, UTC).date(), [0.0] * 7)
        for i, amount in enumerate(amounts):
            sums[i] += amount

    def close(self, hour: int, judged: Mask, broken: Mask, start_s: float) -> None:
        """Count an hour's nodes, where its end is after what only teaches."""
        if (hour + 1) * _HOUR_S > start_s + TAUGHT_S:
            self.add(hour * _HOUR_S, 0.0, 0.0, 0.0, float(judged.sum()), float(broken.sum()))

    def days(self) -> Iterator[LentDay]:
        for day, (lent, squeezed, capacity, hours, broken, touched, overused) in sorted(self.by_day.items()):
            yield LentDay(day, lent, squeezed, capacity, int(hours), int(broken), touched, int(overused))


def replay(
    recorded: RecordedNodes,
    policy: Policy = Policy.PEAK,
    settings: PeakSettings | None = None,
    reclaim_pct: int = 60,
    band: HysteresisBand | None = None,
) -> LentHistory:
    """Run the policy over the history. Nodes without capacity or without any use are left out."""
    if policy not in (Policy.PEAK, Policy.USAGE):
        raise InvalidInput("policy", policy.value, "peak or usage")
    settings, band = settings or PeakSettings(), band or HysteresisBand()
    usable = np.isfinite(recorded.capacity) & (recorded.capacity > 0)
    usable &= ~np.isnan(recorded.use).all(axis=1)
    rows = np.flatnonzero(usable)
    capacity = np.rint(recorded.capacity[rows]).astype(np.int64)
    request = np.rint(np.where(np.isnan(recorded.requested[rows]), capacity, recorded.requested[rows])).astype(np.int64)
    nodes = len(rows)
    if not nodes:
        return LentHistory(policy, (), 0)
    peak = PeakColumns(settings, capacity, _HOUR_S / recorded.step_s)
    nothing = np.zeros(nodes, np.int64)
    lent: Int = np.full(nodes, ABSENT)
    tally = _Tally()
    hours = np.zeros(nodes, np.bool_)  # judged in this hour
    broken = np.zeros(nodes, np.bool_)
    last_hour = -1
    for step in range(recorded.use.shape[1]):
        now_s = recorded.start_s + step * recorded.step_s
        hour = int(now_s // _HOUR_S)
        if hour != last_hour and last_hour != -1:
            if policy is Policy.PEAK:
                peak.pool = calibrated(peak.pool, int(broken.sum()), int(hours.sum()), settings)
            tally.close(last_hour, hours, broken, recorded.start_s)
            hours[:], broken[:] = False, False
        last_hour = hour
        use = recorded.use[rows, step].astype(np.float64)
        fresh = ~np.isnan(use)
        used = np.where(fresh, np.rint(np.nan_to_num(use)), -1).astype(np.int64)
        stood = np.where(fresh & (lent != ABSENT), lent, 0)
        short = np.clip(np.maximum(used, 0) + stood - capacity, 0, stood)
        hours |= fresh & (lent != ABSENT)
        broken |= short > 0
        if now_s >= recorded.start_s + TAUGHT_S:
            counted = fresh & (lent != ABSENT)
            tally.add(
                now_s,
                float(stood.sum()),
                float(short.sum()),
                float(capacity[counted].sum()),
                0.0,
                0.0,
                float(stood[short > 0].sum()),
                float((counted & (used > capacity)).sum()),
            )
        known = np.flatnonzero(fresh)
        pods = HighPriorityColumns(known, known, request[known], used[known])
        if policy is Policy.PEAK:
            peak.observe(fresh, pods, now_s)
            computed = peak.amounts(pods, nothing)
            wanted = written_by_band(computed, lent, capacity, band)
        else:
            wanted = by_usage(capacity, nothing, pods, reclaim_pct)
        lent = np.where(fresh, wanted, lent)
    tally.close(last_hour, hours, broken, recorded.start_s)
    return LentHistory(policy, tuple(tally.days()), nodes)
