"""PriorityClass: the priority and preemption policy that a pod gets by its name."""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.cluster.colocation_profile import PriorityClassValue


class PriorityClassObject(ApiStruct, frozen=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    preemption_policy: Text = None


PRIORITY_CLASSES = Kind("PriorityClass", "scheduling.k8s.io", "v1", "priorityclasses", False, PriorityClassObject)


def read_priority_class(obj: PriorityClassObject) -> PriorityClassValue:
    """What the class gives to a pod."""
    return PriorityClassValue(obj.metadata.name or "", obj.value, obj.preemption_policy)
