"""Candidate domains for a gang: domains of a topology key that have capacity for all of it, the tightest first.

Trying a transaction in every rack of a large cluster is too expensive. The number of pods of each shape that each node
could take by itself is summed over each domain; a domain where some shape, or all requests together, do not fit is
skipped, and of the others the one with least capacity left is tried first.
Limits: necessary conditions only (labels, taints and rules about other pods are not checked): a candidate may still
fail.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.topology import Domains


def with_room(domains: Domains, ready: Mask, free: Int, requests: Int, counts: Int) -> tuple[int, ...]:
    """Indexes of the domains to try, in order. `free[N, R]`; `requests[S, R]` of the gang's shapes, `counts[S]` how
    many of each.
    """
    if not domains.names:
        return ()
    usable = np.where(ready[:, None], np.maximum(free, 0), 0)
    total = (requests * counts[:, None]).sum(axis=0)
    room = np.stack([domains.total(usable[:, r]) for r in range(usable.shape[1])], axis=1)
    fits = (room >= total).all(axis=1)
    for request, count in zip(requests, counts.tolist(), strict=True):
        asked = request > 0
        if asked.any():
            alone = (usable[:, asked] // request[asked]).min(axis=1)
            fits &= domains.total(np.minimum(alone, count)) >= count
    asked = total > 0
    scale = np.maximum(1, room[:, asked].max(axis=0)) if asked.any() else np.ones(0)
    left = ((room - total)[:, asked] / scale).sum(axis=1)
    numbers = np.flatnonzero(fits)
    return tuple(int(number) for number in numbers[np.argsort(left[numbers], kind="stable")])


def within_reach(domains: Domains, ready: Mask, free: Int, yielding: Int, asked: Int) -> tuple[int, ...]:
    """Indexes of the domains that fit `asked[R]` once everything preemptible is gone, those that lack least now first.

    `free[N, R]`, `yielding[N, R]`: free amounts of nodes, and amounts held by pods that may be evicted.
    """
    if not domains.names:
        return ()
    resources = range(len(asked))
    now = np.where(ready[:, None], np.maximum(free, 0), 0)
    most = np.where(ready[:, None], np.maximum(free + yielding, 0), 0)
    room = np.stack([domains.total(now[:, r]) for r in resources], axis=1)
    reach = np.stack([domains.total(most[:, r]) for r in resources], axis=1)
    missing = (np.maximum(0, asked - room) / np.maximum(1, asked)).sum(axis=1)
    numbers = np.flatnonzero((reach >= asked).all(axis=1))
    return tuple(int(number) for number in numbers[np.argsort(missing[numbers], kind="stable")])


def rows_of(domains: Domains, number: int) -> Mask:
    """`bool[N]`: the nodes of one domain."""
    return domains.of_node == number
