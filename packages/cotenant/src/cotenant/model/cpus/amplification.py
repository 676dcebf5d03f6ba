"""Amplification ratios of a node: how much more CPU and memory it advertises than it physically has.

Source: Koordinator, apis/extension/node_resource_amplification.go (annotation of a node and of its
NodeResourceTopology). Limits: ratios of other resources are ignored; upstream's ratios are floats, here they are in
millionths.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO
from cotenant.model.errors import InvalidInput

PPM = 1_000_000
MAX_RATIO = 1000.0  # more is a mistake, and would not fit the arithmetic


@dataclass(frozen=True, slots=True)
class Ratios:
    """In millionths; `PPM` = not amplified."""

    cpu_ppm: int = PPM
    memory_ppm: int = PPM

    @classmethod
    def parse(cls, text: str | None) -> Ratios:
        """The annotation's value. A ratio that is not a number above 0 counts as absent, the other one stands.
        Raises `InvalidInput` where it is no JSON object.
        """
        if not text:
            return NOT_AMPLIFIED
        field = f"annotation {AMPLIFICATION_RATIO}"
        try:
            ratios = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(field, text, "JSON as Koordinator has it", str(error)) from None
        if not isinstance(ratios, dict):
            raise InvalidInput(field, text, "a JSON object of ratios by resource")
        return cls(_ppm(ratios, "cpu"), _ppm(ratios, "memory"))


NOT_AMPLIFIED = Ratios()


def amplified(amount: int, ratio_ppm: int) -> int:
    """A physical amount converted to the advertised amount, rounded up; a ratio of one or less changes nothing."""
    return amount if ratio_ppm <= PPM else -(-amount * ratio_ppm // PPM)


def _ppm(ratios: dict[str, object], name: str) -> int:
    ratio = ratios.get(name, 1.0)
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= MAX_RATIO:
        return PPM
    return round(ratio * PPM)
