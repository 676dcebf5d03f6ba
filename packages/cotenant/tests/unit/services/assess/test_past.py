"""What is tried on a cluster's own past: from how much of it on, on which rows, and what is said of the rules."""

from __future__ import annotations

from math import inf, nan
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.assess.report import WorkloadUse
from cotenant.model.cluster.managed import ManagedNode
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import Amounts
from cotenant.services.assess import past
from cotenant.services.assess.past import MAX_SIZED, _known, past_trial, size_trial

A_DAY = 48  # half hours
CORES = Use(8000, 1 << 34)


def series(names: tuple[str, ...], days: float, start_s: float = 0.0) -> AssessedHistory:
    steps = round(days * A_DAY)
    course = 1000.0 + 300.0 * np.sin(2 * np.pi * np.arange(steps) / A_DAY)
    rows = np.array([course + 100.0 * row for row in range(len(names))], np.float32).reshape(len(names), steps)
    return AssessedHistory(start_s, 1800.0, names, rows, rows.copy(), "made up")


def history(
    nodes: tuple[str, ...], days: float, pods: dict[str, str] | None = None, late_s: float = 0.0
) -> ClusterHistory:
    """`pods`: with their node; each is of the workload of its first letter."""
    given = {f"shop/{name}": on for name, on in (pods or {}).items()}
    requests = np.full(len(given), 500.0, np.float32)
    workloads = tuple(f"shop/Deployment/{key.partition('/')[2][0]}" for key in given)
    of_pods = PodHistory(series(tuple(given), days, late_s), tuple(given.values()), workloads, requests, requests)
    return ClusterHistory(of_pods, series(nodes, days))


def pod(name: str, on: str, cpu_m: int = 500, phase: PodPhase = PodPhase.RUNNING) -> PodInfo:
    what = Pod(name, namespace="shop", requests=Amounts.of({"cpu": cpu_m}))
    return PodInfo(ObservedPod(what, f"u-{name}", "s", 0.0, on, phase), node=on)


def copy(*pods: PodInfo, nodes: tuple[str, ...] = ("a", "b")) -> Any:
    engine = SimpleNamespace(every_pod=lambda: list(pods))
    managed = {name: ManagedNode(name, CORES, CORES) for name in nodes}
    return cast(
        Any,
        SimpleNamespace(engine=engine, managed=managed),
    )


# ---- predictions of nodes' use


def test_predictions_are_tried_from_a_day_on_of_nodes_that_are_there() -> None:
    assert past_trial(copy(), history(("a",), 1 - 1 / A_DAY), 0.01) is None
    assert past_trial(copy(), history(("elsewhere",), 3), 0.01) is None
    found = past_trial(copy(pod("p", "a")), history(("a", "elsewhere", "b"), 4), 0.01)
    assert found is not None
    assert found.resource == "CPU of nodes"
    assert len(found.scores) > 1
    assert found.verdict
    assert found.told.endswith("days, by the manager's own rule.")


def test_what_pods_request_counts_on_their_node_while_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[float]] = []

    def recorded(start_s: float, step_s: float, cpu_m: Any, requested: Any, capacity: Any) -> Any:
        asked.append(requested.tolist())
        asked.append(capacity.tolist())
        return None

    monkeypatch.setattr(past, "RecordedNodes", recorded)
    monkeypatch.setattr(past, "replay", lambda _: SimpleNamespace(days=(), nodes=2))
    pods = (pod("p", "a", 700), pod("q", "a", 50), pod("r", "c", 9), pod("s", "b", 3, phase=PodPhase.FAILED))
    found = past_trial(copy(*pods), history(("a", "b"), 2), 0.01)
    assert asked == [[750.0, 0.0], [8000.0, 8000.0]]
    assert found is not None
    assert found.told == ""


def test_the_worst_whole_day_of_lending_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def day(name: str, node_hours: float, touched: float) -> Any:
        return SimpleNamespace(node_hours=node_hours, touched_share=touched, told=lambda: f"{name}.")

    days: list[Any] = [day("calm", 48.0, 0.1), day("worst", 40.0, 0.3), day("short", 39.0, 0.9)]
    monkeypatch.setattr(past, "replay", lambda _: SimpleNamespace(days=days, nodes=2))

    def told() -> str:
        found = past_trial(copy(), history(("a", "b"), 2), 0.01)
        assert found is not None
        return found.told

    assert told() == "worst. It was the worst of 2 days, by the manager's own rule."
    del days[:2]
    assert told() == "short. It was the worst of 1 days, by the manager's own rule."


# ---- sizes of workloads


def workload(name: str, cpu_m: int = 500) -> WorkloadUse:
    nothing = None
    return WorkloadUse(
        f"shop/Deployment/{name}", 1, cpu_m, 64, nothing, nothing, nothing, nothing, nothing, (), nothing, nothing
    )


def test_sizes_are_tried_from_two_days_on_of_workloads_whose_use_is_known() -> None:
    given = history(("a",), 3, {"p1": "a", "p2": "a", "q1": "a"})
    assert size_trial(history(("a",), 3), [workload("p")], 0.01) is None
    assert size_trial(history(("a",), 2 - 1 / A_DAY, {"p1": "a"}), [workload("p")], 0.01) is None
    assert size_trial(given, [workload("x")], 0.01) is None
    found = size_trial(given, [workload("p"), workload("q")], 0.01)
    assert found is not None
    assert (found.resource, found.workloads) == ("CPU of workloads", 2)
    assert len(found.rules) > 1
    assert "were not tried" not in found.verdict
    some = size_trial(given, [workload("p"), workload("x"), workload("q")], 0.01)
    assert some is not None
    assert some.verdict.endswith(" The 1 that request least, or have no use that is known, were not tried.")


def test_of_very_many_workloads_those_that_request_most_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "MAX_SIZED", 2)
    assert MAX_SIZED == 1000
    given = history(("a",), 3, {"p1": "a", "q1": "a", "r1": "a"})
    found = size_trial(given, [workload("r"), workload("q"), workload("p")], 0.01)
    assert found is not None
    assert found.workloads == 2
    assert " The 1 that request least" in found.verdict


def test_what_is_no_number_is_not_known() -> None:
    assert (_known(0.0), _known(-1.5), _known(nan), _known(inf)) == (0.0, -1.5, None, None)
