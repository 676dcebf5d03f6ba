"""What the claim rule requests beside binds: that a claim of a pod which cannot use it is given back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReleaseClaim:
    """Take back a claim's allocation, if it is reserved for no other than `consumer_uid`, a pod or a
    PodGroup. `delete`: a claim that
    was made for the pod's extended resources is deleted. Nothing answers: a claim that stays is named again later.
    """

    key: str  # namespace/name
    uid: str
    consumer_uid: str
    delete: bool = False
    kind: str = "ResourceClaim"
