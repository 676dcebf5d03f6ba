"""A pod's reservation affinity, from JSON in an annotation.

A struct for the annotation, made of the parts that the API's own kinds have, read by the same functions.
Limits: an affinity that is an empty object asks for any reservation that the pod may own.
Source: Koordinator, apis/extension/reservation.go (ReservationAffinity).
"""

from __future__ import annotations

import msgspec
from msgspec import field

from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.kinds.kind import ApiStruct, Strings
from cotenant.drivers.kube.kinds.selectors import SelectorTerm, read_selector_term
from cotenant.drivers.kube.kinds.taints import ApiToleration, read_tolerations
from cotenant.model.cluster.affinity import NodeSelector
from cotenant.model.cluster.labels import Labels
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.reservation_notes import AFFINITY, ReservationAffinity

_FIELD = f"annotation {AFFINITY}"


class _Required(ApiStruct, frozen=True):
    reservation_selector_terms: tuple[SelectorTerm, ...] | None = None


class _Affinity(ApiStruct, frozen=True):
    name: str | None = None
    required: _Required | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    reservation_selector: Strings = None
    tolerations: tuple[ApiToleration, ...] | None = None


_decoder = msgspec.json.Decoder(_Affinity)


def read_affinity(text: str) -> ReservationAffinity:
    """From the annotation's text. Raises `InvalidInput`."""
    if not text:
        return ReservationAffinity()
    try:
        parsed = _decoder.decode(text)
    except UNREADABLE as error:
        raise InvalidInput(_FIELD, text, "a reservation affinity as JSON", str(error)) from None
    required = None
    if parsed.required is not None:
        written = parsed.required.reservation_selector_terms or ()
        required = NodeSelector(
            tuple(read_selector_term(term, f"{_FIELD}.reservationSelectorTerms[{i}]") for i, term in enumerate(written))
        )
    return ReservationAffinity(
        name=parsed.name or "",
        required=required,
        selector=Labels.of(parsed.reservation_selector or {}),
        tolerations=read_tolerations(parsed.tolerations or (), f"{_FIELD}.tolerations"),
    )
