"""A model server's engine without a model: continuous batching, whose steps cost CPU time instead of a GPU's.

Each step takes the waiting requests for which the batch has room, reads their prompts, and makes one token for each
request in the batch. A step ends when it has had its CPU time, so whoever takes the core away makes tokens late, as a
busy GPU would.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

_BLOCK = bytes(1 << 16)


@dataclass
class Costs:
    """CPU time in microseconds."""

    step: int = 1500
    prompt_token: int = 10
    token: int = 150


@dataclass(eq=False)
class Request:
    """One answer. Times are of a monotonic clock, in seconds."""

    prompt_tokens: int
    max_tokens: int
    arrived_s: float
    begun_s: float = 0.0
    token_s: list[float] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def first_token_s(self) -> float:
        """From its arrival."""
        return self.token_s[0] - self.arrived_s

    @property
    def per_token_s(self) -> float:
        """The mean after the first one; 0 for a single token."""
        rest = len(self.token_s) - 1
        return (self.token_s[-1] - self.token_s[0]) / rest if rest else 0.0


class Engine:
    """The batch."""

    def __init__(self, costs: Costs, max_batch: int = 8) -> None:
        self.costs, self.max_batch = costs, max_batch
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.first_token: Callable[[Request], None] = lambda request: None  # told when a request has it
        self._came = asyncio.Event()

    async def answer(self, prompt_tokens: int, max_tokens: int) -> Request:
        """Wait until it is made."""
        request = Request(prompt_tokens, max_tokens, time.monotonic())
        self.waiting.append(request)
        self._came.set()
        await request.done.wait()
        return request

    async def run(self) -> None:
        """Step while there is anything to do."""
        while True:
            while not (self.waiting or self.running):
                self._came.clear()
                await self._came.wait()
            await self.step()

    async def step(self) -> None:
        """One step of the batch."""
        prompts = 0
        while self.waiting and len(self.running) < self.max_batch:
            request = self.waiting.popleft()
            request.begun_s = time.monotonic()
            prompts += request.prompt_tokens
            self.running.append(request)
        costs = self.costs
        await asyncio.to_thread(spend, costs.step + prompts * costs.prompt_token + len(self.running) * costs.token)
        now_s = time.monotonic()
        for request in self.running:
            request.token_s.append(now_s)
            if len(request.token_s) == 1:
                self.first_token(request)
        for request in [request for request in self.running if len(request.token_s) >= request.max_tokens]:
            self.running.remove(request)
            request.done.set()


def spend(us: int) -> None:
    """Use so much CPU time; the interpreter is free meanwhile."""
    end_s = time.thread_time() + us / 1e6
    while time.thread_time() < end_s:
        hashlib.sha256(_BLOCK)
