"""Gangs: pods that are scheduled only if enough of them can be, and the labels and annotations that declare them.

A PodGroup, Koordinator's annotations on it, and the same annotations on bare pods declare the same thing in three
places. One value for a gang's specification (`GangSpec`), one for what a single object declares (`GangNotes`, from the
annotations of a pod or PodGroup), and one for the PodGroup itself with its status. policy/placement/gangs/spec.py
merges them into a spec.
Limits: an invalid value falls back to its default; the notes keep a message about it.

Source: Koordinator, apis/extension/coscheduling.go; PodGroup of scheduling.sigs.k8s.io/v1alpha1 (Koordinator, older
scheduler-plugins) and of scheduling.x-k8s.io/v1alpha1 (scheduler-plugins since 0.24); the Workload API,
scheduling.k8s.io.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.claims.needs import GroupClaim
from cotenant.model.groups.network_topology import GatherRule
from cotenant.model.resources import NOTHING, Amounts

PREFIX = "gang.scheduling.koordinator.sh/"
NAME = PREFIX + "name"
MIN_AVAILABLE = PREFIX + "min-available"
TOTAL_NUMBER = PREFIX + "total-number"
WAITING_TIME = PREFIX + "waiting-time"
MODE = PREFIX + "mode"
GROUPS = PREFIX + "groups"  # JSON list of "namespace/name"
MATCH_POLICY = PREFIX + "match-policy"
NETWORK_TOPOLOGY = (
    PREFIX + "network-topology-spec"
)  # JSON: {"gatherStrategy": [{"layer": ..., "strategy": "MustGather" | "PreferGather"}]}
NETWORK_TOPOLOGY_INDEX = PREFIX + "network-topology-index"
TOPOLOGY = "cotenant.io/gang-topology"  # JSON: {"keys": [label keys of nodes, narrowest first], "required": false}

# --- API groups that have PodGroups
SIGS_GROUP = "scheduling.sigs.k8s.io"
X_GROUP = "scheduling.x-k8s.io"
K8S_GROUP = "scheduling.k8s.io"  # the upstream Workload API
POD_GROUP_APIS = (X_GROUP, SIGS_GROUP, K8S_GROUP)  # of two PodGroups of one name, that of the first group counts

# --- labels of pods
X_POD_GROUP = "scheduling.x-k8s.io/pod-group"  # names a PodGroup
POD_GROUP = "pod-group.scheduling.sigs.k8s.io"  # likewise
LIGHT_NAME = "pod-group.scheduling.sigs.k8s.io/name"
LIGHT_MIN_AVAILABLE = "pod-group.scheduling.sigs.k8s.io/min-available"
LIGHT_MATCH_POLICY = "pod-group.scheduling.sigs.k8s.io/match-policy"

WAIT_S = 600.0  # default of Koordinator
X_WAIT_S = 60.0  # default of scheduler-plugins


class GangMode(StrEnum):
    """What happens to members that have found a node when another has not."""

    STRICT = "Strict"  # they release it
    NON_STRICT = "NonStrict"  # they keep it and wait


class MatchPolicy(StrEnum):
    """Which members count towards the minimum."""

    ONLY_WAITING = "only-waiting"
    WAITING_AND_RUNNING = "waiting-and-running"
    ONCE_SATISFIED = "once-satisfied"  # once the minimum was reached, further members are scheduled one by one


class Disruption(StrEnum):
    """Which members of a gang on nodes are of use only together, so that they are evicted together."""

    BELOW_MINIMUM = ""  # those above the minimum can be spared one by one, fewer are of no use
    SINGLE = "Single"  # each can be evicted by itself
    ALL = "All"  # none can be evicted without all others


@dataclass(frozen=True, slots=True)
class GangTopology:
    """Topology domains in which a gang should be placed together."""

    keys: tuple[str, ...]  # label keys of nodes, narrowest first
    required: bool = False  # never outside one domain of the last key


@dataclass(frozen=True, slots=True)
class GangNotes:
    """What one object's annotations declare about a gang; None where absent."""

    name: str = ""
    min_available: int | None = None
    total: int | None = None
    wait_s: float | None = None
    mode: GangMode | None = None
    groups: tuple[str, ...] = ()
    match_policy: MatchPolicy | None = None
    topology: GangTopology | None = None
    gather: tuple[GatherRule, ...] = ()
    wrong: tuple[str, ...] = ()  # messages about invalid values, for which the default is used
    needs_object: bool = False  # the name is that of `spec.schedulingGroup`: without its PodGroup there is no gang


