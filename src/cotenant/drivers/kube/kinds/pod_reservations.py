"""A pod's reservation-affinity, from JSON in an annotation.

Choice: the struct of the annotation with the parts that the API's own kinds have, read by the same functions. Limits: an affinity that is an empty
object asks for any reservation that the pod owns.
Source: Koordinator, apis/extension/reservation.go (ReservationAffinity).
"""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.kinds import terms
from cotenant.drivers.kube.kinds.objects import SelectorTerm, Strings, Toleration
from cotenant.model.cluster.affinity import NodeSelector
from cotenant.model.cluster.labels import Labels
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.reservation_notes import AFFINITY, ReservationAffinity

_FIELD = f"annotation {AFFINITY}"


class _Required(Struct, frozen=True, rename="camel"):
    reservation_selector_terms: tuple[SelectorTerm, ...] | None = None


class _Affinity(Struct, frozen=True, rename="camel"):
    name: str | None = None
    required: _Required | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    reservation_selector: Strings = None
    tolerations: tuple[Toleration, ...] | None = None


_decoder = msgspec.json.Decoder(_Affinity)


def read_affinity(text: str) -> ReservationAffinity:
    """Raises `InvalidInput`."""
    if not text:
        return ReservationAffinity()
    try:
        told = _decoder.decode(text)
    except UNREADABLE as error:
        raise InvalidInput(_FIELD, text, "a reservation affinity as JSON", str(error)) from None
    required = None
    if told.required is not None:
        written = told.required.reservation_selector_terms or ()
        required = NodeSelector(
            tuple(
                terms.selector_term(term, f"{_FIELD}.reservationSelectorTerms[{i}]") for i, term in enumerate(written)
            )
        )
    return ReservationAffinity(
        name=told.name or "",
        required=required,
        selector=Labels.of(told.reservation_selector or {}),
        tolerations=terms.tolerations(told.tolerations or (), f"{_FIELD}.tolerations"),
    )
