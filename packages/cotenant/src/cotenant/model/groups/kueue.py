"""Kueue beside this scheduler: it decides when pods may start, by gates, and this scheduler where.

Source: Kueue's API (kueue.x-k8s.io/v1beta1 and v1beta2) and labels; names only.
"""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "kueue.x-k8s.io"
QUEUE = f"{GROUP}/queue-name"  # label of pods and jobs
POD_GROUP = f"{GROUP}/pod-group-name"  # label: pods that are admitted together; it names their Workload
WORKLOAD = f"{GROUP}/workload"  # annotation of pods that were started
ADMISSION_GATE = f"{GROUP}/admission"
TOPOLOGY_GATE = f"{GROUP}/topology"
ELASTIC_GATE = f"{GROUP}/elastic-job"
GATES = frozenset({ADMISSION_GATE, TOPOLOGY_GATE, ELASTIC_GATE})


@dataclass(frozen=True, slots=True)
class KueueCondition:
    """A condition of a Workload."""

    type: str
    is_true: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """An admission check of a Workload, such as a ProvisioningRequest."""

    name: str
    state: str  # Pending, Ready, Retry, Rejected
    message: str = ""


@dataclass(frozen=True, slots=True)
class KueueWorkload:
    """A Workload of Kueue. `owners`: UIDs of the pods or the job that it is made for."""

    key: str  # namespace/name
    queue: str = ""  # of the namespace
    cluster_queue: str = ""  # that admitted it
    is_active: bool = True
    conditions: tuple[KueueCondition, ...] = ()
    checks: tuple[AdmissionCheck, ...] = ()
    flavors: tuple[tuple[str, str], ...] = ()  # resource, flavor that it was admitted with
    owners: tuple[str, ...] = ()

    def condition(self, type_: str) -> KueueCondition | None:
        """The condition of a type."""
        return next((entry for entry in self.conditions if entry.type == type_), None)

    def is_so(self, type_: str) -> bool:
        """Whether a condition is true."""
        found = self.condition(type_)
        return found is not None and found.is_true


@dataclass(frozen=True, slots=True)
class InQueue:
    """A pod of Kueue, with its Workload where that is known."""

    queue: str = ""
    group: str = ""  # of pods that Kueue admits together: no gang of ours
    workload: KueueWorkload | None = None
