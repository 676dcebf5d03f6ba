"""What a pod's object says about evicting it, beyond what a scheduler reads.

Costs, exemptions and readiness are annotations and statuses that a scheduler does not need. A value beside
`ObservedPod`, read only for pods that are considered for a move.
Source: Kubernetes (pod-deletion-cost, mirror pods, QoS class); Koordinator (eviction cost); the descheduler (evict
annotation).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.qos import KubernetesQoS


@dataclass(frozen=True, slots=True)
class EvictionNotes:
    """Facts about evicting one pod. A cost that cannot be read is 0, and named in `wrong`."""

    kubernetes_qos: KubernetesQoS = KubernetesQoS.BEST_EFFORT
    is_static: bool = False
    is_ready: bool = False
    has_local_storage: bool = False  # an emptyDir or hostPath volume
    has_claims: bool = False
    deletion_cost: int = 0
    eviction_cost: int = 0
    forced: bool = False  # the annotation descheduler.alpha.kubernetes.io/evict is present
    softly_evicted: bool = False  # another controller was asked to delete it
    uid: str = ""
    wrong: tuple[str, ...] = ()
