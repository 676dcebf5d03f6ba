"""ElasticQuotaProfile: a quota tree for the nodes that a selector names, as large as they are.

A cluster of several pools (architectures, tenants, GPU types) needs a quota tree a pool, and an administrator who
writes each tree's total by hand is wrong after the next node. Values of a profile, of a node as it counts, and of the
tree's root quota as stored. What of a profile cannot be read is a sentence, and the profile is not used.
Limits: amounts are in each resource's unit (model/resources.py).

Source: Koordinator, apis/quota/v1alpha1 (ElasticQuotaProfile) and apis/extension/elastic_quota.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from cotenant.model.cluster.labels import NO_LABELS, Labels, LabelSelector
from cotenant.model.groups.quota import PREFIX
from cotenant.model.resources import NOTHING, Amounts

PROFILE = PREFIX + "profile"  # label of a quota: the profile that it follows
RESOURCE_KEYS = PREFIX + "resource-keys"  # annotation of a profile: JSON list of resource names
UNSCHEDULABLE_RESOURCE = PREFIX + "unschedulable-resource"  # annotation of a quota: the part on nodes that take no pods
TERMS = "cotenant.io/quota-terms"  # annotation of a quota: JSON, what its amounts are made of
USUAL_KEYS = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class ProfileNode:
    """A node as it counts. `allocatable` is as its status says, amplified amounts included."""

    name: str
    allocatable: Amounts
    labels: Labels = NO_LABELS
    schedulable: bool = True  # ready and not cordoned


@dataclass(frozen=True, slots=True)
class QuotaProfile:
    """One profile."""

    key: str  # namespace/name
    quota_name: str
    uid: str = ""
    tree_id: str = ""  # its label; "" = none yet
    selector: LabelSelector | None = None  # None selects nothing
    quota_labels: Mapping[str, str] = field(default_factory=dict)
    ratio: Decimal = Decimal(1)  # of the nodes' amounts
    resource_keys: tuple[str, ...] = USUAL_KEYS
    wrong: tuple[str, ...] = ()  # what of it cannot be read

    @property
    def quota_key(self) -> str:
        """namespace/name of its quota."""
        return f"{self.key.partition('/')[0]}/{self.quota_name}"


@dataclass(frozen=True, slots=True)
class StoredQuota:
    """A quota as stored, as far as a profile sets it."""

    key: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    minimum: Amounts | None = NOTHING  # None: cannot be read
    maximum: Amounts | None = NOTHING
