"""What an API server says of a cluster, as values: the facts that scheduling needs beyond a pod's or a node's own demands.

Problem: a pod in a cluster has a life besides its demands (who bound it, whether it is ending, which claims it waits for), and the
scheduling engine must not read manifests. Choice: drivers translate every object once into these frozen values. Identity is the UID:
a name may be used again. Limits: only what a scheduler acts on is kept; what it cannot judge is named in `unsupported`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import nan

from cotenant.model.cluster.affinity import NodeSelector
from cotenant.model.cluster.demands import NO_DEMANDS, NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.labels import NO_LABELS, Labels, LabelSelector
from cotenant.model.cluster.pod import Pod


class Phase(StrEnum):
    """`status.phase` of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def is_final(self) -> bool:
        """Whether its containers have ended for good, so that it holds nothing."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


class Binding(StrEnum):
    """How the volume behind a claim will be found."""

    BOUND = "bound"  # it exists: its own node affinity decides
    PROVISIONED = "provisioned"  # its class makes it where the pod goes (WaitForFirstConsumer)
    STATIC = "static"  # one of these existing volumes fits the claim (WaitForFirstConsumer without a provisioner)


@dataclass(frozen=True, slots=True)
class VolumeOption:
    """A way to satisfy a claim. `volume` is empty where it will be made; `nodes` None = reachable from everywhere."""

    volume: str
    nodes: NodeSelector | None


@dataclass(frozen=True, slots=True)
class VolumeNeed:
    """One claim of a pod that restricts where it may go. No options = nowhere (`waits_for` says why)."""

    claim: str  # namespace/name
    binding: Binding
    options: tuple[VolumeOption, ...]
    exclusive: bool = False  # ReadWriteOncePod: no other pod may use the claim
    waits_for: str = ""  # e.g. "PersistentVolumeClaim default/data is not bound yet"; non-empty = not schedulable now


@dataclass(frozen=True, slots=True)
class OwnedBy:
    """An object that made the pod."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A pod as the API server has it."""

    pod: Pod
    uid: str
    scheduler: str  # spec.schedulerName
    created_s: float  # Unix time
    node: str = ""  # spec.nodeName; empty = not bound
    phase: Phase = Phase.PENDING
    ends_s: float = nan  # deletionTimestamp, Unix time; NaN = not terminating
    gates: tuple[str, ...] = ()  # spec.schedulingGates
    nominated_node: str = ""  # status.nominatedNodeName
    started_s: float = nan  # status.startTime
    preempts: bool = True  # spec.preemptionPolicy is not Never
    volumes: tuple[VolumeNeed, ...] = ()
    demands: Demands = NO_DEMANDS
    holds: Holdings = NO_HOLDINGS  # what a scheduler gave it, as its annotations say
    owned_by: tuple[OwnedBy, ...] = ()
    reservation: str = ""  # this is no pod, it stands for the reservation of this name, and has its UID
    unsupported: tuple[
        str, ...
    ] = ()  # what of it this scheduler cannot judge: a reason on the pod, never a wrong placement

    @property
    def terminating(self) -> bool:
        """Whether its deletion has been asked for."""
        return self.ends_s == self.ends_s

    @property
    def occupies(self) -> bool:
        """Whether it takes room on its node."""
        return bool(self.node) and not self.phase.is_final


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget: how many of the selected pods may still be disrupted now."""

    namespace: str
    name: str
    selector: LabelSelector | None  # None = no pod
    allowed: int  # status.disruptionsAllowed
    disrupted: frozenset[str] = frozenset()  # names in status.disruptedPods: already counted

    def covers(self, pod: Pod) -> bool:
        """Whether disrupting this pod costs the budget."""
        return (
            pod.namespace == self.namespace
            and pod.name not in self.disrupted
            and self.selector is not None
            and self.selector.matches(pod.labels)
        )


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """A namespace's labels, which a namespaceSelector asks for."""

    name: str
    labels: Labels = NO_LABELS
