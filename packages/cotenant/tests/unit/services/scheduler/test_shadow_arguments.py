"""`cotenant scheduler --shadow`: which options go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.scheduler.scheduler_arguments import SchedulerArguments, check, names_of


def test_it_watches_the_usual_scheduler_or_those_that_are_named() -> None:
    assert names_of(SchedulerArguments(shadow=True))[0] == ("default-scheduler",)
    assert names_of(SchedulerArguments(shadow=True, shadow_of=("a", "b=kube-default")))[0] == ("a", "b=kube-default")
    assert names_of(SchedulerArguments())[0] == ("cotenant",)
    check(SchedulerArguments(shadow=True))


def test_a_configuration_names_them_itself() -> None:
    asked = SchedulerArguments(shadow=True, config=Path("f.yaml"), scheduler_names=("first", "second"))
    assert names_of(asked)[0] == ("first", "second")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (SchedulerArguments(shadow_of=("x",)), "--shadow-of"),
        (SchedulerArguments(shadow=True, scheduler_names=("x",)), "--scheduler-name"),
        (SchedulerArguments(shadow=True, seal=Path("k")), "--seal"),
        (SchedulerArguments(shadow=True, report_account="a/b"), "--report-account"),
        (SchedulerArguments(shadow=True, shadow_of=("x",), config=Path("f")), "--shadow-of"),
        (SchedulerArguments(shadow=True, shadow_of=("Not A Name",)), "--shadow-of"),
        (SchedulerArguments(shadow=True, shadow_cpu_share_pct=0.0), "--shadow-cpu-share"),
        (SchedulerArguments(shadow=True, shadow_cpu_share_pct=float("nan")), "--shadow-cpu-share"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(asked: SchedulerArguments, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check(asked)
    assert refused.value.field == field
