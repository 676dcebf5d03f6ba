"""The status that the trace process writes is read again by those who act on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.objective_status import ObjectiveStatusObject, read_objective_status
from cotenant.drivers.kube.kinds.custom.service_objective import read_spec
from cotenant.model.traces.objective import FiringAlert, Indicator, ObjectiveState, ObjectiveStatus
from cotenant.services.traces.objective_board import AlertRow, ObjectiveView, ReplicaRow, status_of

SPEC: dict[str, Any] = {
    "service": {"namespace": "shop", "name": "cart"},
    "indicator": {"latency": {"below": "200ms"}},
    "target": "99.9",
}
READ = ObjectiveStatus(
    "ns/cart",
    "shop",
    "cart",
    Indicator.LATENCY,
    ObjectiveState.BURNING,
    {"5m": 30.25, "1h": 20.0, "28d": 1.5},
    (FiringAlert("1h", "5m", 14.4),),
    "shop/cart-1",
    55.0,
    100,
)


def read(status: object, spec: object = SPEC) -> ObjectiveStatus:
    made = {"metadata": {"name": "cart", "namespace": "ns"}, "spec": spec, "status": status}
    return read_objective_status(msgspec.json.decode(msgspec.json.encode(made), type=ObjectiveStatusObject))


def view(**more: Any) -> ObjectiveView:
    fires = AlertRow("fast", "critical", "1h", "5m", 14.4, 20.0, 30.25, True, True)
    quiet = AlertRow("slow", "warning", "1d", "2h", 2.8, 1.0, 1.0, False, True)
    fields: dict[str, Any] = {
        "objective": "ns/cart",
        "service": "shop/cart",
        "operation": "",
        "indicator": "latency",
        "below_ms": 200.0,
        "target_percent": 99.9,
        "window": "28d",
        "max_action": "cap",
        "state": "burning",
        "ratio": 0.998,
        "budget_left": 0.5,
        "requests": 100,
        "bad": 2,
        "since": "2026-01-01T00:00:00Z",
        "burn": {"28d": 1.5, "1h": 20.0, "5m": 30.25, "6h": None},
        "alerts": [fires, quiet],
        "worst_replica": ReplicaRow("shop/cart-1", "a", 40, 3, 55.0, 310.0),
        "last_action": None,
        "conditions": [],
        **more,
    }
    return ObjectiveView(**fields)


def test_what_the_trace_process_writes() -> None:
    objective = read_spec("ns", "cart", SPEC)
    assert read(status_of(view(), objective)) == READ
    quiet = {**SPEC, "alerting": {"disabled": True}}
    assert read(status_of(view(), read_spec("ns", "cart", quiet)), quiet) == replace(READ, alerts=False)
    calm = view(state="noData", alerts=[], worst_replica=None, burn={})
    assert read(status_of(calm, objective)) == replace(
        READ, state=ObjectiveState.NO_DATA, burn={}, firing=(), worst="", worst_burn=0.0
    )


def test_the_shortest_window_comes_first() -> None:
    assert list(read(status_of(view(), read_spec("ns", "cart", SPEC))).burn) == ["5m", "1h", "28d"]


@pytest.mark.parametrize("status", [None, {}, {"state": "odd"}, {"burn": {"5m": "nan", "soon": "1", "1h": "-1"}}])
def test_a_status_that_says_nothing(status: object) -> None:
    found = read(status)
    assert (found.state, found.burn, found.firing, found.worst) == (None, {}, (), "")


def test_an_objective_that_cannot_be_read_has_no_state() -> None:
    assert read(status_of(view(), read_spec("ns", "cart", SPEC)), {**SPEC, "target": "all"}).state is None
