"""When new amounts are written to a node, and what the node's resources are then.

A write per measurement would rewrite every node every minute, and an error that removes amounts evicts the pods that
hold them. An amount is written when it appears, disappears, or moves by more than a share of the present one, and at
the latest after a while. A tier is in one of three states: computed, failed (the amounts on the node stay) or withdrawn
(stale measurements, colocation off: the amounts are removed, those of the NUMA zones with them; upstream leaves the
zones' and removes a failed tier). Third-party allocations are subtracted, and what was before them is kept for readers.
Source: Koordinator, pkg/slo-controller/noderesource (resource_calculator.go, plugins/batchresource Prepare, NeedSync).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isnan

from cotenant.policy.overcommit.amplification import normalized
from cotenant.policy.overcommit.batch import BATCH_CPU, BATCH_MEMORY
from cotenant.policy.overcommit.facts import Amount
from cotenant.policy.overcommit.mid import MID_CPU, MID_MEMORY

BATCH = (BATCH_CPU, BATCH_MEMORY)
MID = (MID_CPU, MID_MEMORY)
LENT = (*BATCH, *MID)  # short names of the resources written here


def is_degraded(metric_age_s: float, degrade_minutes: int) -> bool:
    """Whether a measurement is too old to lend by; NaN = there is none."""
    return isnan(metric_age_s) or metric_age_s > degrade_minutes * 60


def differs(old: Mapping[str, int], new: Mapping[str, int], threshold: float) -> bool:
    """Whether the amounts should be written: a key comes or goes, or one moves by more than this share of the old."""
    if old.keys() != new.keys():
        return True
    return any(abs(new[name] - old[name]) > old[name] * threshold for name in new)


def is_due(since_written_s: float, max_s: float) -> bool:
    """Whether so much time has passed since this process wrote that it writes again; NaN = it has not written."""
    return isnan(since_written_s) or since_written_s > max_s


@dataclass(frozen=True, slots=True)
class Adjustments:
    """What follows the formula: a CPU normalization ratio and allocations of third parties, by short name."""

    normalization: Decimal | None = None
    third_party: Mapping[str, int] | None = None


def adjusted(amount: Amount, by: Adjustments) -> Amount:
    """A batch amount after normalization and third parties, at least zero."""
    if amount.resource == BATCH_CPU:
        amount = amount.then(f"CPU normalization x {by.normalization}", normalized(amount.value, by.normalization))
    taken = (by.third_party or {}).get(amount.resource, 0)
    return amount.then("allocated by third parties", max(0, amount.value - taken))


def resources(present: Mapping[str, int], computed: Mapping[str, int | None]) -> dict[str, int]:
    """A node's resources with computed amounts; None removes one, and what is not computed stays as it is."""
    found = {name: amount for name, amount in present.items() if name not in computed}
    return {**found, **{name: amount for name, amount in computed.items() if amount is not None}}


def status_is_due(
    old: Mapping[str, int] | None,
    new: Mapping[str, int] | None,
    threshold: float,
    since_written_s: float,
    max_s: float,
) -> bool:
    """Whether amounts are written now; None = there is no node. Nothing is due where there is nothing on either
    side.
    """
    if old is None or new is None or not (old or new):
        return False
    return differs(old, new, threshold) or is_due(since_written_s, max_s)


def labels_differ(managed: tuple[str, ...], old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether one of the labels that the manager sets has another value."""
    return any(old.get(name) != new.get(name) for name in managed)
