"""What pods without an objective may cost: by what they requested, ran and waited, and only where they wait for
long.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.policy.nodeqos.nodes import container, health, in_use, node

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_state import Alarm, NodeState, PodUse
from cotenant.model.machine.run_queue import Blame
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.policy import Ceiling, GuardMemory, judge
from cotenant.policy.nodeqos.guard.step import bound_m
from cotenant.policy.nodeqos.guard.track import GuardMode

CONFIG = GuardConfig()
BATCH = in_use("batch", 1500, QoSClass.BE)
WEB = in_use("web", 300, health=health(12_000), objective_p99_us=60_000)


def helper(cpu_m: int | None = 21, wait_ms: int | None = 23, request_m: int = 0, **signals: int) -> PodUse:
    """A pod without an objective that waits for a CPU `wait_ms` in each second."""
    waits = {} if wait_ms is None else {"run_delay_ppm": wait_ms * 1000}
    asks = (replace(container("c"), cpu_request_m=request_m),)
    return in_use("helper", cpu_m, signals=waits | signals, containers=asks)


def run(*states: NodeState) -> list[Ceiling]:
    ceilings, memory = [], GuardMemory()
    for state in states:
        ceiling, memory = judge(state, CONFIG, memory)
        ceilings.append(ceiling)
    return ceilings


def at(second: float, *pods: PodUse, cpus: int = 2, **fields: object) -> NodeState:
    return node([*pods, BATCH], cpus=cpus, at_s=second, **fields)


def milli_cpu(ceiling: Ceiling) -> int:
    return sum(term.value for term in ceiling.reason.terms if term.unit == "mCPU")


def test_a_helper_of_next_to_no_use_that_waits_half_of_it_holds_nothing_back() -> None:
    # Measured: 21 mCPU, waited 45 %, beside a service with p99 12 ms of 60: best-effort work stayed at 0.2 of 2 CPU.
    ceilings = run(*(at(second, WEB, helper()) for second in range(30)))
    assert {(ceiling.cpu_m, ceiling.protects) for ceiling in ceilings} == {(2000, True)}
    alone = run(*(at(second, helper()) for second in range(30)))
    assert {ceiling.cpu_m for ceiling in alone} == {2000}
    assert "waited 46 % of its CPU time for a CPU, 23 ms a second [run delay]" in alone[0].reason.text


@pytest.mark.parametrize(
    ("pod", "mode", "ceiling_m"),
    [
        (helper(21, 19), GuardMode.GROW, 2000),  # below 20 ms a second it is no victim at all
        (helper(21, 49), GuardMode.HOLD, 2000),  # below 50 it causes no cut
        (helper(21, 50), GuardMode.CUT, 2000 - 2 * (21 + 50)),
        (helper(21, 50, request_m=300), GuardMode.CUT, 2000 - 2 * 300),
        (helper(250, 50), GuardMode.CUT, 2000 - 2 * (250 + 50)),
        (helper(251, 50), GuardMode.HOLD, 2000),  # less than a fifth of its use
        (helper(600, 600), GuardMode.CUT, 750),  # its bound is more than the node: half of what best-effort work uses
        (helper(21, None, cpu_stall_ppm=300_000), GuardMode.CUT, 2000 - 2 * (21 + 300)),
        (helper(None, None, cpu_stall_ppm=300_000), GuardMode.CUT, 750),  # its use is not known: no bound
    ],
)
def test_one_pod_without_an_objective(pod: PodUse, mode: GuardMode, ceiling_m: int) -> None:
    (ceiling,) = run(at(0, pod))
    assert (ceiling.mode, ceiling.cpu_m) == (mode, ceiling_m)
    assert milli_cpu(ceiling) == ceiling_m


def test_the_reason_names_the_bound_and_its_terms_add_up() -> None:
    (ceiling,) = run(at(0, helper(21, 50)))
    assert ceiling.reason.text == (
        "guard cuts best-effort work to 1.858 CPU: ns/helper waited 100 % of its CPU time for a CPU, 50 ms a second "
        "[run delay]; without an objective, at most 0.142 CPU are taken"
    )
    assert [(term.name, term.value) for term in ceiling.reason.terms if term.unit == "mCPU"] == [
        ("node", 2000),
        ("bound of ns/helper", -142),
    ]


def test_further_cuts_stop_at_the_bound_and_it_holds_there() -> None:
    ceilings = run(*(at(second, helper(100, 100)) for second in range(6)))
    assert [ceiling.cpu_m for ceiling in ceilings] == [1600] * 6


def test_the_bounds_of_those_that_suffer_add_up_and_calm_pods_cost_nothing() -> None:
    first, second = helper(21, 50), in_use("second", 60, signals={"run_delay_ppm": 60_000})
    calm = in_use("calm", 900, signals={"run_delay_ppm": 0})
    (ceiling,) = run(at(0, first, second, calm, cpus=4))
    assert ceiling.cpu_m == 4000 - 2 * (21 + 50) - 2 * (60 + 60)
    assert milli_cpu(ceiling) == ceiling.cpu_m


def test_where_the_pod_needs_less_the_rest_is_given_back_at_once() -> None:
    ceilings = run(at(0, helper(200, 200)), at(1, helper(50, 30)))
    assert [ceiling.cpu_m for ceiling in ceilings] == [1200, 2000 - 2 * 80]
    assert milli_cpu(ceilings[1]) == ceilings[1].cpu_m


def test_but_nothing_grows_while_an_objective_is_close() -> None:
    close = in_use("web", 300, health=health(57_000), objective_p99_us=60_000)
    ceilings = run(at(0, WEB, helper(200, 200)), at(1, close, helper(50, 30)), at(2, close, helper(50, 30)))
    assert [ceiling.cpu_m for ceiling in ceilings] == [1200, 1200, 1200]
    assert {milli_cpu(ceiling) for ceiling in ceilings} == {1200}


def test_nothing_grows_for_pods_that_left_while_an_objective_is_close() -> None:
    close = in_use("web", 300, health=health(57_000), objective_p99_us=60_000)
    ceilings = run(at(0, WEB, helper(200, 200)), at(1, close), at(2, close), at(3, WEB))
    assert [ceiling.cpu_m for ceiling in ceilings] == [1200, 1200, 1200, 2000]
    assert ceilings[1].mode is GuardMode.HOLD


def test_an_objective_in_danger_is_protected_without_a_bound() -> None:
    missed = in_use("web", 30, health=health(70_000), objective_p99_us=60_000)
    silent = in_use("web", 30, signals={"run_delay_ppm": 20_000}, objective_p99_us=60_000)
    assert run(at(0, missed, helper()))[0].cpu_m == 750
    assert run(at(0, silent, helper()))[0].cpu_m == 750  # no report: 40 % of its CPU time waited, as before


def test_what_was_cut_for_a_service_that_left_grows_back_in_steps() -> None:
    missed = in_use("web", 30, health=health(70_000), objective_p99_us=60_000)
    ceilings = run(at(0, missed, helper()), *(at(second, helper(21, 0)) for second in (1, 12, 14)))
    assert [ceiling.cpu_m for ceiling in ceilings] == [750, 750, 950, 1150]


@pytest.mark.parametrize(
    ("alarm", "ceiling_m"),
    [
        (Alarm(0, "pods/helper", "cpu", 150_000), 2000 - 2 * (21 + 150)),
        (Alarm(0, "", "cpu", 150_000), 2000 - 2 * 21 - 2 * 150),
        (Alarm(0, "pods/helper", "cpu"), 750),  # stalled for the whole window: two CPUs
    ],
)
def test_an_alarm_counts_as_waiting(alarm: Alarm, ceiling_m: int) -> None:
    (ceiling,) = run(at(0, helper(21, 0), alarms=(alarm,)))
    assert (ceiling.mode, ceiling.cpu_m) == (GuardMode.CUT, ceiling_m)
    assert milli_cpu(ceiling) == ceiling_m


def test_only_waiting_behind_best_effort_work_is_owed() -> None:
    blame = (Blame("pods/helper", "pods/batch", 60), Blame("pods/helper", "pods/helper", 40))
    (ceiling,) = run(at(0, helper(21, 100), blame=blame))
    assert ceiling.cpu_m == 2000 - 2 * (21 + 60)


def test_the_bound_of_a_pod() -> None:
    assert bound_m(500, 100, 0, 2_000_000) == 1000
    assert bound_m(0, 100, 150_000, 2_000_000) == 500
    assert bound_m(0, 0, 0, 2_000_000) == 0


def test_thresholds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"guard\.wait_hold_ppm"):
        GuardConfig(wait_hold_ppm=60_000)
