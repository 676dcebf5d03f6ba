"""When containers are started again and how healthy they are, by Docker's rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.fleet.supervision import (
    SupervisionAct,
    Supervisor,
    backoff_s,
    check_of,
    is_to_restart,
    quick_ends_after,
    timeout_s,
    words_of,
)
from cotenant.model.fleet.supervision import SupervisedContainer, Supervision
from cotenant.model.fleet.template import HealthCheck

CHECK = HealthCheck(("CMD", "check"), interval_s=5.0, timeout_s=2.0, start_period_s=0.0, retries=3)
ALWAYS = Supervision("always")
RUNNING = SupervisedContainer("web-1", "a", 0, "running", 0, 1000.0, 0.0, 0, is_held=False, supervision=ALWAYS)
ENDED = replace(RUNNING, status="exited", exit_code=3, finished_s=1004.0)
CHECKED = replace(RUNNING, supervision=Supervision(health=CHECK))


@pytest.mark.parametrize(
    ("supervision", "code", "attempt", "expected"),
    [
        (Supervision("no", health=CHECK), 3, 0, False),
        (Supervision("always"), 0, 0, True),
        (Supervision("unless-stopped"), 0, 7, True),
        (Supervision("on-failure"), 0, 0, False),
        (Supervision("on-failure"), 3, 99, True),
        (Supervision("on-failure", 2), 3, 1, True),
        (Supervision("on-failure", 2), 3, 2, False),
    ],
)
def test_which_end_is_followed_by_another_attempt(
    supervision: Supervision, code: int, attempt: int, expected: bool
) -> None:
    ended = replace(ENDED, supervision=supervision, exit_code=code, attempt=attempt)
    assert is_to_restart(ended) is expected
    assert Supervisor().act(ended, 2000.0) is (SupervisionAct.RESTART if expected else SupervisionAct.NOTHING)
    assert not is_to_restart(replace(ended, is_held=True))
    assert not is_to_restart(replace(ended, status="running"))


def test_a_first_start_that_failed_is_not_tried_again_and_a_later_one_is() -> None:
    assert not is_to_restart(replace(ENDED, started_s=0.0))
    assert is_to_restart(replace(ENDED, started_s=0.0, attempt=1))


def test_the_back_off_doubles_to_a_minute_and_begins_anew_after_a_long_run() -> None:
    ended, delays_s = ENDED, []
    for _ in range(12):
        delays_s.append(backoff_s(ended))
        ended = replace(ended, quick_ends=quick_ends_after(ended))
    assert delays_s == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0, 60.0]
    assert backoff_s(replace(ended, finished_s=ended.started_s + 9.9, quick_ends=10**9)) == 60.0
    long = replace(ended, finished_s=ended.started_s + 10.0)
    assert (backoff_s(long), quick_ends_after(long)) == (0.1, 1)


def test_a_restart_waits_for_its_back_off_whoever_looks() -> None:
    ended = replace(ENDED, quick_ends=5)  # 3.2 s
    supervisor = Supervisor()
    assert supervisor.act(ended, 1004.5) is SupervisionAct.NOTHING
    assert supervisor.due_s == pytest.approx(1007.2)
    assert supervisor.act(ended, 1007.1) is SupervisionAct.NOTHING
    assert supervisor.act(ended, 1007.3) is SupervisionAct.RESTART
    assert Supervisor().act(ended, 1007.3) is SupervisionAct.RESTART, "an agent that has just begun"
    supervisor.refused(ended, 1007.3)
    assert supervisor.act(ended, 1010.4) is SupervisionAct.NOTHING
    assert supervisor.act(ended, 1010.6) is SupervisionAct.RESTART


def test_a_clock_that_was_set_back_makes_nothing_wait_longer_than_once_more() -> None:
    ended = replace(ENDED, quick_ends=5)
    supervisor = Supervisor()
    assert supervisor.act(ended, 1004.0) is SupervisionAct.NOTHING
    assert supervisor.act(ended, 4.0) is SupervisionAct.NOTHING
    assert supervisor.act(ended, 7.3) is SupervisionAct.RESTART
    assert Supervisor().act(ended, 4.0) is SupervisionAct.NOTHING
    supervisor = Supervisor()
    assert supervisor.act(CHECKED, 1000.0) is SupervisionAct.NOTHING
    assert supervisor.act(CHECKED, 0.0) is SupervisionAct.NOTHING
    assert supervisor.act(CHECKED, 5.0) is SupervisionAct.PROBE


def test_an_attempt_whose_maker_was_killed_is_started_and_the_first_one_is_not() -> None:
    made = replace(RUNNING, id="b", attempt=1, status="created", started_s=0.0)
    supervisor = Supervisor()
    assert supervisor.act(made, 1000.0) is SupervisionAct.START
    supervisor.refused(made, 1000.0)
    assert supervisor.act(made, 1000.5) is SupervisionAct.NOTHING
    assert supervisor.act(made, 1001.0) is SupervisionAct.START
    assert Supervisor().act(replace(made, attempt=0), 1000.0) is SupervisionAct.NOTHING
    assert Supervisor().act(replace(made, is_held=True), 1000.0) is SupervisionAct.NOTHING


def checked(found: SupervisedContainer, *probes: tuple[float, bool]) -> list[str]:
    """The health after each check, of which each began then, and took a second."""
    supervisor, shown = Supervisor(), []
    for at_s, is_passed in probes:
        assert supervisor.act(found, at_s) is SupervisionAct.PROBE
        assert supervisor.act(found, at_s + 0.5) is SupervisionAct.NOTHING, "one at a time"
        supervisor.probed(found, "said", at_s, at_s + 1.0, is_passed=is_passed)
        shown.append(supervisor.health_of(found)[0])
    return shown


def test_it_is_starting_then_healthy_and_unhealthy_after_so_many_failures_in_a_row() -> None:
    assert Supervisor().health_of(CHECKED) == ("starting", "")
    assert Supervisor().health_of(RUNNING) == ("", "")
    assert checked(CHECKED, (1005.0, False), (1011.0, False), (1017.0, False), (1023.0, True)) == [
        "starting",
        "starting",
        "unhealthy",
        "healthy",
    ]
    passed, failed = (1005.0, True), [(1011.0 + 6 * turn, False) for turn in range(3)]
    assert checked(CHECKED, passed, *failed) == ["healthy"] * 3 + ["unhealthy"]
    reset = [(1011.0, False), (1017.0, False), (1023.0, True), (1029.0, False), (1035.0, False)]
    assert set(checked(CHECKED, passed, *reset)) == {"healthy"}


def test_failures_of_the_start_period_count_once_it_was_healthy_only() -> None:
    patient = replace(CHECKED, supervision=Supervision(health=replace(CHECK, start_period_s=12.0, retries=1)))
    assert checked(patient, (1005.0, False), (1011.0, False), (1017.0, False)) == ["starting", "starting", "unhealthy"]
    assert checked(patient, (1005.0, True), (1011.0, False)) == ["healthy", "unhealthy"]


def test_checks_follow_one_another_by_the_interval_from_the_end_of_the_last() -> None:
    supervisor = Supervisor()
    assert supervisor.act(CHECKED, 1004.9) is SupervisionAct.NOTHING
    assert supervisor.due_s == 1005.0
    assert supervisor.act(CHECKED, 1005.0) is SupervisionAct.PROBE
    supervisor.probed(CHECKED, "", 1005.0, 1006.5, is_passed=True)
    assert supervisor.act(CHECKED, 1011.4) is SupervisionAct.NOTHING
    assert supervisor.act(CHECKED, 1011.5) is SupervisionAct.PROBE
    supervisor.unprobed(CHECKED, 1012.0)
    assert supervisor.health_of(CHECKED)[0] == "healthy", "that the runtime is away says nothing of the container"
    assert supervisor.act(CHECKED, 1016.9) is SupervisionAct.NOTHING
    assert supervisor.act(CHECKED, 1017.0) is SupervisionAct.PROBE
    assert Supervisor().act(CHECKED, 5000.0) is SupervisionAct.PROBE, "of one that is found running"


def test_the_next_attempt_is_starting_and_a_late_answer_of_the_last_says_nothing() -> None:
    supervisor = Supervisor()
    assert supervisor.act(CHECKED, 1005.0) is SupervisionAct.PROBE
    supervisor.probed(CHECKED, "well", 1005.0, 1005.0, is_passed=True)
    assert supervisor.act(CHECKED, 1010.0) is SupervisionAct.PROBE
    following = replace(CHECKED, id="b", attempt=1, started_s=1011.0)
    assert supervisor.act(following, 1011.0) is SupervisionAct.NOTHING
    supervisor.probed(CHECKED, "late", 1010.0, 1012.0, is_passed=True)
    assert supervisor.health_of(following) == ("starting", "")
    assert supervisor.act(following, 1016.0) is SupervisionAct.PROBE


def test_zeros_are_dockers_defaults_and_none_switches_a_check_off() -> None:
    bare = HealthCheck(("CMD-SHELL", "a && b"), 0.0, 0.0, 0.0, 0)
    assert (words_of(bare), timeout_s(bare)) == (("/bin/sh", "-c", "a && b"), 30.0)
    assert words_of(CHECK) == ("check",)
    found = replace(CHECKED, supervision=Supervision(health=bare))
    assert Supervisor().act(found, 1029.9) is SupervisionAct.NOTHING
    probes = [(1030.0 + 31 * turn, False) for turn in range(3)]
    assert checked(found, *probes) == ["starting", "starting", "unhealthy"]
    off = replace(CHECKED, supervision=Supervision(health=HealthCheck(("NONE",))))
    assert check_of(off) is None
    assert Supervisor().act(off, 5000.0) is SupervisionAct.NOTHING
