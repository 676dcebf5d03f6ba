"""Samples before their time: a trigger of the kernel fired, or a look found that best-effort work changed.

At most one a period is caused by triggers; a sample younger than `MIN_AGE_S` is as good as a new one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from cotenant.engine.node.agent import Agent
from cotenant.model.errors import CotenantError
from cotenant.services.agent.loop.actor import Actor
from cotenant.services.agent.loop.ticker import Ticker

MIN_USE_M = 10  # milli-CPU; less does not count as work
MIN_AGE_S = 0.05
_log = logging.getLogger(__name__)


class EarlySamples:
    """`agent` gives the engine of now, `period_s` the time between two ticks; `reacted` is told the seconds from the
    beginning to a changed knob.
    """

    def __init__(
        self,
        agent: Callable[[], Agent],
        actor: Actor,
        ticker: Ticker,
        *,
        period_s: Callable[[], float],
        monotonic: Callable[[], float],
        now_us: Callable[[], int],
        reacted: Callable[[float], None],
    ) -> None:
        self.pressure_events: dict[str, int] = {}
        self._agent, self._actor, self._ticker = agent, actor, ticker
        self._period_s, self._monotonic, self._now_us, self._reacted = period_s, monotonic, now_us, reacted
        self._sampled_s = float("-inf")  # when a trigger last caused a tick

    async def pressed(self, group: str, resource: str, stall_ppm: int) -> None:
        """A trigger fired: take a sample, at most once per period beside the ticks, and have urgent policies decide
        now.

        The last sample is from before the disturbance, so it does not show the group that causes it.
        """
        began_s, before = self._monotonic(), self._actor.knobs_changed
        self.pressure_events[resource] = self.pressure_events.get(resource, 0) + 1
        if began_s - self._sampled_s >= self._period_s() and self._ticker.age_s() >= MIN_AGE_S:
            self._sampled_s = began_s
            await self._ticker.try_tick()
        if not self._best_effort_runs():
            return  # no best-effort work to throttle: the service waits for itself or for the system
        try:
            await self._actor.exchange(lambda: self._agent().pressed(self._now_us(), group, resource, stall_ppm))
        except CotenantError as error:
            _log.warning("pressure on %s of /%s: %s", resource, group, error)
        self._note_reaction(began_s, before)

    async def changed(self) -> bool:
        """A look found a change: take a sample. Returns whether a knob was changed."""
        began_s, before = self._monotonic(), self._actor.knobs_changed
        if self._ticker.age_s() >= MIN_AGE_S:
            await self._ticker.try_tick()
        return self._note_reaction(began_s, before)

    def _note_reaction(self, began_s: float, before: int) -> bool:
        if self._actor.knobs_changed <= before:
            return False
        self._reacted(self._monotonic() - began_s)
        return True

    def _best_effort_runs(self) -> bool:
        """Whether best-effort work used CPU in the last sample."""
        state = self._agent().state()
        if state is None:
            return False
        uses = [pod_use.use.cpu_m for pod_use in state.best_effort_pods]
        return any(use is None or use >= MIN_USE_M for use in uses)
