"""Statuses of objects as their controllers write them, and what they mean."""

from __future__ import annotations

import pytest

from cotenant.engine.apps.readiness import standing_of
from cotenant.model.json_object import JsonObject


def live(kind: str, spec: JsonObject, status: JsonObject, generation: int = 1) -> JsonObject:
    observed = {"observedGeneration": 1} if kind not in ("Job", "Pod") else {}
    return {"kind": kind, "metadata": {"generation": generation}, "spec": spec, "status": {**observed, **status}}


def condition(kind: str, status: str, **more: str) -> JsonObject:
    return {"conditions": [{"type": kind, "status": status, **more}]}


ROLLED = {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}


@pytest.mark.parametrize(
    ("kind", "spec", "status", "shown", "is_ready"),
    [
        ("Deployment", {"replicas": 3}, ROLLED, "3/3", True),
        ("Deployment", {"replicas": 3}, {**ROLLED, "replicas": 4, "availableReplicas": 3}, "2/3", False),
        ("Deployment", {"replicas": 3}, {**ROLLED, "availableReplicas": 2}, "2/3", False),
        ("Deployment", {"replicas": 0}, {}, "0/0", True),
        ("StatefulSet", {}, {"readyReplicas": 1, "currentRevision": "a", "updateRevision": "a"}, "1/1", True),
        ("StatefulSet", {}, {"readyReplicas": 1, "currentRevision": "a", "updateRevision": "b"}, "1/1", False),
        (
            "StatefulSet",
            {"updateStrategy": {"type": "OnDelete"}},
            {"readyReplicas": 1, "currentRevision": "a", "updateRevision": "b"},
            "1/1",
            True,
        ),
        ("DaemonSet", {}, {"desiredNumberScheduled": 2, "numberAvailable": 2}, "0/2", False),
        (
            "DaemonSet",
            {},
            {"desiredNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 2},
            "2/2",
            True,
        ),
        ("Job", {"completions": 2}, {"ready": 1}, "1/2", True),
        ("Job", {}, {"active": 1}, "0/1", False),
        ("Job", {"suspend": True}, {}, "0/1", True),
        ("Pod", {}, {"phase": "Succeeded"}, "1/1", True),
        ("Pod", {}, {"phase": "Running", **condition("Ready", "False")}, "0/1", False),
        ("ConfigMap", {}, {}, "1/1", True),
        ("CustomResourceDefinition", {}, {}, "0/1", False),
        ("CustomResourceDefinition", {}, condition("Established", "True"), "1/1", True),
    ],
)
def test_how_an_object_stands(kind: str, spec: JsonObject, status: JsonObject, shown: str, is_ready: bool) -> None:
    standing = standing_of(live(kind, spec, status))
    assert (str(standing), standing.is_ready, standing.failed) == (shown, is_ready, "")


def test_a_status_of_an_earlier_version_does_not_count() -> None:
    standing = standing_of(live("Deployment", {"replicas": 3}, ROLLED, generation=2))
    assert not standing.is_ready
    assert standing.reasons == ("its controller has not seen it",)


def test_an_object_that_is_not_there_is_not_ready() -> None:
    assert standing_of(None).reasons == ("it is not there",)


@pytest.mark.parametrize(
    ("kind", "status", "why"),
    [
        (
            "Deployment",
            condition("Progressing", "False", reason="ProgressDeadlineExceeded"),
            "no progress within 600 s",
        ),
        (
            "Job",
            condition("Failed", "True", reason="BackoffLimitExceeded", message="often"),
            "BackoffLimitExceeded: often",
        ),
        ("Pod", {"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ("CustomResourceDefinition", condition("NamesAccepted", "False", message="taken"), "taken"),
    ],
)
def test_what_will_not_become_ready_has_failed(kind: str, status: JsonObject, why: str) -> None:
    assert standing_of(live(kind, {}, status)).failed == why


def test_a_quota_that_refuses_pods_is_a_reason() -> None:
    status = condition("ReplicaFailure", "True", message="exceeded quota")
    assert standing_of(live("Deployment", {}, status)).reasons == ("pods cannot be made: exceeded quota",)
