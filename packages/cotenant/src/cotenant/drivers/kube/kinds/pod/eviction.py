"""Pods as a rebalancer reads them beside the scheduler's view: readiness, local storage, costs and exemptions, as
`EvictionNotes`.

These fields are not kept of a scheduler's pods, which share equal parts in memory and drop conditions. A struct of its
own with a dozen fields, and a watch of its own.
Limits: pods are listed a second time.
"""

from __future__ import annotations

import re

from msgspec import field

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Text
from cotenant.drivers.kube.kinds.parts import Condition, Something
from cotenant.model.cluster.annotations import DELETION_COST, EVICTION_COST, FORCED_EVICTION, MIRROR
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.groups.migration import SOFT_EVICTION

_INT32 = range(-(2**31), 2**31)
_INTEGER = re.compile(r"-?[0-9]{1,10}")
_QOS = {kubernetesqo.value: kubernetesqo for kubernetesqo in KubernetesQoS}


class EvictionAnnotations(ApiStruct, frozen=True):
    """The annotations about eviction."""

    deletion_cost: Text = field(default=None, name=DELETION_COST)
    eviction_cost: Text = field(default=None, name=EVICTION_COST)
    forced: Text = field(default=None, name=FORCED_EVICTION)
    mirror: Text = field(default=None, name=MIRROR)
    soft: Text = field(default=None, name=SOFT_EVICTION)


class EvictionMeta(ApiStruct, frozen=True):
    """Names, and the annotations about eviction."""

    name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    annotations: EvictionAnnotations | None = None


class EvictionVolume(ApiStruct, frozen=True):
    """A volume: whether it is local, or a claim."""

    empty_dir: Something | None = None
    host_path: Something | None = None
    persistent_volume_claim: Something | None = None
    ephemeral: Something | None = None


class PodEvictionSpec(ApiStruct, frozen=True):
    """Its volumes."""

    volumes: tuple[EvictionVolume, ...] | None = None


class PodEvictionStatus(ApiStruct, frozen=True):
    """Its QoS class and readiness."""

    qos_class: Text = None
    conditions: tuple[Condition, ...] | None = None


class EvictionPod(ApiStruct, frozen=True):
    """v1 Pod."""

    metadata: EvictionMeta = EvictionMeta()
    spec: PodEvictionSpec | None = None
    status: PodEvictionStatus | None = None


EVICTION_PODS = Kind("Pod", "", "v1", "pods", True, EvictionPod)


def read_eviction_notes(obj: EvictionPod) -> EvictionNotes:
    """The notes of a pod. Never fails: what cannot be read is in `wrong`. A pod without a QoS class in its status
    counts as Burstable.
    """
    notes = obj.metadata.annotations or EvictionAnnotations()
    spec, status = obj.spec or PodEvictionSpec(), obj.status or PodEvictionStatus()
    wrong: list[str] = []

    def cost(name: str, text: str | None) -> int:
        if text is None:
            return 0
        if _INTEGER.fullmatch(text) and int(text) in _INT32:
            return int(text)
        wrong.append(f"{name}: {text!r}, expected a whole number of 32 bits")
        return 0

    volumes = spec.volumes or ()
    return EvictionNotes(
        kubernetes_qos=_QOS.get(status.qos_class or "", KubernetesQoS.BURSTABLE),
        is_static=notes.mirror is not None,
        is_ready=any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions or ()),
        has_local_storage=any(volume.empty_dir is not None or volume.host_path is not None for volume in volumes),
        has_claims=any(
            volume.persistent_volume_claim is not None or volume.ephemeral is not None for volume in volumes
        ),
        deletion_cost=cost(DELETION_COST, notes.deletion_cost),
        eviction_cost=cost(EVICTION_COST, notes.eviction_cost),
        forced=notes.forced is not None,
        softly_evicted=notes.soft is not None,
        uid=obj.metadata.uid or "",
        wrong=tuple(wrong),
    )
