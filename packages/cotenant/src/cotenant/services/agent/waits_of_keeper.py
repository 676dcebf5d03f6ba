"""Who ran while services waited for a CPU, asked of the keeper before each sample.

The evidence that names a culprit most often is the kernel's own record of who had the CPU, and the agent may not load
what records it. The keeper may: it is asked just before a sample is taken, so that the figures are of the same
interval. Run delays stay those of the other source. A keeper that does not answer in time costs the evidence of that
interval, one that cannot measure is asked again after a while, since it may be replaced.
Limits: services' groups only, `wire.MAX_IN_ONE` at most; late waits are not reported this way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from cotenant.drivers.cgroup.sensor import RunDelays
from cotenant.model.errors import CotenantError, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.run_queue import BLAME, RunQueueReading
from cotenant.services.knobs.wire import MAX_IN_ONE

WITHIN_S = 0.25
AGAIN_S = 60.0
_log = logging.getLogger(__name__)


class WaitsOfKeeper:
    """Implements `drivers/cgroup/sensor.AttributesDelays` around a source of run delays. `refresh` before a sample."""

    def __init__(
        self,
        delays: RunDelays | None,
        ask: Callable[[Sequence[str]], Awaitable[RunQueueReading]],
        monotonic: Callable[[], float],
    ) -> None:
        self._delays = delays
        self._ask = ask
        self._monotonic = monotonic
        self._services: tuple[str, ...] = ()
        self._not_before_s = float("-inf")
        self._problem = "not asked yet"
        self.reading: RunQueueReading | None = None

    def watch(self, services: Sequence[str], best_effort: Sequence[str]) -> None:
        """Set the groups whose waits are asked for."""
        self._services = tuple(services)[:MAX_IN_ONE]

    async def refresh(self) -> None:
        """Ask once; never raises."""
        self.reading = None
        if self._monotonic() < self._not_before_s or not self._services:
            return
        try:
            async with asyncio.timeout(WITHIN_S):
                self.reading = await self._ask(self._services)
        except Unsupported as error:
            self._not_before_s = self._monotonic() + AGAIN_S
            self._failed(error.needs)
        except (CotenantError, TimeoutError) as error:
            self._failed(f"the keeper did not answer: {error}".removesuffix(": "))
        else:
            self._problem = ""

    def read(self, groups: Sequence[str], now_us: int) -> Mapping[str, int]:
        """The run delays of the other source."""
        return {} if self._delays is None else self._delays.read(groups, now_us)

    def gaps(self) -> tuple[Gap, ...]:
        """What is missing now."""
        others = () if self._delays is None else self._delays.gaps()
        known = tuple(gap for gap in others if gap.what != BLAME)
        return (*known, Gap(BLAME, self._problem)) if self._problem else known

    def _failed(self, problem: str) -> None:
        if problem != self._problem:
            _log.info("who ran while services waited is not known: %s", problem)
        self._problem = problem
