"""The root quota of the tree that a profile describes: as large as the selected nodes, with the terms of its amounts.

    minimum = floor(sum of the allocatable amounts of the selected nodes x ratio), for each of the profile's resources
    maximum = no limit

Nodes that take no pods count, and their part stands in an annotation of its own, from which schedulers may subtract it.
The tree's id is the profile's label, else a hash of its key, so that the same profile in another cluster has the same
tree. Limits: a pod that runs on a node outside the selection still counts in its quota.

Source: Koordinator, pkg/quota-controller/profile (profile_controller.go).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.groups.quota import IS_ROOT, NO_LIMIT, TOTAL_RESOURCE, TREE_ID
from cotenant.model.groups.quota_profile import (
    PROFILE,
    TERMS,
    UNSCHEDULABLE_RESOURCE,
    ProfileNode,
    QuotaProfile,
    StoredQuota,
)
from cotenant.model.resources import CPU_NAME, Amounts, format_amount

MOST = (2**63 - 1) // 2000  # no limit, as upstream writes it; in CPUs it is beyond the largest amount
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


@dataclass(frozen=True, slots=True)
class ProfileQuota:
    """What the profile's quota should have; other labels, annotations and resources of it stay."""

    key: str  # namespace/name
    labels: dict[str, str]
    annotations: dict[str, str]
    minimum: Amounts
    maximum: Amounts
    nodes: int

    def stands(self, stored: StoredQuota | None) -> bool:
        """Whether the stored quota has all of it."""
        return (
            stored is not None
            and self.labels.items() <= stored.labels.items()
            and self.annotations.items() <= stored.annotations.items()
            and stored.minimum is not None
            and stored.maximum is not None
            and set(self.minimum.items) <= set(stored.minimum.items)
            and set(self.maximum.items) <= set(stored.maximum.items)
        )


def tree_id_of(key: str) -> str:
    """The tree of a profile without the label: FNV-1a, 64 bits, of namespace/name, as a decimal."""
    found = _FNV_OFFSET
    for byte in key.encode():
        found = (found ^ byte) * _FNV_PRIME % (1 << 64)
    return str(found)


def quota_of(profile: QuotaProfile, nodes: Iterable[ProfileNode]) -> ProfileQuota:
    """The quota for these nodes, of which the selected ones count."""
    selector = profile.selector
    chosen = [node for node in nodes if selector is not None and selector.matches(node.labels)]
    total = {name: sum(node.allocatable.get(name) for node in chosen) for name in profile.resource_keys}
    closed = {
        name: sum(node.allocatable.get(name) for node in chosen if not node.schedulable)
        for name in profile.resource_keys
    }
    minimum = {name: int(amount * profile.ratio) for name, amount in total.items()}
    terms = {"nodes": len(chosen), "ratio": str(profile.ratio), "allocatable": _texts(total)}
    return ProfileQuota(
        key=profile.quota_key,
        labels={
            **profile.quota_labels,
            PROFILE: profile.key.partition("/")[2],
            TREE_ID: profile.tree_id or tree_id_of(profile.key),
            IS_ROOT: "true",
        },
        annotations={
            TOTAL_RESOURCE: _json(_texts(minimum)),
            UNSCHEDULABLE_RESOURCE: _json(
                _texts({name: int(amount * profile.ratio) for name, amount in closed.items()})
            ),
            TERMS: _json(terms),
        },
        minimum=Amounts(tuple(sorted(minimum.items()))),
        maximum=Amounts(tuple((name, NO_LIMIT if name == CPU_NAME else MOST) for name in sorted(minimum))),
        nodes=len(chosen),
    )


def _texts(amounts: dict[str, int]) -> dict[str, str]:
    return {name: format_amount(name, amount) for name, amount in sorted(amounts.items())}


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