NO_NOTES = GangNotes()


@dataclass(frozen=True, slots=True)
class GangSpec:
    """A gang's specification. `groups`: the keys of all gangs that must be satisfied together, this one included;
    empty = only this one.
    """

    key: str  # namespace/name
    min_available: int
    total: int
    mode: GangMode = GangMode.STRICT
    match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED
    wait_s: float = WAIT_S
    groups: tuple[str, ...] = ()
    declared: bool = False  # by a PodGroup rather than by its pods
    topology: GangTopology | None = None
    gather: tuple[GatherRule, ...] = ()  # layers of the network; joined with the cluster's they are the topology
    min_resources: Amounts = NOTHING  # the cluster must have this much free before any member is placed
    disruption: Disruption = Disruption.BELOW_MINIMUM
    disrupted_with: tuple[str, ...] = ()  # with ALL: the keys of the gangs that go together with it, itself included
    inner_key: str = ""  # label key of nodes: all its members are in one domain of it, within what its bundle may use


class GangPhase(StrEnum):
    """`status.phase` of a PodGroup."""

    NONE = ""
    PENDING = "Pending"
    PRE_SCHEDULING = "PreScheduling"
    SCHEDULING = "Scheduling"
    SCHEDULED = "Scheduled"
    UNKNOWN = "Unknown"
    RUNNING = "Running"
    FINISHED = "Finished"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class PodGroupStatus:
    """The status of a PodGroup, as stored or as to be written."""

    key: str
    uid: str
    phase: GangPhase = GangPhase.NONE
    scheduled: int = 0  # members on a node, or ended
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    api_group: str = SIGS_GROUP
    version: str = ""  # of the API, where a group has several

    @property
    def kind(self) -> str:
        """The kind, with the API group where two groups have it."""
        return "PodGroup" if self.api_group == SIGS_GROUP else f"PodGroup.{self.api_group}"


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A PodGroup as stored in the API server."""

    key: str  # namespace/name
    uid: str
    created_s: float
    min_member: int | None
    wait_s: float | None  # spec.scheduleTimeoutSeconds
    notes: GangNotes
    status: PodGroupStatus
    min_resources: Amounts = NOTHING  # spec.minResources
    api_group: str = SIGS_GROUP
    version: str = ""  # of the API, where a group has several
    parent: str = ""  # namespace/name of its composite group
    workload: str = ""  # name of the Workload that it was made from
    claims: tuple[GroupClaim, ...] = ()  # that its pods may share
    priority: int | None = None  # of all its members, in place of their own
    preempts: bool = True  # whether its members preempt, beside what they say themselves
    disruption: Disruption = Disruption.BELOW_MINIMUM
    disrupted_with: tuple[str, ...] = ()  # with ALL: the keys of the gangs that go together with it, itself included
    inner_key: str = ""  # of its own, below the topology of its composite groups
    obstacle: str = ""  # why it cannot be placed at all as it stands in its composite groups


@dataclass(frozen=True, slots=True)
class CompositeGroup:
    """A CompositePodGroup of the Workload API: groups of pods, or of groups, that are placed together."""

    key: str  # namespace/name
    uid: str
    created_s: float
    version: str
    min_groups: int | None  # None: its children are placed independently
    parent: str = ""  # namespace/name of its own composite group
    workload: str = ""
    topology_key: str = ""  # one domain of it for all pods below
    all_together: bool = False  # its children are evicted together
    priority: int | None = None
    preempts: bool = True
    wrong: tuple[str, ...] = ()
