"""A gang: pods of which enough must run together, or none; and the names users already write that with.

Problem: a PodGroup, Koordinator's annotations on it, and the same annotations on bare pods say one thing in three places. Choice: one value for
what a gang asks (`GangSpec`), one for what a single object says of a gang (`GangNotes`, from a pod's annotations or a PodGroup's), and one for the
PodGroup itself with its status. How they become a spec: policy/placement/gangs/spec.py. Limits: a value that cannot be used falls back to its default;
the notes keep a sentence about it.

Source: Koordinator, apis/extension/coscheduling.go; PodGroup of scheduling.sigs.k8s.io/v1alpha1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "gang.scheduling.koordinator.sh/"
NAME = PREFIX + "name"
MIN_AVAILABLE = PREFIX + "min-available"
TOTAL_NUMBER = PREFIX + "total-number"
WAITING_TIME = PREFIX + "waiting-time"
MODE = PREFIX + "mode"
GROUPS = PREFIX + "groups"  # JSON list of "namespace/name"
MATCH_POLICY = PREFIX + "match-policy"
TOPOLOGY = "cotenant.io/gang-topology"  # JSON: {"keys": [label keys of nodes, narrowest first], "required": false}

# --- labels of pods
POD_GROUP = "pod-group.scheduling.sigs.k8s.io"  # names a PodGroup
LIGHT_NAME = "pod-group.scheduling.sigs.k8s.io/name"
LIGHT_MIN_AVAILABLE = "pod-group.scheduling.sigs.k8s.io/min-available"
LIGHT_MATCH_POLICY = "pod-group.scheduling.sigs.k8s.io/match-policy"

WAIT_S = 600.0


class Mode(StrEnum):
    """What becomes of members that have found a node when another does not."""

    STRICT = "Strict"  # they give it back
    NON_STRICT = "NonStrict"  # they keep it and wait


class MatchPolicy(StrEnum):
    """Which members count towards the minimum."""

    ONLY_WAITING = "only-waiting"
    WAITING_AND_RUNNING = "waiting-and-running"
    ONCE_SATISFIED = "once-satisfied"  # the minimum was reached once: from then on members go alone


@dataclass(frozen=True, slots=True)
class GangTopology:
    """Where a gang wants to be together."""

    keys: tuple[str, ...]  # label keys of nodes, narrowest first
    required: bool = False  # never outside one domain of the last key


@dataclass(frozen=True, slots=True)
class GangNotes:
    """What one object's annotations say of a gang; None where they are silent."""

    name: str = ""
    min_available: int | None = None
    total: int | None = None
    wait_s: float | None = None
    mode: Mode | None = None
    groups: tuple[str, ...] = ()
    match_policy: MatchPolicy | None = None
    topology: GangTopology | None = None
    wrong: tuple[str, ...] = ()  # what could not be used: the default counts instead


NO_NOTES = GangNotes()


@dataclass(frozen=True, slots=True)
class GangSpec:
    """What a gang asks. `groups`: the keys of every gang that must be satisfied with it, itself among them where there are any."""

    key: str  # namespace/name
    min_available: int
    total: int
    mode: Mode = Mode.STRICT
    match_policy: MatchPolicy = MatchPolicy.ONCE_SATISFIED
    wait_s: float = WAIT_S
    groups: tuple[str, ...] = ()
    declared: bool = False  # by a PodGroup, not by its pods
    topology: GangTopology | None = None


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
    """How a PodGroup stands: what it says, or is to be told."""

    key: str
    uid: str
    phase: GangPhase = GangPhase.NONE
    scheduled: int = 0  # members on a node, or ended
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    kind: str = "PodGroup"


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A PodGroup as the API server has it."""

    key: str  # namespace/name
    uid: str
    created_s: float
    min_member: int | None
    wait_s: float | None  # spec.scheduleTimeoutSeconds
    notes: GangNotes
    status: PodGroupStatus
