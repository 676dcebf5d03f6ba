"""Upper bound of what any policy could hold at once in the co-located world.

A success rate means little without the possible maximum. At some instants, take the services and every stage that would
be running if its job ran alone on arrival, and compute with the LP bound which share of their CPU demand fluid pods
could be given.
Limits: no departures, no contention, fractions of pods: an upper bound, not a forecast.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.arrays import CPU, Float, PendingArrays, TenantArrays
from cotenant.policy.placement.contract import Snapshot
from cotenant_lab.baselines.bounds import lp_bound
from cotenant_lab.offered import OfferedPods, nodes_of
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.offer import Offer


def max_held(offer: Offer, config: WorldConfig, times_s: Float) -> tuple[Float, Float]:
    """For each instant: the largest share of the demand that can be held, and the demand as a fraction of the
    cluster's CPU.
    """
    encoder = Encoder(config.node_cores / 2.0)
    for node in nodes_of(config):
        encoder.add_node(node)
    row_of = np.array([encoder.intern(pod.shape()) for pod in OfferedPods(offer).templates], dtype=np.int64)
    nodes, shapes = encoder.nodes(), encoder.shapes()
    starts = np.zeros(len(offer.cpu_milli))
    for k in np.flatnonzero(~offer.is_service):
        first = offer.level[k] == 0
        starts[k] = offer.arrival_s[offer.job[k]] if first else starts[k - 1] + offer.est_duration_s[k - 1]
    ends = starts + offer.est_duration_s
    held, demanded = np.empty(len(times_s)), np.empty(len(times_s))
    for i, now in enumerate(times_s):
        running = np.flatnonzero((starts <= now) & (ends > now))
        offered = np.repeat(running, offer.pods[running])
        shape, size = row_of[offered], len(offered)
        zeros = np.zeros(size)
        pending = PendingArrays(
            np.arange(size),
            shape,
            shapes.tenant[shape],
            offer.job[offered],
            shape,
            offer.is_service[offered],
            zeros,
            zeros,
            zeros,
            zeros,
        )
        tenants = TenantArrays(
            np.zeros((encoder.tenant_rows, nodes.capacity.shape[1]), np.int64), np.ones(encoder.tenant_rows)
        )
        held[i] = lp_bound(Snapshot(nodes, shapes, pending, tenants), CPU)
        demanded[i] = offer.cpu_milli[offered].sum() / nodes.capacity[:, CPU].sum()
    return held, demanded
