"""What the demonstration takes, and the table of a day in which the cluster did not keep up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.demo import page
from cotenant.services.demo.run import DayOutcome, DemoConfig, Sample


def samples(*hours: float) -> list[Sample]:
    return [Sample(each, 0.6, 0.3, 0.138, 0.2, 100) for each in hours]


GOOD = DayOutcome(
    "kube-default",
    samples(*(0.2 * each for each in range(70))),
    hours_per_s=0.41,
    submitted=1600,
    placed=1575,
    wait_p99_ms=158.0,
    services_placed=True,
    stages_done=297,
    stages=447,
)


def test_a_day_that_was_kept_up_with_has_all_figures() -> None:
    assert GOOD.behind == ""
    assert page.row(GOOD) == ("kube-default", "1575", "158", "60.0", "30.0", "13.80", "13.8", "20.0", "297 of 447")
    assert page.warnings([GOOD]) == []


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (
            replace(GOOD, placed=109, services_placed=False),
            "only 109 of 1600 pods were placed, not all services among them",
        ),
        (replace(GOOD, samples=samples(0.2, 0.4, 3.5, 3.7)), "the nodes stood still for 3.1 simulated hours"),
        (replace(GOOD, wait_p99_ms=3000.0), "pods waited for up to 1.2 simulated hours (p99)"),
        (replace(GOOD, samples=samples(0.2, 0.4)), "no sample was taken after the settling time"),
        (replace(GOOD, samples=[]), "no sample was taken after the settling time"),
    ],
)
def test_a_cluster_that_fell_behind_shows_no_figure_as_a_result(bad: DayOutcome, why: str) -> None:
    assert bad.behind == why
    row = page.row(bad)
    assert len(row) == len(page.COLUMNS)
    assert row[0] == "kube-default *"
    assert set(row[2:-1]) == {"–"}
    (line,) = page.warnings([GOOD, bad])
    assert line.startswith(f"* kube-default: the cluster did not keep up with the day: {why}.")


def test_the_page_says_it_too(tmp_path) -> None:  # type: ignore[no-untyped-def]
    page.write(tmp_path / "report.html", DemoConfig(), [replace(GOOD, placed=109, services_placed=False)])
    text = (tmp_path / "report.html").read_text()
    assert "only 109 of 1600 pods were placed" in text
    assert "13.80" not in text.partition("<script>")[0]


@pytest.mark.parametrize(
    "profile", ["kube-default+", "kube-default+request", "+peak", "cotenants", "kube-default+peak+peak"]
)
def test_unknown_profiles_and_policies_are_refused(profile: str) -> None:
    with pytest.raises(InvalidInput, match="--profile"):
        DemoConfig(profiles=(profile,))


def test_loads_that_no_workload_can_have_are_refused() -> None:
    with pytest.raises(InvalidInput, match="--load"):
        DemoConfig(load=0.0)
