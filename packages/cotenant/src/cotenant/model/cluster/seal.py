"""The seal of a pod's holdings: which text the scheduler signs, and how much a pod's holdings are believed.

Problem: whoever may write a pod can write the annotations that say what it holds, and neither `managedFields` (the manager's name is the client's to choose) nor a webhook (it may be away)
proves who wrote them. Choice: the scheduler signs the pod's uid, its node and these annotations as they are written, and the signature is bound with them; a reader with the scheduler's
certificate believes nothing else. Limits: a seal says that the scheduler gave this once: a pod's owner can delete it, and lose what it holds, or put back an older one of the same pod and node,
which says the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum

from cotenant.model.cpus.spec import RESOURCE_STATUS
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.groups.reservation_notes import ALLOCATED

SEAL = "cotenant.io/seal"  # on pods, by our scheduler: signature over the annotations below, base64
SEALED = (RESOURCE_STATUS, DEVICE_ALLOCATED, ALLOCATED)


class Standing(StrEnum):
    """How much what a pod's annotations say that it holds is believed."""

    SEALED = "sealed"  # the scheduler's signature is right: all of it
    CHECKED = "checked"  # no certificate here, or a pod older than it: what the pod is entitled to
    REFUSED = "refused"  # without a seal, or with a wrong one: nothing


def sealed_text(uid: str, node: str, annotations: Mapping[str, str]) -> bytes:
    """What is signed: empty annotations count as absent."""
    texts = [annotations.get(name) or "" for name in SEALED]
    return json.dumps(["cotenant.io/seal.v1", uid, node, *texts], separators=(",", ":")).encode()
