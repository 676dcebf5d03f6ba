"""What could be lent of nodes that can be counted by hand: by Koordinator's formula, by reports and by a history."""

from __future__ import annotations

from math import nan
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory, no_history
from cotenant.model.cluster.managed import ManagedNode
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.node_metric import NO_USE, MeasuredPod, NodeMetric, ReportedHistory, Use, UseSpread
from cotenant.model.resources import Amounts
from cotenant.policy.overcommit.predicted_use import PredictedUseSettings, continued, predicted_use
from cotenant.services.assess.columns import MAX_AGE_S, RunningColumns
from cotenant.services.assess.lending import LendingAssessment, lending

MIB, GIB = 1 << 20, 1 << 30
NOW_S = 1_000_000.0
SIZE = Use(8000, 16 * GIB)
A_DAY = 48  # steps of half an hour
NOTHING = no_history("no source")


def pod(name: str, on: str = "a", cores: int = 2, batch: bool = False) -> PodInfo:
    what = Pod(
        name,
        namespace="shop",
        requests=Amounts.of({} if batch else {"cpu": cores * 1000, "memory": cores * GIB}),
        qos=QoSClass.BE if batch else QoSClass.LS,
        priority_class=PriorityClass.BATCH if batch else PriorityClass.PROD,
    )
    return PodInfo(ObservedPod(what, f"u-{name}", "s", 0.0, on, PodPhase.RUNNING), node=on)


def metric(
    name: str, cpu_m: int, age_s: float = 5.0, system_m: int = 100, **pods: MeasuredPod
) -> tuple[str, NodeMetric]:
    measured = {f"shop/{key}": found for key, found in pods.items()}
    return name, NodeMetric(name, age_s, use=Use(cpu_m, 4 * GIB), system=Use(system_m, GIB), pods=measured)


def lent(
    *pods: PodInfo,
    metrics: tuple[tuple[str, NodeMetric], ...] = (),
    history: ClusterHistory = NOTHING,
    nodes: tuple[str, ...] = ("a",),
    reservation: Use = NO_USE,
    risk: float = 0.01,
) -> LendingAssessment:
    managed = {name: ManagedNode(name, SIZE, SIZE, reservation=reservation) for name in nodes}
    by_key = {info.seen.pod.key: info for info in pods}
    copy = SimpleNamespace(managed=managed, metrics=dict(metrics), engine=SimpleNamespace(find=by_key.get))
    zeros = np.zeros(len(pods), np.int64)
    return lending(cast(Any, copy), RunningColumns(pods, zeros, zeros, ("w",) * len(pods)), history, risk)


def course(nodes: dict[str, Any], pods: dict[str, tuple[str, Any]] | None = None) -> ClusterHistory:
    """Milli-CPU of each half hour, and as many MiB; `pods` with their node."""

    def series(rows: dict[str, Any], steps: int) -> AssessedHistory:
        values = np.array(list(rows.values()), np.float32).reshape(len(rows), steps)
        return AssessedHistory(NOW_S - steps * 1800.0, 1800.0, tuple(rows), values, values.copy(), "made up")

    steps = len(next(iter(nodes.values())))
    given = {f"shop/{name}": found for name, found in (pods or {}).items()}
    unknown = np.full(len(given), nan, np.float32)
    of_pods = series({name: rows for name, (_, rows) in given.items()}, steps)
    where = tuple(on for on, _ in given.values())
    return ClusterHistory(PodHistory(of_pods, where, where, unknown, unknown), series(nodes, steps))


def ours(found: LendingAssessment) -> tuple[float | None, float | None]:
    return found.amounts[0].ours.value, found.amounts[1].ours.value


def koordinator(found: LendingAssessment) -> list[float | None]:
    return [one.koordinator.value for one in found.amounts]


# ---- nothing, and Koordinator's formula


def test_without_use_over_time_there_is_no_amount_and_it_says_what_is_wanted() -> None:
    found = lent(pod("web"))
    assert [one.name for one in found.amounts] == ["batch cores", "batch memory", "mid cores", "mid memory"]
    assert [one.unit for one in found.amounts] == ["cores", "GiB", "cores", "GiB"]
    batch = found.amounts[0]
    assert batch.ours.why == "a risk needs use over time: 2 days of history, or agents that report pods' histories"
    assert "neither NodeMetrics nor a history have" in batch.koordinator.why
    assert found.amounts[2].ours.why == "mid is Koordinator's class: our rule lends one amount, to batch"
    assert (found.by_node, batch.in_use) == ({}, None)


def test_koordinators_formula_over_the_nodes_that_are_measured() -> None:
    web = MeasuredPod(Use(1000, 2 * GIB), PriorityClass.PROD)
    found = lent(
        pod("web"),
        pod("idle", "b", 3),
        metrics=(metric("a", 1500, web=web), metric("b", 900, MAX_AGE_S + 1), metric("c", 500)),
        nodes=("a", "b", "c", "d"),
    )
    # a: 60 % of 8 less 1 of web less 0.1 of the system; c: 60 % less 0.1; b's measurement is old, d has none
    assert koordinator(found)[:2] == pytest.approx([3.7 + 4.7, 2 * 0.65 * 16 - 2 - 2], abs=0.01)
    assert found.amounts[0].koordinator.interval == "none: by one measurement of 2 nodes"


# ---- by reports


