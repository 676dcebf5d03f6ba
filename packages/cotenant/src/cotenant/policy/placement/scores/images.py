"""Image locality: nodes that already have a pod's images, the larger and the more common the better.

Pulling a large image takes longer than starting its container. kube-scheduler's formula. An image counts by its size on
the node times the share of nodes that have it, so that a pod does not follow an image to the only node that has it; the
sum is scaled between 23 MiB (0) and 1000 MiB for each container (100).
Limits: images of image volumes do not count; layers that images share are not known.
Source: kube-scheduler's ImageLocality plugin.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Float

_LEAST = 23 << 20  # bytes that do not matter
_MOST = 1000 << 20  # bytes of one container's image beyond which more does not matter


def score(scaled_bytes: Float, containers: int) -> Float:
    """`float64[N]`, whole 0..100, from each row's sum of size times share of nodes, for a pod with this many
    containers.
    """
    most = float(_MOST * containers)
    bounded = np.clip(scaled_bytes, _LEAST, most)
    return np.floor(100.0 * (bounded - _LEAST) / (most - _LEAST))
