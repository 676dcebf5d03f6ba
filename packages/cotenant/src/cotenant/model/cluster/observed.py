"""API objects of a cluster as values: what scheduling needs beyond a pod's or a node's own spec.

Scheduling depends on a pod's state besides its spec (its node, deletion, the claims it waits for), and the engine must
not parse manifests. Drivers translate every object once into these frozen values. Identity is the UID, because a name
may be reused.
Limits: only what a scheduler uses is kept; features that it cannot evaluate are listed in `unsupported`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import nan
from typing import NamedTuple

from cotenant.model.cluster.affinity import NodeSelector
from cotenant.model.cluster.demands import NO_DEMANDS, NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.disruption import NO_MARKS, DisruptionMarks
from cotenant.model.cluster.labels import NO_LABELS, Labels, LabelSelector
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.kueue import InQueue
from cotenant.model.identical_fields import identical


class PodPhase(StrEnum):
    """`status.phase` of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def is_final(self) -> bool:
        """Whether its containers have terminated for good, so that it uses no resources."""
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED)


class ClaimBinding(StrEnum):
    """How the volume behind a claim is provided."""

    BOUND = "bound"  # it exists: its own node affinity decides
    PROVISIONED = "provisioned"  # created on the pod's node (WaitForFirstConsumer)
    STATIC = "static"  # one of these existing volumes satisfies the claim (WaitForFirstConsumer without a provisioner)


class Attachment(NamedTuple):
    """A volume as a node attaches it: its CSI driver, and the driver's name of the volume (of the claim, until
    there is a volume).
    """

    driver: str
    volume: str


@dataclass(frozen=True, slots=True)
class NodeStorage:
    """What a node can attach: the number of volumes by driver, and the volumes that are attached, with or without a
    pod.
    """

    node: str
    limits: tuple[tuple[str, int], ...] = ()
    attached: frozenset[Attachment] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class StorageRoom:
    """Nodes with enough free storage for a volume; None = all. Equal only to itself: a reader gives claims of equal
    size the same one.
    """

    nodes: NodeSelector | None


@dataclass(frozen=True, slots=True)
class VolumeOption:
    """A way to satisfy a claim. `volume` is empty where it is yet to be created; `nodes` None = reachable from
    every node.
    """

    volume: str
    nodes: NodeSelector | None
    zone: NodeSelector | None = None  # by the volume's zone and region labels; None = it has none
    room: StorageRoom | None = None  # of a volume to be created; None = its provisioner's capacity is not known


@dataclass(frozen=True, slots=True)
class InlineDisk:
    """A disk that a pod names without a claim. `identity` is its type and name; a disk with `monitors` is another
    one where none is in common.
    """

    identity: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()

    def conflicts(self, other: InlineDisk) -> bool:
        """Whether two pods on one node cannot use both."""
        if self.identity != other.identity or (self.read_only and other.read_only):
            return False
        return not (self.monitors or other.monitors) or not set(self.monitors).isdisjoint(other.monitors)


@dataclass(frozen=True, slots=True)
class VolumeNeed:
    """One claim or inline disk that restricts the pod's nodes. No options = no node (`waits_for` says why)."""

    claim: str  # namespace/name; of a disk its identity
    binding: ClaimBinding
    options: tuple[VolumeOption, ...]
    exclusive: bool = False  # ReadWriteOncePod: no other pod may use the claim
    waits_for: str = ""  # e.g. "PersistentVolumeClaim default/data is not bound yet"; non-empty = not schedulable now
    attachment: Attachment | None = None  # counts against its node's volume limits
    disk: InlineDisk | None = None  # not a claim: a disk that the pod names itself