def reports(mean: float, deviation: float = 0.0) -> ReportedHistory:
    spread = UseSpread(mean, deviation, mean + deviation)
    return ReportedHistory(100, 50.0, spread, UseSpread(mean * MIB, 0.0, mean * MIB))


@pytest.mark.parametrize("risk", [0.01, 0.1])
def test_by_reports_each_production_pods_predicted_use_is_kept(risk: float) -> None:
    web = MeasuredPod(Use(1000, 1000 * MIB), PriorityClass.PROD, history=reports(900, 200))
    job = MeasuredPod(Use(500, 500 * MIB), PriorityClass.BATCH, history=reports(500))
    found = lent(
        pod("web"),
        pod("other"),
        pod("job", batch=True),
        pod("x", "b"),
        metrics=(metric("a", 1500, web=web, job=job), metric("b", 100)),
        nodes=("a", "b"),
        reservation=Use(300, 3 * GIB),
        risk=risk,
    )
    settings = PredictedUseSettings(risk=risk)
    of_web = predicted_use(Use(2000, 2 * GIB), continued(web.history or reports(1), web.use, 0.0), True, settings)
    # what is reserved is more than the system's use; `other` was not measured and counts by its request
    expected = Use(8000 - 300 - 2000 - of_web.cpu_m, (16 - 3 - 2) * GIB - of_web.memory_bytes)
    assert found.by_node == {"a": expected}  # b's agent reports no history
    assert ours(found) == pytest.approx((expected.cpu_m / 1000, expected.memory_bytes / GIB))
    batch = found.amounts[0]
    assert batch.in_use == 0.5
    assert f"but for {risk * 100:g} % of the time" in batch.ours.definition
    assert batch.ours.definition.endswith("until the next report; batch and free pods use 0.5 cores of it now")
    assert (
        batch.ours.interval == "the risk is its interval: use may exceed what is kept for it in that share of the time"
    )
    assert found.amounts[1].in_use == pytest.approx(500 / 1024)
    assert found.amounts[2].in_use is None


# ---- by a history


KEPT = (1 + 0.95 + 1) / 3  # of a constant use: the last day's peak, 95 % of the highest, and the course of the day


def test_two_days_of_constant_use_leave_what_is_beyond_it_and_no_range() -> None:
    found = lent(history=course({"a": [3000.0] * 2 * A_DAY, "elsewhere": [1.0] * 2 * A_DAY}))
    assert ours(found) == pytest.approx((8 - 3 * KEPT, 16 - 3000 / 1024 * KEPT), abs=1e-3)
    one = found.amounts[0].ours
    assert (one.low, one.high) == (None, None)
    assert one.interval == "none: 2.0 days of history are too few to try the rule on 2 earlier days"
    assert "held for 24 h, by 2.0 days of history" in one.definition
    assert set(found.by_node) == {"a"}
    assert lent(history=course({"a": [3000.0] * (2 * A_DAY - 1)})).by_node == {}
    assert lent(history=course({"elsewhere": [1.0] * 2 * A_DAY})).by_node == {}


def test_what_is_reserved_is_kept_where_it_is_more_than_the_use() -> None:
    found = lent(history=course({"a": [1000.0] * 2 * A_DAY}), reservation=Use(2500, 4 * GIB))
    assert ours(found) == pytest.approx((5.5, 12.0), abs=1e-3)


def test_what_batch_pods_used_is_lent_already() -> None:
    use = course(
        {"a": [3000.0] * 2 * A_DAY, "b": [2000.0] * 2 * A_DAY},
        {"job": ("a", [1200.0] * 2 * A_DAY), "web": ("a", [900.0] * 2 * A_DAY), "gone": ("b", [500.0] * 2 * A_DAY)},
    )
    found = lent(pod("job", batch=True), pod("web"), history=use, nodes=("a", "b"))
    assert ours(found)[0] == pytest.approx(8 - 1.8 * KEPT + 8 - 2 * KEPT, abs=2e-3)
    batch = found.amounts[0]
    assert batch.in_use == pytest.approx(1.2)
    assert "batch and free pods use 1.2 cores of it now" in batch.ours.definition
    assert found.amounts[1].in_use == pytest.approx(1200 / 1024)


def test_days_that_are_alike_give_a_range_and_unlike_ones_no_amount() -> None:
    steps = np.arange(8 * A_DAY)
    noise = np.random.default_rng(3).normal(0, 50, len(steps))
    alike = lent(history=course({"a": 3000.0 + 500.0 * np.sin(2 * np.pi * steps / A_DAY) + noise}))
    one = alike.amounts[0].ours
    assert one.low is not None
    assert one.high is not None
    assert one.value is not None
    assert 4.2 < one.low < one.high < 4.8
    assert "80 %" in one.interval
    assert set(alike.by_node) == {"a"}
    unlike = lent(history=course({"a": 400.0 + 7400.0 * np.repeat([0, 1, 0, 0, 1, 0, 0, 1], A_DAY)}))
    assert unlike.amounts[0].ours.value is None
    assert "cannot be said from this history, because" in unlike.amounts[0].ours.why
    assert unlike.by_node == {}  # nothing that follows from it is said either


def test_of_a_node_of_which_nothing_is_known_nothing_is_lent() -> None:
    found = lent(history=course({"a": [3000.0] * 2 * A_DAY, "b": [nan] * 2 * A_DAY}), nodes=("a", "b"))
    assert found.by_node["b"] == Use(0, 0)
    assert ours(found)[0] == pytest.approx(8 - 3 * KEPT, abs=1e-3)
