"""A keeper within this process: what `--single` uses, and what the privileged process puts behind its socket.

Problem: rounds block (a CPU set, a sync, memory.high that reclaims), the event loop must not; and a caller that is cancelled must not leave half a
round behind. Choice: one thread of its own, which carries rounds out one after another, each to its end; the loop waits. Orders (memory.reclaim), for
which the kernel may take many seconds, have another; who asks waits for them no longer than `ORDERS_WITHIN_S`, and their outcome is in the audit trail.
Limits: a round that the kernel holds up delays those behind it, expiry too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cotenant.model.machine.knob import GiveBack, Lease, LeaseAnswer, LeaseState, SetKnob, Target
from cotenant.model.machine.node_decision import Reason
from cotenant.services.keeper.allowed import SELF, Asker
from cotenant.services.keeper.carrying import Carrier

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
STOPPED = Reason("stopped", "the keeper ends")
ORDERS_WITHIN_S = 0.1  # most are done by then, or have failed
LONGEST_REST_S = 1.0  # also how late an expiry may be noticed that a clock hid
LAST_TRIES = 8  # rounds at the end for knobs that could not be put back at once


class KeptHere:
    """Meets engine/node_ports.Keeper. `start`, then `run` as a task of its own, then `stop`, which tries `LAST_TRIES` times, `last_rest_s` apart."""

    def __init__(self, carrier: Carrier, last_rest_s: float = 0.25) -> None:
        self._carrier = carrier
        self._last_rest_s = last_rest_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keeper")
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="reclaim")
        self._orders: dict[Target, asyncio.Future[LeaseAnswer]] = {}  # under way
        self._news = asyncio.Event()
        self.troubles = 0  # rounds of the keeper's own that ended in an error nobody foresaw

    async def start(self, found: Iterable[Lease] = ()) -> tuple[LeaseAnswer, ...]:
        """Put back what an earlier process left."""
        left = tuple(found)
        return await self._round(lambda: self._carrier.restart(left)) if left else ()

    async def hold(self, wishes: Sequence[SetKnob], asker: Asker = SELF) -> tuple[LeaseAnswer, ...]:
        """As the Protocol. Knobs without an undo are turned beside the others; INTENDED where that is still under way."""
        lasting = [wish for wish in wishes if wish.target.knob.undoable]
        held = await self._round(lambda: self._carrier.hold(lasting, asker)) if lasting else ()
        self._news.set()
        orders = [self._order(wish, asker) for wish in wishes if not wish.target.knob.undoable]
        if orders:
            await asyncio.wait(orders, timeout=ORDERS_WITHIN_S)
        answers, ordered = iter(held), iter(orders)
        return tuple(
            next(answers) if wish.target.knob.undoable else _outcome(wish.target, next(ordered)) for wish in wishes
        )

    def _order(self, wish: SetKnob, asker: Asker) -> asyncio.Future[LeaseAnswer]:
        """What is done once is begun, or still under way."""
        order = self._orders.get(wish.target)
        if order is None:
            order = asyncio.get_running_loop().run_in_executor(self._aside, self._carrier.once, wish, asker)
            order.add_done_callback(lambda _: self._orders.pop(wish.target))
            self._orders[wish.target] = order
        return order

    async def give_back(self, requests: Sequence[GiveBack], asker: Asker = SELF) -> tuple[LeaseAnswer, ...]:
        """As the Protocol."""
        answers = await self._round(lambda: self._carrier.give_back(requests, asker))
        self._news.set()
        return answers

    async def leases(self) -> tuple[Lease, ...]:
        """As the Protocol."""
        return await self._round(self._carrier.leases)

    async def read(self, targets: Sequence[Target]) -> tuple[str | None, ...]:
        """What stands, canonical, of knobs that the rules allow; None where it could not be read."""
        return await self._round(lambda: self._carrier.read(targets))

    async def tick(self) -> None:
        """What is due now."""
        await self._round(self._carrier.tick)

    async def run(self) -> None:
        """Give back what expires, until cancelled."""
        while True:
            self._news.clear()
            try:
                rest_s = await self._round(self._turn)
            except Exception:  # the loop of a process: a defect must not end expiry
                self.troubles += 1
                _log.exception("a round of the keeper failed")
                rest_s = LONGEST_REST_S
            await self._rest(rest_s)

    def _turn(self) -> float | None:
        self._carrier.tick()
        return self._carrier.rest_s()

    async def _rest(self, rest_s: float | None) -> None:
        """Until so much time has passed by the carrier's clock, which may jump, or there is news."""
        until_us = None if rest_s is None else self._carrier.now_us() + round(rest_s * 1e6)
        while not self._news.is_set():
            left_s = None if until_us is None else (until_us - self._carrier.now_us()) / 1e6
            if left_s is not None and left_s <= 0:
                return
            # not wait_for: until Python 3.12 it loses a cancellation that comes together with the news
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if left_s is None else min(left_s, LONGEST_REST_S)):
                    await self._news.wait()

    async def stop(self) -> tuple[Lease, ...]:
        """Put everything back and end the threads. Gives the leases that could not be; the state file keeps them."""
        answers = await self._round(lambda: self._carrier.give_all_back(STOPPED))
        for _ in range(LAST_TRIES):
            if not any(answer.state is LeaseState.RESTORING for answer in answers):
                break
            await asyncio.sleep(self._last_rest_s)
            answers = await self._round(lambda: self._carrier.give_all_back(STOPPED))
        left = await self.leases()
        self._thread.shutdown()
        for order in list(self._orders.values()):  # the kernel may be busy with one for long
            order.cancel()
        self._aside.shutdown(wait=False, cancel_futures=True)
        return left

    async def _round(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _outcome(target: Target, order: asyncio.Future[LeaseAnswer]) -> LeaseAnswer:
    return order.result() if order.done() else LeaseAnswer(target, LeaseState.INTENDED, "is under way")
