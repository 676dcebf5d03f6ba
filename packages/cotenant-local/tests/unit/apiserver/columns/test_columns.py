"""Texts of printer columns: ages and a pod's STATUS."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant_local.apiserver.columns.builtin import columns_of
from cotenant_local.apiserver.columns.formatting import duration, selector_text
from cotenant_local.apiserver.columns.pods import summary
from cotenant_local.apiserver.kinds.built_in import BUILT_IN


@pytest.mark.parametrize(
    ("total_s", "text"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (12_000, "3h20m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (8 * 86_400, "8d"),
        (729 * 86_400, "729d"),
        (730 * 86_400, "2y"),
        (800 * 86_400, "2y70d"),
        (3_000 * 86_400, "8y"),
    ],
)
def test_durations_keep_two_units_while_small(total_s: int, text: str) -> None:
    assert duration(total_s) == text


def state(**kind: Any) -> dict[str, Any]:
    return {"name": "c", "ready": "running" in kind, "restartCount": 0, "state": kind}


def pod(
    phase: str = "Running", *, init: list[Any] | None = None, containers: list[Any] | None = None, **more: Any
) -> dict[str, Any]:
    init_specs = more.pop("init_specs", [{"name": f"i{n}"} for n in range(len(init or []))])
    statuses = [{**one, "name": spec["name"]} for spec, one in zip(init_specs, init or [], strict=False)]
    status = {
        "phase": phase,
        "initContainerStatuses": statuses,
        "containerStatuses": containers or [],
        **more.pop("status", {}),
    }
    spec = {"containers": [{"name": "c"}] * max(1, len(containers or [])), "initContainers": init_specs}
    return {"metadata": more, "spec": spec, "status": status}


_RUNNING = state(running={})
_DONE = state(terminated={"exitCode": 0, "reason": "Completed"})


@pytest.mark.parametrize(
    ("obj", "status", "ready"),
    [
        (pod("Pending"), "Pending", 0),
        (pod(containers=[_RUNNING]), "Running", 1),
        (pod(containers=[state(waiting={"reason": "CrashLoopBackOff"})]), "CrashLoopBackOff", 0),
        (pod("Succeeded", containers=[_DONE]), "Completed", 0),
        (pod("Failed", containers=[state(terminated={"exitCode": 3})]), "ExitCode:3", 0),
        (pod("Failed", containers=[state(terminated={"exitCode": 137, "signal": 9})]), "Signal:9", 0),
        (pod("Failed", containers=[state(terminated={"exitCode": 1, "reason": "Error"})]), "Error", 0),
        (pod("Failed", status={"reason": "Evicted"}), "Evicted", 0),
        (pod(containers=[_DONE, _RUNNING]), "NotReady", 1),
        (pod(containers=[_DONE, _RUNNING], status={"conditions": [{"type": "Ready", "status": "True"}]}), "Running", 1),
        (pod("Pending", init=[state(running={}), state(waiting={"reason": "PodInitializing"})]), "Init:0/2", 0),
        (pod("Pending", init=[_DONE, state(waiting={"reason": "PodInitializing"})]), "Init:1/2", 0),
        (pod("Pending", init=[state(terminated={"exitCode": 2})]), "Init:ExitCode:2", 0),
        (pod("Pending", init=[state(waiting={"reason": "ImagePullBackOff"})]), "Init:ImagePullBackOff", 0),
        (pod(containers=[_RUNNING], deletionTimestamp="2026-01-01T00:00:00Z"), "Terminating", 1),
        (pod("Succeeded", containers=[_DONE], deletionTimestamp="2026-01-01T00:00:00Z"), "Completed", 0),
        (pod(deletionTimestamp="2026-01-01T00:00:00Z", status={"reason": "NodeLost"}), "Unknown", 0),
        (
            pod(
                "Pending",
                status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
            ),
            "SchedulingGated",
            0,
        ),
    ],
)
def test_pod_status_column(obj: dict[str, Any], status: str, ready: int) -> None:
    told = summary(obj)
    assert (told.status, told.ready) == (status, ready)


def test_a_started_sidecar_counts_as_ready_and_does_not_block_the_status() -> None:
    sidecar = {**state(running={}), "started": True, "restartCount": 2}
    obj = pod(init=[sidecar], init_specs=[{"name": "s", "restartPolicy": "Always"}], containers=[_RUNNING])
    assert summary(obj)[:4] == (2, 2, "Running", 2)


def test_restarts_show_the_time_of_the_last_one() -> None:
    crashed = {**_RUNNING, "restartCount": 4, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}}
    column = next(one for one in columns_of("", "Pod") if one.name == "Restarts")
    assert column.value(pod(containers=[crashed]), 1_767_225_600.0 + 300) == "4 (5m ago)"


def test_selectors_are_shown_in_kubectls_notation() -> None:
    expressions = [
        {"key": "b", "operator": "In", "values": ["y", "x"]},
        {"key": "c", "operator": "DoesNotExist"},
    ]
    assert selector_text({"matchLabels": {"a": "1"}, "matchExpressions": expressions}) == "a=1,b in (x,y),!c"
    assert selector_text(None) == "<none>"


@pytest.mark.parametrize("resource", [one for one in BUILT_IN if "list" in one.verbs], ids=lambda one: one.plural)
def test_columns_accept_an_empty_object(resource: Any) -> None:
    for column in columns_of(resource.group, resource.kind):
        assert isinstance(column.value({"metadata": {"name": "x"}}, 0.0), str | int | bool)
