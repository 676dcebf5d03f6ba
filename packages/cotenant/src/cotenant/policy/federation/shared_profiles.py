"""What several clusters learned of one workload, as one figure.

A workload that runs in several clusters is learned in each anew, and where it is new nothing is known of it. A cluster
states what it learned itself, never what it got from others: the value, its interval, and the windows that it was
learned from, which is all that a combination needs. Combined are the weighted medians of values and of both ends. A
cluster's weight is its windows, at most `MAX_WINDOWS`, and less than that of all others together where there are three
or more (`bounded_weights`): then one that lies cannot move a figure beyond what the others state. Of two, each decides
half; one alone is taken at its word.
Limits: clusters with other machines have other figures, and nothing tells that from a lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from cotenant.model.cluster.workload_profile import LARGEST
from cotenant.policy.federation.medians import bounded_weights, weighted_median

MAX_WINDOWS = 1000


class Evidence(msgspec.Struct, frozen=True, array_like=True):
    """A figure in thousandths with its 95 % interval, and how many windows it was learned from."""

    value: int
    low: int
    high: int
    windows: int


class SharedProfile(msgspec.Struct, frozen=True, array_like=True):
    """Of the workloads with one shared name. In a statement: what its cluster learned, nothing where it only asks. In
    an answer: what `clusters` others learned.
    """

    name: str
    sensitivity: Evidence | None = None
    pressure: Evidence | None = None
    tolerates: Evidence | None = None
    clusters: int = 0


def is_possible(found: Evidence) -> bool:
    """Whether a cluster can have learned it."""
    return 0 <= found.low <= found.value <= found.high <= LARGEST and 1 <= found.windows < 2**53


def together(name: str, told: Sequence[SharedProfile]) -> SharedProfile:
    """One profile of those that different clusters, or workloads, have."""
    return SharedProfile(
        name,
        combined([one.sensitivity for one in told if one.sensitivity is not None]),
        combined([one.pressure for one in told if one.pressure is not None]),
        combined([one.tolerates for one in told if one.tolerates is not None]),
        sum(not is_empty(one) for one in told),
    )


def is_empty(found: SharedProfile) -> bool:
    """Whether it has no figure."""
    return found.sensitivity is None and found.pressure is None and found.tolerates is None


def combined(told: Sequence[Evidence]) -> Evidence | None:
    """One figure; None without any."""
    if not told:
        return None
    weights = bounded_weights([one.windows for one in told], MAX_WINDOWS)

    def middle(part: Callable[[Evidence], int]) -> int:
        return weighted_median([part(one) for one in told], weights)

    low, value, high = middle(lambda one: one.low), middle(lambda one: one.value), middle(lambda one: one.high)
    return Evidence(value, min(low, value), max(high, value), min(MAX_WINDOWS, sum(weights)))
