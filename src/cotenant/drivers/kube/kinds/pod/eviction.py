"""What a pod's object says about evicting it, as `EvictionNotes`."""

from __future__ import annotations

import re

from cotenant.drivers.kube.kinds.pod.schema import PodAnnotations, PodObject, PodSpec, PodStatus
from cotenant.model.cluster.annotations import DELETION_COST, EVICTION_COST
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.qos import KubernetesQoS

_INT32 = range(-(2**31), 2**31)
_INTEGER = re.compile(r"-?[0-9]{1,10}")
_QOS = {each.value: each for each in KubernetesQoS}


def read_eviction_notes(obj: PodObject) -> EvictionNotes:
    """The notes of a pod. Never fails: what cannot be read is in `wrong`. A pod without a QoS class in its status counts as Burstable."""
    notes, spec, status = obj.metadata.annotations or PodAnnotations(), obj.spec or PodSpec(), obj.status or PodStatus()
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
        is_ready=any(each.type == "Ready" and each.status == "True" for each in status.conditions or ()),
        has_local_storage=any(each.empty_dir is not None or each.host_path is not None for each in volumes),
        has_claims=any(each.persistent_volume_claim is not None or each.ephemeral is not None for each in volumes),
        deletion_cost=cost(DELETION_COST, notes.deletion_cost),
        eviction_cost=cost(EVICTION_COST, notes.eviction_cost),
        forced=notes.forced_eviction is not None,
        wrong=tuple(wrong),
    )
