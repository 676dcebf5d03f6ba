"""The schedulers' view of a workload.

A simulated comparison is worthless if a policy can read the simulator. Two disjoint types. `Offer` has requests,
identities, deadlines and noisy estimates; `cotenant_lab.world.truth.Truth` is what the world runs on. Neither refers to
the other, and everything on the scheduler's side takes an `Offer` only.
Limits: with an estimate error of zero an offer contains the stages' true values, which is how a fully informed policy
is run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask


class Offer(NamedTuple):
    """A workload as schedulers see it. K shapes (a service or a stage of a batch job), P pods, J jobs.

    Pods of a shape are interchangeable and numbered `first_pod[k] .. first_pod[k] + pods[k] - 1`.
    """

    # by shape, [K]
    cpu_milli: Int  # requested
    memory_bytes: Int  # requested
    tenant: Int
    is_service: Mask
    group_limit: Int  # most pods of this shape on one node; 0 = no limit (batch)
    job: Int  # -1 for a service
    level: Int  # stage within its job, 0 first; stages run one after another
    pods: Int
    first_pod: Int
    est_use_cores: Float  # a pod's mean; a service: at its daily peak
    est_use_memory_bytes: Float
    est_sensitivity: Float  # a: slowdown per unit of pressure in this world; 0 with interference 0
    est_pressure: Float  # b: pressure per half node filled
    est_tolerance: Float  # slowdown that a service's objective tolerates, >= 1; NaN for batch
    est_duration_s: Float  # a pod's, alone on a machine; inf for a service
    # by pod, [P]
    shape: Int
    # by job, [J]
    arrival_s: Float
    deadline_s: Float
    levels: Int
    first_shape: Int  # its level 0; its levels are consecutive

    tenants: int


def without_profiles(offer: Offer) -> Offer:
    """The offer of a cluster in which nobody declares profiles: sensitivity and pressure 0, and no statement of
    what services tolerate.
    """
    nothing = np.zeros(len(offer.cpu_milli))
    return offer._replace(
        est_sensitivity=nothing,
        est_pressure=nothing.copy(),
        est_tolerance=np.where(offer.is_service, np.inf, np.nan),
    )
