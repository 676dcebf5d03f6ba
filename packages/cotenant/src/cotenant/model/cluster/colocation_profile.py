"""Colocation profiles: rules by which pods become best-effort, mid or production pods as they are created.

Users mark whole namespaces or kinds of pods for co-location without changing their manifests. A frozen value of a
ClusterColocationProfile; what it does to a pod is in policy/admission.
Limits: `patch` is JSON text, since a frozen value cannot hold a document.

Source: Koordinator, apis/config/v1alpha1/cluster_colocation_profile_types.go (fields),
pkg/webhook/pod/mutating/cluster_colocation_profile.go (annotation).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.qos import QoSClass

SKIP_UPDATE_RESOURCES = "config.koordinator.sh/skip-update-resources"  # annotation of a profile
PROFILES_APPLIED = "cotenant.io/colocation-profiles"  # annotation of a pod: names of the profiles that changed it

Pairs = tuple[tuple[str, str], ...]  # sorted by the first


@dataclass(frozen=True, slots=True)
class ColocationProfile:
    """One profile. A selector of None selects everything."""

    name: str
    namespaces: LabelSelector | None = None  # of the pod's namespace
    pods: LabelSelector | None = None  # of the pod as it was submitted
    probability: int | None = None  # percent of the pods it acts on; None = all
    labels: Pairs = ()
    annotations: Pairs = ()
    label_keys: Pairs = ()  # (present key, key that gets its value)
    annotation_keys: Pairs = ()
    label_suffixes: Pairs = ()  # (key, text appended to its value)
    scheduler_name: str = ""
    qos: QoSClass = QoSClass.NONE
    priority_class: str = ""  # name of a PriorityClass object
    sub_priority: int | None = None
    patch: str = ""  # strategic merge patch, JSON
    keeps_resources: bool = False  # cpu and memory of its pods are not translated


@dataclass(frozen=True, slots=True)
class PriorityClassValue:
    """What a PriorityClass object gives to a pod."""

    name: str
    value: int
    preemption_policy: str | None = None
