"""Elastic quotas: the guaranteed minimum and the maximum of a group of pods, and the labels and annotations that
declare them.

Organisations divide a cluster by a tree of quotas, each with a guaranteed `minimum` and a `maximum`, and users already
have such objects. A frozen value for a quota and one for a pod as its quota sees it; amounts in each resource's unit
(model/resources.py). Rules over several quotas (parents, children, pods) are in policy/quota/admission.py.
Limits: annotations that a scheduler writes as results (`runtime`, `request`, `guaranteed` ...) are not part of the
value: reading them as input would create a feedback loop. A maximum too large to be meant (upstream writes the largest
integer, divided) is `NO_LIMIT`: it limits nothing, and as a weight it still claims a share of the parent's resources.

Source: Koordinator's ElasticQuota labels and annotations (apis/extension/elastic_quota.go).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cotenant.model.errors import InvalidInput
from cotenant.model.resources import MAX_AMOUNT, NOTHING, Amounts

PREFIX = "quota.scheduling.koordinator.sh/"

# --- labels of a quota
IS_PARENT = PREFIX + "is-parent"
PARENT = PREFIX + "parent"  # absent = the root
ALLOW_LENT_RESOURCE = PREFIX + "allow-lent-resource"  # only "false" forbids lending
TREE_ID = PREFIX + "tree-id"
IS_ROOT = PREFIX + "is-root"
IGNORE_DEFAULT_TREE = PREFIX + "ignore-default-tree"
ALLOW_FORCE_UPDATE = PREFIX + "allow-force-update"
# --- labels of a pod
NAME = PREFIX + "name"
PREEMPTIBLE = PREFIX + "preemptible"  # only "false" forbids it
# --- annotations of a quota that users write
SHARED_WEIGHT = PREFIX + "shared-weight"  # JSON of amounts; absent or all zero = the maximum
NAMESPACES = PREFIX + "namespaces"  # JSON list
TOTAL_RESOURCE = PREFIX + "total-resource"  # of a tree's root
ADMISSION = PREFIX + "admission"  # JSON of amounts: what its pods may request, judged as they are created
# --- annotations of a quota that a scheduler writes
RUNTIME = PREFIX + "runtime"
REQUEST = PREFIX + "request"
CHILD_REQUEST = PREFIX + "child-request"
ALLOCATED = PREFIX + "allocated"
GUARANTEED = PREFIX + "guaranteed"
STANDING = "cotenant.io/credit"  # written by `cotenant credit serve`: -1000 to 1000, see docs/guide/credit.md
FEDERATION = "cotenant.io/federation"  # by `cotenant federate join`: the weight before and the one it wrote, as JSON
PROBLEM = "cotenant.io/quota-problem"  # why the quota is not used, or which problem is tolerated; absent = none

NO_LIMIT = MAX_AMOUNT - 1

ROOT_QUOTA = "koordinator-root-quota"
SYSTEM_QUOTA = "koordinator-system-quota"
DEFAULT_QUOTA = "koordinator-default-quota"
BUILT_IN = (ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA)

# Like `Amounts.items`, but a level may be negative, and sums may exceed the largest amount. A resource that is absent
# is not limited.
Levels: TypeAlias = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota of a tree. A resource that `maximum` does not mention is not limited by it."""

    name: str
    maximum: Amounts = NOTHING
    minimum: Amounts = NOTHING
    parent: str = ROOT_QUOTA
    is_parent: bool = False  # it contains quotas, and therefore no pods
    shared_weight: Amounts = NOTHING  # its weight when lent and unreserved resources are shared; nothing = the maximum
    lends: bool = True  # False: its minimum stays reserved even while no pod requests it
    tree_id: str = ""  # trees do not share resources; "" = the default tree
    is_tree_root: bool = False  # its children's minima may exceed its own, as the root's may
    allows_force_update: bool = False  # exempt from the checks on sums of minima
    namespaces: tuple[str, ...] = ()  # namespaces whose pods it contains, besides the namespace of its own name

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidInput("quota.name", self.name, "a name")
        if not self.parent:
            object.__setattr__(self, "parent", ROOT_QUOTA)
        if len(set(self.namespaces)) < len(self.namespaces):
            raise InvalidInput("quota.namespaces", ", ".join(self.namespaces), "each namespace once")

    @property
    def weight(self) -> Amounts:
        """The effective weight: the shared weight, or the maximum where that is absent or all zero."""
        return self.shared_weight if any(amount for _, amount in self.shared_weight) else self.maximum


@dataclass(frozen=True, slots=True)
class QuotaPod:
    """A pod as its quota sees it."""

    uid: str
    request: Amounts
    priority: int = 0
    started_us: int = 0  # of two pods of equal priority, the one that started first is the more important
    preemptible: bool = True
    breaks_budget: bool = False  # its eviction would violate a disruption budget
    is_gang: bool = False  # all pods of a gang as one unit: at equal priority it is more important than a pod

    @property
    def importance(self) -> tuple[int, bool, int, str]:
        """Sort key, the most important pod first."""
        return (-self.priority, not self.is_gang, self.started_us, self.uid)


@dataclass(frozen=True, slots=True)
class QuotaObject:
    """A quota as stored in the API server. One with messages in `wrong` is known but not used."""

    key: str  # namespace/name
    uid: str
    quota: Quota
    total: Amounts | None = None  # of a tree's root: the resources that the tree divides
    keeps_out: bool = True  # of a tree's root: its total is subtracted from the default tree's
    wrong: tuple[str, ...] = ()  # messages about what cannot be parsed
    standing: int = (
        0  # of the tenant's credit, -1000 to 1000; what cannot be parsed is 0, and no reason to refuse the quota
    )
