"""What a pod's annotations and labels say about reservations, and the names of all of them.

Problem: a pod may insist on reservations, may want none, and says from which it drew once it is bound; all of it is JSON under names that users
of Koordinator already write. Choice: two frozen values and the names; the JSON is read by a driver. Limits: `exact-match-reservation` is not read.

Source: Koordinator, apis/extension/reservation.go.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from cotenant.model.cluster.affinity import NodeSelector
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.taints import Toleration
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object

PREFIX = "scheduling.koordinator.sh/"
AFFINITY = PREFIX + "reservation-affinity"  # on pods: JSON
ALLOCATED = PREFIX + "reservation-allocated"  # on pods, by a scheduler: JSON with name and uid
RESTRICTED_OPTIONS = PREFIX + "reservation-restricted-options"  # on reservations: JSON
IGNORED = PREFIX + "reservation-ignored"  # label of pods
ORDER = PREFIX + "reservation-order"  # label of reservations: the lower the sooner, 0 or below = none


@dataclass(frozen=True, slots=True)
class ReservationAffinity:
    """Which reservations a pod insists on: all that is given here must hold. Without any of it, every one that it owns will do."""

    name: str = ""
    required: NodeSelector | None = None  # over the reservation's labels and name
    selector: Labels = NO_LABELS
    tolerations: tuple[Toleration, ...] = ()  # of reservations' taints


@dataclass(frozen=True, slots=True)
class Allocated:
    """From which reservation a pod drew."""

    name: str
    uid: str

    @classmethod
    def parse(cls, text: str) -> Allocated:
        """From the annotation. Raises `InvalidInput`."""
        field, expected = f"annotation {ALLOCATED}", 'a JSON object such as {"name": "...", "uid": "..."}'
        told = json_object(field, text, expected)
        if not all(isinstance(told.get(key), str) and told[key] for key in ("name", "uid")):
            raise InvalidInput(field, text, expected)
        return cls(told["name"], told["uid"])

    def format(self) -> str:
        """As the annotation has it."""
        return json.dumps({"name": self.name, "uid": self.uid}, separators=(",", ":"))
