"""What no cluster can have learned of use is refused, with the field."""

from __future__ import annotations

import msgspec
import pytest
from tests.fakes.shared_use import horizon_evidence, use_evidence

from cotenant.model.errors import InvalidInput
from cotenant.model.prediction.shared_use import PPM, UseEvidence, check_evidence

KNOWN = use_evidence()


def test_what_can_be_learned_is_right_and_so_is_a_question() -> None:
    check_evidence("p", KNOWN)
    check_evidence("p", UseEvidence("web.cpu"))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hours": 0}, "p:"),
        ({"hours": -1}, "p.hours"),
        ({"day_ppm": (0,) * 23}, "p.day"),
        ({"day_ppm": (PPM + 1,) * 24}, "p.day"),
        ({"week_ppm": ()}, "p.week"),
        ({"week_ppm": (-PPM - 1,) * 168}, "p.week"),
        ({"trust_ppm": PPM + 1}, "p.trust"),
        ({"horizons": ()}, "p.horizons"),
        ({"horizons": (horizon_evidence(hours=4), horizon_evidence(hours=1))}, "p.horizons"),
        ({"horizons": (horizon_evidence(), horizon_evidence())}, "p.horizons"),
        ({"horizons": tuple(horizon_evidence(hours=at) for at in range(1, 10))}, "p.horizons"),
        ({"horizons": (horizon_evidence(hours=169),)}, "p.169 h"),
        ({"horizons": (horizon_evidence(forecasts=0),)}, "p.1 h.forecasts"),
        ({"horizons": (horizon_evidence(carry_ppm=-1),)}, "p.1 h.carry"),
        ({"horizons": (horizon_evidence(size_ppm=PPM + 1),)}, "p.1 h.excess, size"),
        ({"horizons": (horizon_evidence(excess_ppm=-1),)}, "p.1 h.excess, size"),
        ({"horizons": (horizon_evidence(error_ppm=2 * PPM),)}, "p.1 h.error"),
        ({"horizons": (horizon_evidence(quantiles_ppm=(0,) * 10),)}, "p.1 h.quantiles"),
        ({"horizons": (horizon_evidence(quantiles_ppm=(*(0,) * 10, -1)),)}, "p.1 h.quantiles"),
        ({"horizons": (horizon_evidence(quantiles_ppm=(*(0,) * 10, 10**9)),)}, "p.1 h.quantiles"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}"):
        check_evidence("p", msgspec.structs.replace(KNOWN, **change))
