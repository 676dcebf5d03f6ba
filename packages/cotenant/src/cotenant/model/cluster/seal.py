"""The seals of a pod: which texts the scheduler signs, and how much of what a pod says is believed.

Whoever may write a pod can write the annotations that say what it holds, and neither `managedFields` (the manager's
name is the client's to choose) nor a webhook (it may be away) proves who wrote them. The scheduler signs the pod's uid,
its node and these annotations as they are written, and the signature is bound with them; a reader with the scheduler's
certificate believes nothing else.
Limits: a seal says that the scheduler gave this once: a pod's owner can delete it, and lose what it holds, or put back
an older one of the same pod and node, which says the same.

Class, quota and tenant are the owner's to choose until the pod is bound, and no longer: `SETTLED` states them as they
stood at the bind, signed, and readers go by the statement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from cotenant.model.cluster.annotations import DECISION, EXTENDED_SPEC, TENANT
from cotenant.model.cluster.demands import GPU_SHARE
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS, SUB_PRIORITY
from cotenant.model.cpus.spec import RESOURCE_STATUS
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.groups import quota
from cotenant.model.groups.reservation_notes import ALLOCATED

SEAL = "cotenant.io/seal"  # on pods, by our scheduler: signature over the annotations below, base64
SEALED = (RESOURCE_STATUS, DEVICE_ALLOCATED, ALLOCATED)

SETTLED = (
    "cotenant.io/settled"  # on pods, by our scheduler: JSON of the values below at the bind, a space, the signature
)
# annotations of pods that a scheduler writes and nobody else may: admission refuses them, a copy of a pod has none
BY_SCHEDULER = (*SEALED, GPU_SHARE, SEAL, SETTLED, DECISION)
SETTLED_LABELS = (QOS_CLASS, PRIORITY_CLASS, SUB_PRIORITY, quota.NAME, quota.TREE_ID, quota.PREEMPTIBLE)
SETTLED_ANNOTATIONS = (TENANT, EXTENDED_SPEC)
Values: TypeAlias = Mapping[str, str]  # by the names above; what is empty is left out


class SealStanding(StrEnum):
    """How much what a pod's annotations say that it holds is believed."""

    SEALED = "sealed"  # the scheduler's signature is right: all of it
    CHECKED = "checked"  # no certificate here, or a pod older than it: what the pod is entitled to
    REFUSED = "refused"  # without a seal, or with a wrong one: nothing


def sealed_text(uid: str, node: str, annotations: Mapping[str, str]) -> bytes:
    """What is signed: empty annotations count as absent."""
    texts = [annotations.get(name) or "" for name in SEALED]
    return json.dumps(["cotenant.io/seal.v1", uid, node, *texts], separators=(",", ":")).encode()


def settled_values(labels: Mapping[str, str], annotations: Mapping[str, str | None]) -> dict[str, str]:
    """What a pod has of `SETTLED_LABELS` and `SETTLED_ANNOTATIONS`."""
    found = {name: value for name in SETTLED_LABELS if (value := labels.get(name))}
    if annotations:
        found |= {name: value for name in SETTLED_ANNOTATIONS if (value := annotations.get(name))}
    return found


def settled_text(uid: str, node: str, values: Values) -> bytes:
    """What is signed of these values."""
    return json.dumps(["cotenant.io/settled.v1", uid, node, sorted(values.items())], separators=(",", ":")).encode()
