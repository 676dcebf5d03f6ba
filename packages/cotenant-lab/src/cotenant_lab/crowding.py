"""How much neighbours slow pods whose places and use are known, by the world's laws of contention. Compiled.

The world simulates its own workloads; here the places are someone else's, so only the law is used: each pod's slowdown
is (1 + a f(B)) smt, with the others' pressure B = sum of b x cores in use / half of the node, and smt by how full the
node is (contention.py). Sensitivity a and pressure b of strangers' programs are not known: they are drawn, once a
workload, from the distribution that matches published pairs of co-located programs.
Limits: no CPU time is withheld and no cache partitioned, as on a node without QoS that is not full; memory does not
squeeze.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.compiled import njit
from cotenant_lab.workloads.colocation import profile_pairs
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.contention import response, smt_slowdown
from cotenant_lab.world.laws import drawn
from cotenant_lab.world.state import Law, law

_STREAM = 43  # of the seed


class Crowd(NamedTuple):
    """Pods on nodes: cores in use `[pods, steps]` (0 where a pod does not run), rows of nodes, cores of nodes."""

    cores: Float
    on: Int
    capacity: Float


def profiles_of(workloads: Sequence[str], seed: int, config: WorldConfig) -> tuple[Float, Float]:
    """Sensitivity and pressure of each workload, the same for one name and seed wherever it stands."""
    pairs = np.empty((len(workloads), 2))
    for at, name in enumerate(workloads):
        digest = int.from_bytes(sha256(name.encode("utf-8", "surrogatepass")).digest()[:8])
        rng = np.random.default_rng([seed, _STREAM, digest])
        sensitivity, pressure = profile_pairs(config, rng, 1)
        pairs[at] = sensitivity[0], pressure[0]
    return pairs[:, 0], pairs[:, 1]


def law_of_seed(seed: int) -> Law:
    """The mixed law: its form and parameters are drawn from the seed."""
    return law(drawn(WorldConfig(), "mixed", seed))


@njit
def slowdowns(crowd: Crowd, sensitivity: Float, pressure: Float, w: Law) -> Float:
    """Slowdown of each pod at each step, 1 = alone; NaN where it does not run."""
    pods, steps = crowd.cores.shape
    nodes = len(crowd.capacity)
    found = np.full((pods, steps), np.nan)
    total = np.zeros(nodes)
    busy = np.zeros(nodes)
    for step in range(steps):
        total[:] = 0.0
        busy[:] = 0.0
        for p in range(pods):
            node = crowd.on[p]
            if node >= 0:
                busy[node] += crowd.cores[p, step]
                total[node] += pressure[p] * crowd.cores[p, step]
        for p in range(pods):
            node = crowd.on[p]
            if node >= 0 and crowd.cores[p, step] > 0.0:
                pair = 0.5 * crowd.capacity[node]
                others = max(0.0, total[node] - pressure[p] * crowd.cores[p, step]) / pair
                smt = smt_slowdown(busy[node] / crowd.capacity[node], w.smt_loss)
                found[p, step] = (1.0 + sensitivity[p] * response(others, w)) * smt
    return found
