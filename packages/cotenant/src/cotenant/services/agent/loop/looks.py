"""Looks between two ticks: what best-effort work uses, and a tick at once where that changed.

It needs no privilege and no pressure information, so it is there on every node; a trigger of the kernel is quicker
where it is granted. At most `MAX_GROUPS` groups are looked at, the common one of all best-effort work first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from cotenant.engine.node.bursts import Bursts, BurstSettings
from cotenant.model.machine.node_state import NodeState
from cotenant.policy.nodeqos.cpu.suppression import is_below

MAX_GROUPS = 64


def best_effort_groups(state: NodeState) -> tuple[str, ...]:
    """The groups that together have all best-effort work, none below another."""
    common = state.best_effort_group
    pods = [use.pod.group for use in state.best_effort_pods if use.pod.group]
    outside = [group for group in pods if not common or not is_below(group, common)]
    return tuple(([common] if common else []) + outside)[:MAX_GROUPS]


class Looks:
    """`sample` takes one, and says whether a limit was changed."""

    def __init__(
        self,
        settings: BurstSettings,
        cpus: int,
        *,
        state: Callable[[], NodeState | None],
        read: Callable[[Sequence[str]], Mapping[str, int]],
        sample: Callable[[], Awaitable[bool]],
        now_us: Callable[[], int],
        cpu_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self.asked = 0  # samples that were asked for
        self._bursts = Bursts(settings, cpus)
        self._look_s = settings.look_us / 1_000_000
        self._state, self._read, self._sample, self._now_us, self._cpu_ns = state, read, sample, now_us, cpu_ns

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._look_s)
            await self.check_bursts()

    async def check_bursts(self) -> None:
        """One look, and what follows of it."""
        state = self._state()
        if state is None:
            return
        if self._bursts.looked(self._now_us(), self._read(best_effort_groups(state))):
            self.asked += 1
            before_ns = self._cpu_ns()
            if await self._sample():
                self._bursts.acted()
            self._bursts.sampled((self._cpu_ns() - before_ns) // 1000)
