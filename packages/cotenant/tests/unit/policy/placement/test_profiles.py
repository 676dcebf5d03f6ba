"""What each built-in profile is made of; knobs are those that a search chose, and rivals keep theirs."""

from __future__ import annotations

from dataclasses import fields

import pytest

from cotenant.policy.placement.codes import Fit, Order
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.profiles import PROFILES, PlacementProfile, profile

KUBE = {"kube-default", "kube-1.36"}
OURS = {"cotenant", "cotenant-learned", "cotenant-requests"}
MEASURED = {"edf-paragon-measured", "edf-paragon-learned"}
EDF = {"edf-best-fit", "edf-least-allocated", "edf-paragon", "edf-paragon-overcommit", *MEASURED}
HAVE = {
    "random_ties": {one.name for one in PROFILES} - {"first-fit"},
    "samples_nodes": KUBE,
    "default_spread": KUBE,
    "measures_use": OURS | MEASURED,
    "weighs_slack": OURS,
    "moves_victims": OURS,
    "learns_interference": {"cotenant-learned", "edf-paragon-learned"},
}
RIVAL = {
    "smt_loss": 0.21, "batch_budget": 0.51, "pressure_factor": 0.63, "use_limit": 0.83, "memory_limit": 0.94,
    "request_cap": 1.95, "caution": 0.70,
}  # fmt: skip
KNOBS = {
    "edf-paragon": {"smt_loss": 0.33, "batch_budget": 0.73, "pressure_factor": 0.97},
    "edf-paragon-overcommit": {
        "smt_loss": 0.24, "batch_budget": 0.54, "pressure_factor": 0.49, "use_limit": 0.74, "memory_limit": 0.87,
        "request_cap": 1.78,
    },
    "edf-paragon-measured": RIVAL,
    "edf-paragon-learned": RIVAL,
}  # fmt: skip


def test_switches_are_on_for_these_profiles_and_no_others() -> None:
    for name, on in HAVE.items():
        assert {one.name for one in PROFILES if getattr(one, name)} == on
    switches = {field.name for field in fields(PlacementProfile) if isinstance(field.default, bool)}
    assert switches == set(HAVE)
    assert {one.sample_pct for one in PROFILES} == {0}


def test_who_orders_and_fits_how() -> None:
    assert {one.name for one in PROFILES if one.order is Order.DEADLINE} == EDF
    assert {one.name for one in PROFILES if one.order is Order.SLACK} == OURS
    predicted = {one.name for one in PROFILES if one.fit is Fit.PREDICTED_USE}
    assert predicted == MEASURED | {"edf-paragon-overcommit", "cotenant", "cotenant-learned"}


@pytest.mark.parametrize("of", PROFILES, ids=lambda one: one.name)
def test_knobs_are_the_usual_ones_but_for_those_that_a_search_chose(of: PlacementProfile) -> None:
    assert of.knobs == Knobs(**KNOBS.get(of.name, {}))
    assert of.reads_metrics is (of.name in HAVE["measures_use"] | HAVE["learns_interference"])


def test_a_profile_is_found_by_its_name_and_changed_in_a_copy() -> None:
    for one in PROFILES:
        assert profile(one.name) is one
    with pytest.raises(KeyError):
        profile("none")
    changed = profile("cotenant").with_values((("caution", 0.5),))
    assert (changed.knobs.caution, profile("cotenant").knobs.caution) == (0.5, Knobs().caution)
    assert changed.name == "cotenant"
