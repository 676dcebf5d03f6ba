"""Means of what was observed between two bookings.

A period's price follows what tenants used during it, and watches deliver changes at any time. Every sample counts from
the sample before it until its own time, and the mean is over the observed time only. `reset` belongs after the commit,
so that a booking that failed is repeated with nothing lost.
Limits: integers are rounded down; a resource of a tenant whose use was not measured for a part of the period is not
measured for all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.policy.credit.pricing import PeriodUse, Priced

MAX_GAP_MS = 60_000  # a longer pause between samples was not observed


class ObservedUse:
    """Sums of amount times time, by tenant and resource."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, Priced], list[int]] = {}  # guaranteed, declared, measured
        self._unmeasured: set[tuple[str, Priced]] = set()
        self._last: tuple[PeriodUse, ...] = ()
        self._last_ms: int | None = None
        self.observed_ms = 0

    def sample(self, uses: Sequence[PeriodUse], now_ms: int) -> None:
        """Count what stood since the last sample, and keep `uses` from now on. `now_ms`: a clock that does not go
        back.
        """
        if self._last_ms is not None:
            lasted_ms = max(0, min(now_ms - self._last_ms, MAX_GAP_MS))
            self.observed_ms += lasted_ms
            for use in self._last:
                key = (use.tenant, use.resource)
                sums = self._sums.setdefault(key, [0, 0, 0])
                sums[0] += use.guaranteed * lasted_ms
                sums[1] += use.declared * lasted_ms
                if use.measured is None:
                    self._unmeasured.add(key)
                else:
                    sums[2] += use.measured * lasted_ms
        self._last, self._last_ms = tuple(uses), now_ms

    def means(self) -> tuple[PeriodUse, ...]:
        """The mean use of each tenant and resource over the observed time."""
        most = max(1, self.observed_ms)
        return tuple(
            PeriodUse(
                tenant,
                guaranteed // most,
                declared // most,
                None if (tenant, resource) in self._unmeasured else measured // most,
                resource,
            )
            for (tenant, resource), (guaranteed, declared, measured) in sorted(self._sums.items())
        )

    def reset(self) -> None:
        """The means were booked: begin anew."""
        self._sums.clear()
        self._unmeasured.clear()
        self.observed_ms = 0

    def forget(self) -> None:
        """What was observed is not ours to book: another replica led."""
        self.reset()
        self._last, self._last_ms = (), None
