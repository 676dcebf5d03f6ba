"""Why pods are not ready, in the words of those who know."""

from __future__ import annotations

import pytest

from cotenant.engine.apps.obstacles import reasons_of
from cotenant.model.json_object import JsonObject


def pod(status: JsonObject, spec: JsonObject | None = None) -> JsonObject:
    return {"metadata": {"name": "x"}, "spec": {"nodeName": "n", **(spec or {})}, "status": status}


def container(state: JsonObject, **more: object) -> JsonObject:
    return {"phase": "Running", "containerStatuses": [{"name": "c", "state": state, **more}]}


UNSCHEDULED = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/5 nodes are available"}]}
EXIT = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (pod(UNSCHEDULED, {"nodeName": ""}), "pending: 0/5 nodes are available"),
        (pod({}, {"nodeName": "", "schedulerName": "x"}), "pending: no scheduler named x has judged it yet"),
        (pod({}, {"schedulingGates": [{"name": "g"}]}), "held back by the scheduling gate g"),
        (
            pod(container({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})),
            "container c: ImagePullBackOff: no such image",
        ),
        (
            pod(container({"waiting": {"reason": "CrashLoopBackOff"}}, lastState=EXIT)),
            "container c: CrashLoopBackOff (exit code 137, OOMKilled)",
        ),
        (pod(container(EXIT)), "container c ended with exit code 137 (OOMKilled)"),
        (pod(container({"running": {}}, ready=False)), "container c runs and is not ready"),
        (pod(container({"waiting": {"reason": "ContainerCreating"}})), "starting"),
        (pod({"phase": "Failed", "reason": "Evicted", "message": "disk"}), "failed: Evicted disk"),
    ],
)
def test_a_pod_says_why(given: JsonObject, reason: str) -> None:
    assert reasons_of([given], [], []) == [reason]


def test_a_claim_that_is_not_bound_is_named() -> None:
    claim = {"metadata": {"name": "data"}, "status": {"phase": "Pending"}}
    waiting = pod(UNSCHEDULED, {"nodeName": "", "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]})
    assert reasons_of([waiting], [claim], [])[0] == "PersistentVolumeClaim data is not bound"


def test_equal_reasons_are_told_once() -> None:
    assert reasons_of([pod(UNSCHEDULED, {"nodeName": ""})] * 3, [], []) == ["pending: 0/5 nodes are available (3 pods)"]


def test_events_count_where_there_are_no_pods() -> None:
    event = {"reason": "FailedCreate", "message": "exceeded quota"}
    assert reasons_of([], [], [event]) == ["FailedCreate: exceeded quota"]
    assert reasons_of([], [], []) == ["it has no pods"]
