"""How a model server and the offline jobs on its card slow one another: multiprocessors, memory bandwidth, PCIe.
Compiled.

Spatial sharing (MPS). Jobs want `m` of the multiprocessors, at most their ceiling. With f the law of the seed (linear,
knee or queueing, f(1) = 1: the same function as on nodes of CPUs) and X the interference:

    prefill takes  1 + X (a f(m) + a' f(bandwidth) + p f(PCIe of the root))   times as long; decoding likewise
    jobs have, of the multiprocessors, what the prefill's slowdown by m leaves them (1 - 1 / slow), what decoding does
    not use, and m while the server is idle; and are slowed by the bandwidth that the server takes.

So server and jobs together never have more than the whole card. Time-slicing: whoever has work takes equal turns, each
with the whole card; nothing else is shared.
Limits: pressures are means over a tick; jobs on one card slow one another by their sum of multiprocessors only; a
ceiling of multiprocessors bounds a job's bandwidth in proportion.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.compiled import njit
from cotenant_lab.gpuworld.config import GpuWorldConfig, SeedDraw
from cotenant_lab.world.contention import response
from cotenant_lab.world.state import Law


class GpuLaw(NamedTuple):
    """What contention costs in one run."""

    interference: float
    prefill_sm: float
    prefill_bandwidth: float
    decode_sm: float
    decode_bandwidth: float
    pcie: float
    offline_bandwidth: float
    server_decode_sm: float  # what a step of decoding keeps busy
    server_decode_bandwidth: float
    server_prefill_bandwidth: float
    cards_per_root: int
    sliced: bool
    switch: float  # share of a turn that is lost


class CardLoads(NamedTuple):
    """[R] of each card: what its offline jobs want, and its ceiling of multiprocessors."""

    jobs: Int
    sm: Float
    bandwidth: Float
    pcie: Float
    ceiling: Float


class CardRates(NamedTuple):
    """[R] what follows: slowdowns of the server, and the jobs' speed, 1 alone."""

    slow_prefill: Float
    slow_decode: Float
    speed: Float
    granted_sm: Float  # multiprocessors that the jobs have, mean over the tick


_SWITCH = 0.05  # of a turn [ours]


def gpu_law(config: GpuWorldConfig, seen: SeedDraw, sliced: bool) -> GpuLaw:
    """The law of a run."""
    own = seen.sensitivity
    return GpuLaw(
        config.interference, own.prefill_sm, own.prefill_bandwidth, own.decode_sm, own.decode_bandwidth, own.pcie,
        own.offline_bandwidth, config.decode_sm, config.decode_bandwidth, config.prefill_bandwidth,
        config.cards_per_root, sliced, _SWITCH,
    )  # fmt: skip


def new_loads(cards: int) -> CardLoads:
    """No jobs, no ceilings."""
    return CardLoads(np.zeros(cards, np.int64), np.zeros(cards), np.zeros(cards), np.zeros(cards), np.ones(cards))


def new_rates(cards: int) -> CardRates:
    """Everyone alone."""
    return CardRates(np.ones(cards), np.ones(cards), np.zeros(cards), np.zeros(cards))


@njit
def contend(loads: CardLoads, prefill: Float, decode: Float, g: GpuLaw, form: Law, rates: CardRates) -> None:
    """Write the rates. `prefill` and `decode` are [R], the shares of the last tick that a server spent in each."""
    for r in range(len(loads.jobs)):
        rates.slow_prefill[r] = 1.0
        rates.slow_decode[r] = 1.0
        rates.speed[r] = 0.0
        rates.granted_sm[r] = 0.0
        m = min(loads.sm[r], loads.ceiling[r], 1.0)
        held = m / loads.sm[r] if loads.sm[r] > 0.0 else 0.0  # what the ceiling leaves of what they want
        root = 0.0
        first = r - r % g.cards_per_root
        for other in range(first, min(first + g.cards_per_root, len(loads.jobs))):
            if loads.sm[other] > 0.0:
                root += loads.pcie[other] * min(loads.sm[other], loads.ceiling[other], 1.0) / loads.sm[other]
        if g.sliced:
            if loads.jobs[r] > 0:
                busy = min(1.0, prefill[r] + decode[r])
                rates.slow_prefill[r] = (1.0 + loads.jobs[r]) / (1.0 - g.switch)
                rates.slow_decode[r] = rates.slow_prefill[r]
                turn = busy / (1.0 + loads.jobs[r]) * (1.0 - g.switch)
                alone = (1.0 - busy) / loads.jobs[r] * (1.0 if loads.jobs[r] == 1 else 1.0 - g.switch)
                rates.speed[r] = turn + alone
                rates.granted_sm[r] = rates.speed[r] * loads.sm[r]
            continue
        wire = g.pcie * response(min(root, 1.0), form)
        on_sm, on_bandwidth = response(m, form), response(min(loads.bandwidth[r] * held, 1.0), form)
        beside = g.interference * g.prefill_sm * on_sm
        rates.slow_prefill[r] = 1.0 + beside + g.interference * (g.prefill_bandwidth * on_bandwidth + wire)
        rates.slow_decode[r] = 1.0 + g.interference * (g.decode_sm * on_sm + g.decode_bandwidth * on_bandwidth + wire)
        if loads.sm[r] > 0.0:
            left = max(0.0, 1.0 - prefill[r] - decode[r])
            in_prefill = min(m, 1.0 - 1.0 / (1.0 + beside))
            sm = prefill[r] * in_prefill + decode[r] * min(m, 1.0 - g.server_decode_sm) + left * m
            taken = prefill[r] * g.server_prefill_bandwidth + decode[r] * g.server_decode_bandwidth
            cost = 1.0 + g.interference * g.offline_bandwidth * response(min(taken, 1.0), form)
            rates.granted_sm[r] = sm / cost
            rates.speed[r] = sm / loads.sm[r] / cost
