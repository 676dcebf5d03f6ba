"""A keeper within this process: used by `--single`, and by the privileged process behind its socket.

Rounds block (a CPU set, a sync, memory.high that reclaims) and the event loop must not; a cancelled caller must not
leave half a round behind. One dedicated thread that executes rounds one after another, each to its end, while the loop
waits. One-shot knobs (memory.reclaim), for which the kernel may take many seconds, have another thread; a caller waits
for them no longer than `ONE_SHOT_WAIT_S`, and their outcome is in the audit trail.
Limits: a round that the kernel delays also delays those behind it, including expiry.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import GiveBack, KnobLease, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.executor import LeaseExecutor
from cotenant.services.knobs.rules import SELF, KnobRules, Requester

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
STOPPED = Reason("stopped", "the keeper stops")
ONE_SHOT_WAIT_S = 0.1  # most have finished or failed by then
LONGEST_SLEEP_S = 1.0  # also the longest delay of an expiry after a clock jump
UNWATCHED_S = 1.0  # how often held knobs are looked at where the kernel reports no writes
SETTLE_S = 0.03
LAST_TRIES = 8  # rounds at stop for knobs that could not be restored at once


class GroupWatch(Protocol):
    """Tells which groups were written (drivers/cgroup/watch.py)."""

    unwatched: frozenset[str]

    @property
    def descriptor(self) -> int:
        """Readable when something was written."""
        ...

    def follow(self, targets: Iterable[KnobTarget]) -> None:
        """Watch the groups of these knobs."""
        ...

    def written(self) -> frozenset[str]:
        """The groups that were written since the last call."""
        ...


class LocalKeeper:
    """Implements engine/node/interfaces.Keeper. `start`, then `run` as a task of its own, then `stop`, which tries
    `LAST_TRIES` times, `last_rest_s` apart.
    """

    def __init__(self, executor: LeaseExecutor, watch: GroupWatch | None = None, last_rest_s: float = 0.25) -> None:
        self._executor = executor
        self._watch = watch
        self._last_rest_s = last_rest_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keeper")
        self._one_shot_thread = ThreadPoolExecutor(1, thread_name_prefix="reclaim")
        self._one_shots: dict[KnobTarget, asyncio.Future[LeaseAnswer]] = {}  # under way
        self._changed = asyncio.Event()
        self.errors = 0  # rounds of the keeper's own that ended in an unexpected error

    @property
    def rules(self) -> KnobRules:
        """What it grants."""
        return self._executor.rules

    async def start(self, found: Iterable[KnobLease] = ()) -> tuple[LeaseAnswer, ...]:
        """Restore what an earlier process left."""
        left = tuple(found)
        return await self._round(lambda: self._executor.restart(left)) if left else ()

    async def hold(self, wanted: Sequence[SetKnob], requester: Requester = SELF) -> tuple[LeaseAnswer, ...]:
        """As the Protocol. One-shot knobs are written beside the others; INTENDED where that is still under way."""
        lasting = [wish for wish in wanted if wish.target.knob.undoable]
        held = await self._round(lambda: self._hold(lasting, requester)) if lasting else ()
        self._changed.set()
        one_shots = [self._start_one_shot(wish, requester) for wish in wanted if not wish.target.knob.undoable]
        if one_shots:
            await asyncio.wait(one_shots, timeout=ONE_SHOT_WAIT_S)
        answers, outcomes = iter(held), iter(one_shots)
        return tuple(
            next(answers) if wish.target.knob.undoable else _outcome(wish.target, next(outcomes)) for wish in wanted
        )

    def _hold(self, wanted: Sequence[SetKnob], requester: Requester) -> tuple[LeaseAnswer, ...]:
        answers = self._executor.hold(wanted, requester)
        self._follow()
        return answers

    def _start_one_shot(self, wanted: SetKnob, requester: Requester) -> asyncio.Future[LeaseAnswer]:
        """Start the write of a one-shot knob, unless it is still under way."""
        write = self._one_shots.get(wanted.target)
        if write is None:
            write = asyncio.get_running_loop().run_in_executor(
                self._one_shot_thread, self._executor.once, wanted, requester
            )
            write.add_done_callback(lambda _: self._one_shots.pop(wanted.target))
            self._one_shots[wanted.target] = write
        return write

    async def give_back(self, requests: Sequence[GiveBack], requester: Requester = SELF) -> tuple[LeaseAnswer, ...]:
        """As the Protocol."""
        answers = await self._round(lambda: self._executor.give_back(requests, requester))
        self._changed.set()
        return answers

    async def leases(self) -> tuple[KnobLease, ...]:
        """As the Protocol."""
        return await self._round(self._executor.leases)

    async def read(self, targets: Sequence[KnobTarget]) -> tuple[str | None, ...]:
        """The canonical values of knobs that the rules allow; None where a knob could not be read."""
        return await self._round(lambda: self._executor.read(targets))

    async def facts(self) -> KubeletFacts:
        """What is known of the other writers; systemd may be slow to answer."""
        return await self._round(self.rules.facts)

    async def tick(self) -> None:
        """Do what is due now."""
        await self._round(self._executor.tick)

    async def run(self) -> None:
        """Restore what expires, and write again what others put back, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._expire_all(), name="expiry")
            tasks.create_task(self._guard_held(), name="watch")

    async def _guard_held(self) -> None:
        """Look at the knobs of groups in which something was written; at all of them each second where there is no
        watch.
        """
        while True:
            try:
                await self._written()
                await asyncio.sleep(SETTLE_S)  # a writer that sets several files is let finish
                await self._round(self._look)
            except Exception:  # the loop of a process: a defect must end neither the watch nor expiry beside it
                self.errors += 1
                _log.exception("looking at held knobs failed")
                await asyncio.sleep(UNWATCHED_S)

    async def _written(self) -> None:
        """Wait until something was written, or a second where that is not reported of every group."""
        loop = asyncio.get_running_loop()
        written = asyncio.Event()
        if self._watch is not None:
            loop.add_reader(self._watch.descriptor, written.set)
        try:
            is_whole = self._watch is not None and not self._watch.unwatched
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if is_whole else UNWATCHED_S):
                    await written.wait()
        finally:
            if self._watch is not None:  # it stays readable until it is read, on the keeper's thread
                loop.remove_reader(self._watch.descriptor)

    def _look(self) -> None:
        """On the keeper's thread."""
        if self._watch is None:
            self._executor.check(frozenset(lease.target.group for lease in self._executor.leases()))
            return
        self._executor.check(self._watch.written() | self._watch.unwatched)
        self._follow()

    def _follow(self) -> None:
        if self._watch is not None:
            self._watch.follow(lease.target for lease in self._executor.leases())

    async def _expire_all(self) -> None:
        while True:
            self._changed.clear()
            try:
                next_tick_s = await self._round(self._expire)
            except Exception:  # the loop of a process: a defect must not end expiry
                self.errors += 1
                _log.exception("a round of the keeper failed")
                next_tick_s = LONGEST_SLEEP_S
            await self._sleep(next_tick_s)

    def _expire(self) -> float | None:
        self._executor.tick()
        self._follow()
        return self._executor.next_tick_s()

    async def _sleep(self, next_tick_s: float | None) -> None:
        """Sleep for this long by the executor's clock, which may jump, or until something changed."""
        until_us = None if next_tick_s is None else self._executor.now_us() + round(next_tick_s * 1e6)
        while not self._changed.is_set():
            left_s = None if until_us is None else (until_us - self._executor.now_us()) / 1e6
            if left_s is not None and left_s <= 0:
                return
            # not wait_for: until Python 3.12 it loses a cancellation that comes together with the event
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if left_s is None else min(left_s, LONGEST_SLEEP_S)):
                    await self._changed.wait()

    async def stop(self) -> tuple[KnobLease, ...]:
        """Restore everything and end the threads. Returns the leases that could not be restored; the state file
        keeps them.
        """
        answers = await self._round(lambda: self._executor.give_all_back(STOPPED))
        for _ in range(LAST_TRIES):
            if not any(answer.state is LeaseState.RESTORING for answer in answers):
                break
            await asyncio.sleep(self._last_rest_s)
            answers = await self._round(lambda: self._executor.give_all_back(STOPPED))
        left = await self.leases()
        self._thread.shutdown()
        for write in list(self._one_shots.values()):  # the kernel may be busy with one for a long time
            write.cancel()
        self._one_shot_thread.shutdown(wait=False, cancel_futures=True)
        return left

    async def _round(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _outcome(target: KnobTarget, write: asyncio.Future[LeaseAnswer]) -> LeaseAnswer:
    return write.result() if write.done() else LeaseAnswer(target, LeaseState.INTENDED, "is under way")
