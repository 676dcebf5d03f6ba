"""In which lines the programs of a container spend their time: sampled on request, Python's by py-spy, others by perf.

Off unless the configuration names it: stacks name what a program is and does.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import msgspec

from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.stacks.programs import Language, RunningProgram, programs_of
from cotenant.drivers.stacks.py_spy import record_timeline
from cotenant.drivers.stacks.sampling import SampledStacks, record_programs, samplers
from cotenant.engine.profiling.timelines import cut_to_runs, merged_timeline
from cotenant.model.errors import Permanent, Transient
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.containers import FleetContainer
from cotenant.model.fleet.profiles import Profile, Profiled
from cotenant.model.machine.stacks import Frame, Stack, StackTimeline
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.rpc import RpcVerb

MAX_AT_ONCE = 4  # processes that sample
_MAX_BYTES = 512 << 10  # of an answer's stacks


class ProfileFunction:
    """Implements `Function`. `process_of`: the running container; `find` and `take` as drivers/stacks has them."""

    name = "profiles"
    fault = ""

    def __init__(
        self,
        process_of: Callable[[str], Awaitable[FleetContainer]],
        find: Callable[[str], list[RunningProgram]] = programs_of,
        take: Callable[[Sequence[RunningProgram], int, int, bool], SampledStacks] = record_programs,
        take_timeline: Callable[[int, int, int], StackTimeline] = record_timeline,
    ) -> None:
        self._process_of, self._find, self._take, self._take_timeline = process_of, find, take, take_timeline
        self._sampling = 0
        self.verbs: Mapping[str, RpcVerb] = {"profile": RpcVerb(Profile, self._profile)}

    def configure(self, configuration: AgentConfiguration) -> None:
        """As the Protocol."""

    async def start(self) -> None:
        """As the Protocol."""

    async def stop(self) -> None:
        """As the Protocol."""

    async def add_to(self, beat: Beat) -> None:
        """As the Protocol."""

    async def _profile(self, request: Profile, _: BusMessage) -> Profiled:
        await self._process_of(request.guid)  # it is ours, and runs
        programs = await asyncio.to_thread(self._find, request.guid)
        if request.over_time:
            programs = [program for program in programs if program.language is Language.PYTHON]
        if not programs:
            kind = "Python process" if request.over_time else "process"
            raise Permanent(f"{request.guid} has no {kind} that this agent may read")
        count = samplers(programs)
        if self._sampling + count > MAX_AT_ONCE:
            raise Transient(f"{self._sampling} samplers run on this host, and {count} more are asked for")
        self._sampling += count
        at_s, pids = time.time(), tuple(program.pid for program in programs)
        try:
            if request.over_time:
                timelines = await asyncio.gather(
                    *(asyncio.to_thread(self._take_timeline, pid, request.seconds, request.rate_hz) for pid in pids)
                )
                return Profiled(pids, at_s, (), 0, _short(merged_timeline(timelines)))
            asked = programs, request.seconds, request.rate_hz, request.with_idle
            taken = await asyncio.to_thread(self._take, *asked)
        finally:
            self._sampling -= count
        counts: Counter[tuple[Frame, ...]] = Counter()
        for stack in taken.stacks:
            counts[stack.frames] += stack.samples
        return replace(_bounded(pids, at_s, counts), notes=taken.notes)


def _short(timeline: StackTimeline) -> StackTimeline:
    while (size := len(msgspec.json.encode(timeline))) > _MAX_BYTES:
        timeline = cut_to_runs(timeline, len(timeline.runs) * _MAX_BYTES // size * 9 // 10)
    return timeline


def _bounded(pids: tuple[int, ...], at_s: float, counts: Counter[tuple[Frame, ...]]) -> Profiled:
    kept: list[Stack] = []
    size = left_out = 0
    for frames, samples in counts.most_common():
        stack = Stack(frames, samples)
        size += len(msgspec.json.encode(stack))
        if size <= _MAX_BYTES:
            kept.append(stack)
        else:
            left_out += samples
    return Profiled(pids, at_s, tuple(kept), left_out)
