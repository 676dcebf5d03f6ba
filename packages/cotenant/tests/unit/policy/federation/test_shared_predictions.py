"""What clusters learned of use, combined: hours weigh, and one that lies is outvoted in every figure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.shared_use import horizon_evidence, use_evidence
from tests.property.few import examples

from cotenant.model.prediction.shared_use import PPM, QUANTILE_SHARES, UseEvidence, check_evidence
from cotenant.policy.federation.shared_predictions import LEAST_CLUSTERS, predicted_together

AMOUNTS = st.integers(-PPM, PPM)


@st.composite
def evidences(draw: st.DrawFn) -> UseEvidence:
    """Anything that passes the check."""
    quantiles = tuple(sorted(draw(st.lists(st.integers(-5 * PPM, 15 * PPM), min_size=len(QUANTILE_SHARES),
                                           max_size=len(QUANTILE_SHARES)))))  # fmt: skip
    shares = st.integers(0, PPM)
    horizon = horizon_evidence(1, draw(st.integers(1, 10**6)), draw(shares), draw(shares), draw(AMOUNTS), draw(shares),
                               quantiles)  # fmt: skip
    return UseEvidence("web.cpu", draw(st.integers(1, 2**50)), (draw(AMOUNTS),) * 24, (draw(AMOUNTS),) * 168,
                       draw(shares), (horizon,))  # fmt: skip


def figures(found: UseEvidence) -> Iterator[int]:
    """Every figure of it."""
    yield from (*found.day_ppm, *found.week_ppm, found.trust_ppm)
    for one in found.horizons:
        yield from (one.carry_ppm, one.excess_ppm, one.error_ppm, one.size_ppm, *one.quantiles_ppm)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(evidences(), min_size=2, max_size=5), evidences(), st.integers(0, 5))
def test_one_that_lies_moves_no_figure_beyond_what_the_others_state(
    honest: list[UseEvidence], lie: UseEvidence, place: int
) -> None:
    found = predicted_together("web.cpu", [*honest[:place], lie, *honest[place:]])
    check_evidence("web.cpu", found)
    for value, others in zip(figures(found), zip(*map(figures, honest), strict=True), strict=True):
        assert min(others) <= value <= max(others)


def test_fewer_than_three_give_nothing_also_where_more_ask() -> None:
    asks = UseEvidence("web.cpu")
    assert predicted_together("web.cpu", [use_evidence()] * 2 + [asks] * 3) == asks
    found = predicted_together("web.cpu", [asks, *[use_evidence()] * 3])
    assert (found.clusters, found.hours, found.day_ppm) == (LEAST_CLUSTERS, 3000, use_evidence().day_ppm)


def test_of_two_middle_ones_the_larger_error_counts_and_the_mean_of_a_day() -> None:
    told = [
        msgspec.structs.replace(use_evidence(day_ppm=1000 * at), horizons=(horizon_evidence(size_ppm=at),))
        for at in (10, 20, 30, 40)
    ]
    found = predicted_together("web.cpu", told)
    assert found.horizons[0].size_ppm == 30
    assert found.day_ppm[0] == 25_000


def test_no_evidence_weighs_more_than_that_of_the_cluster_in_the_middle() -> None:
    """Without that end the first would weigh nearly as much as the three together, and the least error would count."""
    sizes = ((5, 10**9), (10, 100), (20, 100), (30, 100))
    told = [
        msgspec.structs.replace(use_evidence(hours=hours), horizons=(horizon_evidence(size_ppm=size),))
        for size, hours in sizes
    ]
    assert predicted_together("web.cpu", told).horizons[0].size_ppm == 20


def test_a_horizon_that_too_few_state_is_left_out() -> None:
    one_only = msgspec.structs.replace(use_evidence(), horizons=(horizon_evidence(),))
    found = predicted_together("web.cpu", [use_evidence(), use_evidence(), one_only])
    assert [one.hours for one in found.horizons] == [1]


def test_one_that_states_more_forecasts_than_there_can_be_does_not_spoil_the_answer() -> None:
    lie = msgspec.structs.replace(use_evidence(), horizons=(horizon_evidence(forecasts=2**53),))
    check_evidence("web.cpu", lie)
    found = predicted_together("web.cpu", [lie, *[use_evidence()] * 3])
    check_evidence("web.cpu", found)  # else who asked would leave it out
    assert found.clusters == 4
