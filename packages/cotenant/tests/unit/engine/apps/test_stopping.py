"""A stop and a start, by the patches that a server would apply."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from tests.fakes.cluster.release_world import document

from cotenant.engine.apps.stopping import FORMER, NOWHERE, Stop, how_to_start, how_to_stop, is_stopped
from cotenant.model.json_object import JsonObject
from cotenant_local.apiserver.patching.mergepatch import merge_patch


def patched(obj: JsonObject, patch: JsonObject | None) -> JsonObject:
    return merge_patch(deepcopy(obj), patch or {})


def live(kind: str, spec: JsonObject, status: JsonObject | None = None) -> JsonObject:
    made = document(kind, "x", "apps/v1", spec=spec, status=status or {})
    made["metadata"]["resourceVersion"] = "7"
    return made


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", {"replicas": 3}),
        ("Deployment", {"replicas": 0}),
        ("StatefulSet", {"replicas": 1}),
        ("CronJob", {"suspend": False, "schedule": "* * * * *"}),
        ("CronJob", {"suspend": True}),
        ("Job", {"suspend": False}),
        ("DaemonSet", {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}),
    ],
)
def test_a_stop_and_a_start_leave_an_object_as_it_was(kind: str, spec: JsonObject) -> None:
    before = live(kind, spec)
    what, patch = how_to_stop(before)
    assert what is Stop.CHANGES
    stopped = patched(before, patch)
    assert is_stopped(stopped)
    assert how_to_stop(stopped)[0] is Stop.STOPPED
    after = patched(stopped, how_to_start(stopped))
    after["metadata"].pop("annotations")
    assert after == before


def test_what_is_stopped_runs_nothing() -> None:
    web = live("Deployment", {"replicas": 3})
    assert patched(web, how_to_stop(web)[1])["spec"] == {"replicas": 0}
    daemon = live("DaemonSet", {"template": {"spec": {}}})
    stopped = patched(daemon, how_to_stop(daemon)[1])
    assert stopped["spec"]["template"]["spec"]["nodeSelector"] == {NOWHERE: "true"}


def test_pods_alone_cannot_be_stopped_and_other_kinds_run_nothing() -> None:
    assert how_to_stop(live("Pod", {}))[0] is Stop.CANNOT
    assert how_to_stop(live("Service", {}))[0] is Stop.NOTHING_RUNS
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert how_to_stop(live("Job", {}, done))[0] is Stop.NOTHING_RUNS


@pytest.mark.parametrize("written", ["nonsense", "-4", "true", '"3"', "null", "[" * 100_000])
def test_what_cannot_be_read_starts_as_one_replica(written: str) -> None:
    stopped = live("Deployment", {"replicas": 0})
    stopped["metadata"]["annotations"] = {FORMER: written}
    start = how_to_start(stopped)
    assert start is not None
    assert start["spec"] == {"replicas": 1}


def test_what_is_not_stopped_is_not_started() -> None:
    assert how_to_start(live("Deployment", {"replicas": 2})) is None
    assert json.loads(how_to_stop(live("Deployment", {}))[1]["metadata"]["annotations"][FORMER]) == 1
