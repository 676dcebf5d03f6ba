"""WorkloadProfiles as they are written: what is read, what is refused in words, and that statuses are read back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.drivers.kube.kinds.custom.workload_profile import (
    WorkloadProfileObject,
    axes_fields,
    overall_fields,
    read_workload_profile,
)
from cotenant.model.cluster.workload_profile import (
    LARGEST,
    NOT_SEEN,
    AxisReading,
    FigureSource,
    Overall,
    ProfileAxis,
    ProfileFigure,
    Unknown,
    WorkloadProfile,
    figure,
)
from cotenant.model.errors import InvalidInput


def read(spec: object, status: object = None) -> WorkloadProfile:
    text = msgspec.json.encode(
        {"metadata": {"namespace": "shop", "name": "cart", "uid": "u"}, "spec": spec, "status": status}
    )
    return read_workload_profile(msgspec.json.decode(text, type=WorkloadProfileObject))


SPEC: dict[str, Any] = {
    "workload": {"name": "cart"},
    "declared": {
        "overall": {"sensitivity": 800, "pressure": 100},
        "axes": {"cpu": {"tendency": 300, "sensitivity": 700}},
    },
}
READINGS = st.one_of(
    st.builds(Unknown, st.text(min_size=1, max_size=50)),
    st.lists(st.integers(0, LARGEST), min_size=3, max_size=3).map(
        lambda three: ProfileFigure(sorted(three)[1], min(three), max(three), 7, FigureSource.LEARNED)
    ),
)
AXES = st.dictionaries(st.sampled_from(ProfileAxis), st.builds(AxisReading, READINGS, READINGS))


def test_a_declared_profile() -> None:
    found = read(SPEC)
    assert found.wrong == ()
    assert (found.key, found.workload.kind, found.workload.name) == ("shop/cart", "Deployment", "cart")
    assert found.overall.sensitivity == ProfileFigure(800, 800, 800, 0, FigureSource.DECLARED)
    assert found.axis(ProfileAxis.CPU).tendency == ProfileFigure(300, 300, 300, 0, FigureSource.DECLARED)
    assert found.axis(ProfileAxis.CACHE) == AxisReading(NOT_SEEN, NOT_SEEN)


@pytest.mark.slow
@given(AXES, READINGS, READINGS, READINGS)
def test_a_status_is_read_back(
    axes: dict[ProfileAxis, AxisReading], sensitivity: Any, pressure: Any, tolerates: Any
) -> None:
    overall = Overall(sensitivity, pressure, tolerates)
    fields = axes_fields(axes)
    found = read(SPEC, {"axes": fields, "overall": overall_fields(overall), "measured": {"node": "n", "axes": fields}})
    assert found.wrong == ()
    assert (found.learned, found.learned_overall, found.measured) == (axes, overall, axes)


def test_measured_counts_before_learned_and_that_before_declared() -> None:
    axes = {ProfileAxis.CPU: AxisReading(Unknown("no node"), figure(0.2, 0.1, 30, FigureSource.LEARNED))}
    measured = {ProfileAxis.CPU: AxisReading(NOT_SEEN, figure(0.5, 0.1, 5, FigureSource.MEASURED))}
    found = read(SPEC, {"axes": axes_fields(axes), "measured": {"axes": axes_fields(measured)}}).axis(ProfileAxis.CPU)
    assert found.sensitivity == ProfileFigure(500, 400, 600, 5, FigureSource.MEASURED)
    assert isinstance(found.tendency, ProfileFigure)
    assert found.tendency.source is FigureSource.DECLARED


def test_the_learners_reason_is_given_where_nothing_is_known() -> None:
    axes = {ProfileAxis.CACHE: AxisReading(NOT_SEEN, Unknown("no PMU"))}
    measured = {ProfileAxis.CACHE: AxisReading(Unknown("a run"), Unknown("it was not part of the run"))}
    found = read(SPEC, {"axes": axes_fields(axes), "measured": {"axes": axes_fields(measured)}}).axis(ProfileAxis.CACHE)
    assert found == AxisReading(Unknown("a run"), Unknown("no PMU"))


def test_without_an_overall_sensitivity_the_largest_measured_one_counts() -> None:
    measured = {
        axis: AxisReading(NOT_SEEN, figure(value, 0.0, 5, FigureSource.MEASURED))
        for axis, value in ((ProfileAxis.CPU, 0.2), (ProfileAxis.DISK, 0.6))
    }
    found = read({"workload": {"name": "cart"}}, {"measured": {"axes": axes_fields(measured)}})
    assert isinstance(found.overall.sensitivity, ProfileFigure)
    assert found.overall.sensitivity.value == 600


@pytest.mark.parametrize("bad", [-1, 1001, "7", 1.5, True, [], {}])
def test_an_absurd_value_is_refused_in_words_and_the_rest_counts(bad: object) -> None:
    found = read({"workload": {"name": "c"}, "declared": {"overall": {"sensitivity": bad, "pressure": 5}}})
    assert len(found.wrong) == 1
    assert "spec.declared.overall.sensitivity" in found.wrong[0]
    assert isinstance(found.overall.pressure, ProfileFigure)


@pytest.mark.parametrize(
    "spec", [None, [], "x", {"workload": []}, {"workload": {"name": 3}}, {"workload": {"name": ""}}]
)
def test_a_profile_of_no_workload_says_so(spec: object) -> None:
    assert read(spec).wrong


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2000) | st.text(max_size=5) | st.sampled_from(["cpu", "learned"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["axes", "name", "value", "low", "high", "tendency", "source"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(JSON, JSON)
def test_nothing_else_is_raised(declared: object, axes: object) -> None:
    read({"workload": {"name": "c"}, "declared": declared}, {"axes": axes, "overall": axes, "measured": axes})


def test_figures_are_cut_to_the_scale() -> None:
    assert figure(1.7, 0.2, 3, FigureSource.LEARNED) == ProfileFigure(
        LARGEST, LARGEST, LARGEST, 3, FigureSource.LEARNED
    )
    assert figure(-0.1, 0.2, 3, FigureSource.LEARNED) == ProfileFigure(0, 0, 100, 3, FigureSource.LEARNED)
    with pytest.raises(InvalidInput):
        ProfileFigure(5, 6, 7, 1, FigureSource.LEARNED)
