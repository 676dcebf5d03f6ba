"""Pods as what answers requests: where they run, under which address, and whether they are ready."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import field

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta

_ENDED = ("Succeeded", "Failed")


class PodReadiness(ApiStruct, frozen=True):
    """A condition of a pod."""

    type: str = ""
    status: str = ""


class ServingPodSpec(ApiStruct, frozen=True):
    """Where it runs."""

    node_name: Text = None


class ServingPodStatus(ApiStruct, frozen=True):
    """What the kubelet says."""

    phase: Text = None
    pod_ip: Text = field(default=None, name="podIP")
    conditions: tuple[PodReadiness, ...] | None = None


class ServingPodObject(ApiStruct, frozen=True):
    """v1 Pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServingPodSpec | None = None
    status: ServingPodStatus | None = None


SERVING_PODS = Kind("Pod", "", "v1", "pods", True, ServingPodObject)


@dataclass(frozen=True, slots=True)
class ServingPod:
    """A pod that may answer requests; `address` and `node` are empty until it has them."""

    uid: str
    namespace: str
    name: str
    labels: dict[str, str]
    node: str
    address: str
    is_ready: bool
    ended: bool

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def read_serving_pod(obj: ServingPodObject) -> ServingPod:
    """A pod; what it does not say is empty."""
    meta, spec, status = obj.metadata, obj.spec or ServingPodSpec(), obj.status or ServingPodStatus()
    return ServingPod(
        uid=meta.uid or "",
        namespace=meta.namespace or "",
        name=meta.name or "",
        labels=dict(meta.labels or {}),
        node=spec.node_name or "",
        address=status.pod_ip or "",
        is_ready=any(entry.type == "Ready" and entry.status == "True" for entry in status.conditions or ()),
        ended=(status.phase or "") in _ENDED,
    )