@dataclass(frozen=True, slots=True)
class OwnedBy:
    """An owner reference of the pod."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


@dataclass(frozen=True, slots=True)
class PodWorkload:
    """The workload of a declared kind that a pod belongs to: the topmost above it."""

    owner: OwnedBy
    through: tuple[str, ...] = ()  # kind and name of what is between, nearest first
    role: str = ""  # what the pod is in it
    is_paused: bool = False
    refused: str = ""  # why the owners were not walked to the end


@dataclass(frozen=True, slots=True)
class ExpectedRoom:
    """The node on which a rebalancer makes room for a waiting pod, the UIDs of the pods that it moves away from
    there, and until when (Unix time) the room is kept for it.
    """

    node: str
    until_s: float
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A pod as stored in the API server."""

    pod: Pod
    uid: str
    scheduler: str  # spec.schedulerName
    created_s: float  # Unix time
    node: str = ""  # spec.nodeName; empty = not bound
    phase: PodPhase = PodPhase.PENDING
    ends_s: float = nan  # deletionTimestamp, Unix time; NaN = not terminating
    grace_s: int = 0  # of its deletion, until `ends_s`
    gates: tuple[str, ...] = ()  # spec.schedulingGates
    nominated_node: str = ""  # status.nominatedNodeName
    expected_room: ExpectedRoom | None = None  # from its annotation
    started_s: float = nan  # status.startTime
    preempts: bool = True  # spec.preemptionPolicy is not Never
    volumes: tuple[VolumeNeed, ...] = ()
    demands: Demands = NO_DEMANDS
    holds: Holdings = NO_HOLDINGS  # allocated by a scheduler: what is believed of its annotations, while it is bound
    written: tuple[str, ...] = ()  # those of these annotations that it has, believed or not
    settled: tuple[tuple[str, str], ...] = ()  # its class, quota and tenant, by label or annotation
    relabelled: tuple[str, ...] = ()  # those that were changed since it was bound, without effect
    owned_by: tuple[OwnedBy, ...] = ()
    workload: PodWorkload | None = None
    in_queue: InQueue | None = None  # of Kueue
    marks: DisruptionMarks = NO_MARKS  # what its owner says about disrupting it
    refused: str = ""  # why its node's kubelet did not start it, such as OutOfcpu
    evicted: bool = False  # its node's kubelet ended it, for lack of something
    responders: tuple[str, ...] = ()  # spec.evictionResponders, by name
    awaits_resize: bool = False  # its kubelet deferred a resize in place: the node has no room for it
    reservation: str = ""  # not a pod: it represents the reservation of this name, under the reservation's UID
    # Features that this scheduler cannot evaluate; the pod waits with this reason instead of being placed wrongly.
    unsupported: tuple[str, ...] = ()
    # What follows from these and is asked of every pod:
    terminating: bool = field(init=False, repr=False)  # its deletion has been requested
    has_ended: bool = field(init=False, repr=False)  # its containers have terminated for good: it uses no resources
    obstacle: str = field(init=False, repr=False)  # why it cannot be scheduled at all, empty if it can

    def __post_init__(self) -> None:
        object.__setattr__(self, "terminating", self.ends_s == self.ends_s)
        object.__setattr__(self, "has_ended", self.phase is PodPhase.SUCCEEDED or self.phase is PodPhase.FAILED)
        why = self.unsupported
        if self.volumes:
            why += tuple(need.waits_for for need in self.volumes if need.waits_for)
        object.__setattr__(self, "obstacle", "; ".join(dict.fromkeys(why)) if why else "")

    def __eq__(self, other: object) -> bool:
        """Field by field; times that are not given (NaN) are equal."""
        return identical(self, other)

    @property
    def occupies(self) -> bool:
        """Whether it uses resources of its node."""
        return bool(self.node) and not self.has_ended


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget: how many of the selected pods may still be disrupted now."""

    namespace: str
    name: str
    selector: LabelSelector | None  # None = no pod
    allowed: int  # status.disruptionsAllowed
    disrupted: frozenset[str] = frozenset()  # names in status.disruptedPods: already counted
    spares_unready: bool = False  # pods that are not ready may be evicted whatever is allowed

    def selects(self, pod: Pod) -> bool:
        """Whether it is about this pod."""
        return pod.namespace == self.namespace and self.selector is not None and self.selector.matches(pod.labels)

    def covers(self, pod: Pod) -> bool:
        """Whether evicting this pod counts against the budget."""
        return pod.name not in self.disrupted and self.selects(pod)


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """A namespace's labels, for a namespaceSelector."""

    name: str
    labels: Labels = NO_LABELS
