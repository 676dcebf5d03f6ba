"""The scheduler process's small parts: arguments, the record's size, metric names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from cotenant.model.decisions.reasons import Rejection
from cotenant.model.decisions.record import CandidateNode, DecisionRecord
from cotenant.model.errors import InvalidInput
from cotenant.services.scheduler import decision_annotation as explaining
from cotenant.services.scheduler import main
from cotenant.services.scheduler.metrics import SchedulerMetrics
from cotenant.services.scheduler.scheduler_arguments import SchedulerArguments

REQUEST = SchedulerArguments(
    kubeconfig=Path("/nowhere"),
    context="",
    scheduler_names=("cotenant",),
    profile="cotenant-requests",
    leader_elect=True,
    lease_namespace="",
    qps=50.0,
    burst=100.0,
    binds_in_flight=16,
    notices_per_s=50.0,
    listen="127.0.0.1:0",
    report_token_file=None,
    log_level="info",
)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"profile": "best"}, "--profile: best: expected a placement profile"),
        ({"predicted_use_risk_pct": 50.0}, "--predicted-use-risk: 50.0: expected percent, above 0 and below 50"),
        ({"predicted_use_risk_pct": float("nan")}, "--predicted-use-risk: nan"),
        ({"listen": "here"}, "--listen: here: expected HOST:PORT"),
        ({"listen": "h:99999"}, "--listen"),
        ({"scheduler_names": ()}, "--scheduler-name: : expected at least one name"),
        ({"scheduler_names": ("cotenant", "")}, "--scheduler-name: : expected a DNS subdomain name"),
        ({"scheduler_names": ("My_Own",)}, "--scheduler-name: My_Own: expected a DNS subdomain name"),
        (
            {"scheduler_names": ("batch=best",)},
            "--scheduler-name: best: expected a placement profile; one of random",
        ),
        ({"scheduler_names": ("a" * 250,)}, "--scheduler-name: .* expected a DNS subdomain name of at most 243"),
        ({"scheduler_names": ("a", "b", "a")}, "--scheduler-name: a: expected each name once"),
        ({"scheduler_names": ("a", "a=best-fit")}, "--scheduler-name: a=best-fit: expected each name once"),
        (
            {"scheduler_names": ("a", "b=edf-paragon")},
            "--scheduler-name: b=edf-paragon: expected a profile that estimates",
        ),
        ({"scheduler_names": ("a", "b=")}, "--scheduler-name: : expected a placement profile"),
        ({"binds_in_flight": 0}, "--binds-in-flight"),
        ({"shards": 0}, "--shards: 0: expected 1 to 64"),
        ({"shards": 2, "leader_elect": False}, "--no-leader-elect: .* each shard holds a Lease"),
        ({"qps": 0.0}, "--qps"),
        ({"burst": float("inf")}, "--burst"),
        ({"notices_per_s": -1.0}, "--notices-per-s"),
        ({"log_level": "loud"}, "--log-level"),
        ({}, "/nowhere"),
    ],
)
def test_wrong_arguments_are_one_line_before_anything_begins(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said.replace("(", r"\(")):
        main.run(replace(REQUEST, **wrong))  # type: ignore[arg-type]


def record(reasons: int, candidates: int) -> DecisionRecord:
    return DecisionRecord(
        pod="default/x",
        at_s=1_800_000_000.5,
        nodes=5000,
        node="node-0",
        rejections=tuple(Rejection("NodeResourcesFit", f"Insufficient {'r' * 60}{i}", 7) for i in range(reasons)),
        candidates=tuple(CandidateNode(f"node-{i}", 99.123456 - i) for i in range(candidates)),
        policy="p",
    )


def test_the_record_is_compact_json() -> None:
    value = msgspec.json.decode(explaining.written(record(1, 3), 1.23456, 2))
    assert value["at"] == "2027-01-15T08:00:00.500000Z"
    assert (value["score"], value["waitedSeconds"], value["attempts"], value["nodes"]) == (99.12, 1.235, 2, 5000)
    assert value["next"] == [["node-1", 98.12], ["node-2", 97.12]]


@pytest.mark.parametrize("reasons", [0, 20, 200])
def test_the_record_is_bounded(reasons: int) -> None:
    text = explaining.written(record(reasons, 3), 0.0, 1)
    assert len(text.encode()) <= explaining.MAX_BYTES
    assert msgspec.json.decode(text)["policy"] == "p"


def test_metrics_have_the_names_that_dashboards_know() -> None:
    metrics = SchedulerMetrics("p")
    metrics.scheduled.inc()
    page = metrics.page().decode()
    for name in (
        "scheduler_schedule_attempts_total",
        "scheduler_scheduling_attempt_duration_seconds_bucket",
        "scheduler_pod_scheduling_attempts_bucket",
        "scheduler_preemption_victims_bucket",
        "scheduler_preemption_attempts_total",
    ):
        assert name in page
