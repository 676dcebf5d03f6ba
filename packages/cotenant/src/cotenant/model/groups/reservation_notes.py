"""A pod's annotations and labels about reservations, with their names.

A pod may require reservations or exclude them, and records from which it drew once it is bound; all of it is JSON under
names that Koordinator's users already write. Frozen values and the names; a driver parses the affinity's JSON.

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
EXACT_MATCH = PREFIX + "exact-match-reservation"  # on pods: JSON with resourceNames
PRE_ALLOCATION_REQUIRED = PREFIX + "pre-allocation-required"  # label of reservations
PRE_ALLOCATABLE = "pod.koordinator.sh/is-pre-allocatable"  # label of pods
PRE_ALLOCATABLE_PRIORITY = "pod.koordinator.sh/pre-allocatable-priority"  # on pods: higher values are taken first
IGNORED = PREFIX + "reservation-ignored"  # label of pods
ORDER = PREFIX + "reservation-order"  # label of reservations: lower values first, 0 or below = none


@dataclass(frozen=True, slots=True)
class ReservationAffinity:
    """The reservations that a pod requires: every given criterion must match. Without any, every reservation that
    it owns is accepted.
    """

    name: str = ""
    required: NodeSelector | None = None  # over the reservation's labels and name
    selector: Labels = NO_LABELS
    tolerations: tuple[Toleration, ...] = ()  # of reservations' taints


@dataclass(frozen=True, slots=True)
class AllocatedReservation:
    """The reservation from which a pod drew."""

    name: str
    uid: str

    @classmethod
    def parse(cls, text: str) -> AllocatedReservation:
        """Parse the annotation. Raises `InvalidInput`."""
        field, expected = f"annotation {ALLOCATED}", 'a JSON object such as {"name": "...", "uid": "..."}'
        data = json_object(field, text, expected)
        if not all(isinstance(data.get(key), str) and data[key] for key in ("name", "uid")):
            raise InvalidInput(field, text, expected)
        return cls(data["name"], data["uid"])

    def format(self) -> str:
        """Format the annotation."""
        return json.dumps({"name": self.name, "uid": self.uid}, separators=(",", ":"))


def parse_exact_match(text: str) -> tuple[str, ...]:
    """The resources of which a pod only uses reservations that reserve exactly its request. Raises `InvalidInput`."""
    field, expected = f"annotation {EXACT_MATCH}", 'a JSON object such as {"resourceNames": ["cpu", "memory"]}'
    found = json_object(field, text, expected).get("resourceNames") or []
    if not isinstance(found, list) or not all(isinstance(name, str) and name for name in found):
        raise InvalidInput(field, text, expected)
    return tuple(dict.fromkeys(found))


def parse_pre_allocatable_priority(text: str) -> int:
    """Raises `InvalidInput`."""
    try:
        return int(text) if len(text) < 20 else int("")
    except ValueError:
        raise InvalidInput(f"annotation {PRE_ALLOCATABLE_PRIORITY}", text, "a whole number") from None
