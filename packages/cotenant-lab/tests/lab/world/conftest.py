"""The smallest scheduler that can drive a world: random fit by requests, services first, a round every five seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from cotenant_lab.workloads.colocation import generate
from cotenant_lab.world.accounting import RunMetrics
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.offer import Offer
from cotenant_lab.world.truth import Truth
from cotenant_lab.world.world import World


@dataclass
class Life:
    """A world after its run."""

    world: World
    account: RunMetrics
    truth: Truth
    offer: Offer
    placements: list[tuple[float, int, int]]  # time, pod, row


class RandomFit:
    """Free requests of each node, and the waiting pods; `pack` takes the lowest row that fits instead of a random
    one.
    """

    def __init__(self, offer: Offer, config: WorldConfig, seed: int, pack: bool) -> None:
        self.offer, self.pack = offer, pack
        self.rng = np.random.default_rng(seed)
        self.cpu = np.full(config.nodes, 1000 * config.node_cores)
        self.memory = np.full(config.nodes, config.node_memory_bytes)
        self.up = np.ones(config.nodes, bool)
        self.group = np.zeros((config.nodes, len(offer.pods)), np.int64)
        self.row = np.full(len(offer.shape), -1)
        self.hold = np.zeros(len(offer.shape))
        self.queue: list[int] = []

    def release(self, pods: np.ndarray) -> None:
        shape, row = self.offer.shape[pods], self.row[pods]
        np.add.at(self.cpu, row, self.offer.cpu_milli[shape])
        np.add.at(self.memory, row, self.offer.memory_bytes[shape])
        np.subtract.at(self.group, (row, shape), 1)
        self.row[pods] = -1

    def round(self, now_s: float) -> tuple[list[int], list[int]]:
        pods, rows, waiting = [], [], []
        for pod in self.queue:
            k = self.offer.shape[pod]
            fits = self.up & (self.cpu >= self.offer.cpu_milli[k]) & (self.memory >= self.offer.memory_bytes[k])
            if self.offer.group_limit[k]:
                fits &= self.group[:, k] < self.offer.group_limit[k]
            able = np.flatnonzero(fits)
            if self.hold[pod] > now_s or not able.size:
                waiting.append(pod)
                continue
            row = int(able[0] if self.pack else able[self.rng.integers(able.size)])
            self.cpu[row] -= self.offer.cpu_milli[k]
            self.memory[row] -= self.offer.memory_bytes[k]
            self.group[row, k] += 1
            self.row[pod] = row
            pods.append(pod)
            rows.append(row)
        self.queue = waiting
        return pods, rows


@pytest.fixture(scope="session")
def live() -> Callable[..., Life]:
    """`live(config, seed, load, pack=False, until_s=None)`: a whole run."""

    def run(
        config: WorldConfig,
        seed: int = 0,
        load: float = 0.77,
        pack: bool = False,
        until_s: float | None = None,
        on_round: Callable[[World], None] | None = None,
    ) -> Life:
        truth, offer = generate(config, seed, load)
        world = World(truth, config, seed)
        placer = RandomFit(offer, config, seed, pack)
        placements: list[tuple[float, int, int]] = []
        now = 0.0
        while not world.done and (until_s is None or now <= until_s):
            happened = world.advance(now)
            for gone in (happened.finished, happened.evicted):
                if gone.size:
                    placer.release(gone)
            placer.hold[happened.evicted] = happened.hold_until_s
            placer.up[happened.nodes_down], placer.up[happened.nodes_up] = False, True
            placer.queue += happened.evicted.tolist() + happened.ready.tolist()
            if placer.queue:
                pods, rows = placer.round(now)
                if pods:
                    world.start(np.array(pods), np.array(rows))
                    placements += [(now, pod, row) for pod, row in zip(pods, rows, strict=True)]
            if on_round is not None:
                on_round(world)
            now += 5.0
        return Life(world, world.account(), truth, offer, placements)

    return run


@pytest.fixture
def small() -> WorldConfig:
    """A tenth of the founding cluster."""
    return WorldConfig(nodes=25, pods=2000)
