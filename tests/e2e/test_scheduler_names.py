"""Which pods `cotenant up` schedules, and what happens to the others."""

from __future__ import annotations

import pytest
from tests.e2e.manifests import is_running, pod
from tests.e2e.running import Client, eventually

pytestmark = pytest.mark.slow


def test_a_pod_that_names_no_scheduler_runs(api: Client, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    plain = pod("plain")
    del plain["spec"]["schedulerName"]
    made = api.create(pods, plain)
    assert made["spec"]["schedulerName"] == "default-scheduler"
    eventually("it runs", lambda: [p for p in api.items(pods) if is_running(p)])


def test_a_pod_whose_scheduler_does_not_run_gets_an_event_that_says_so(api: Client, namespace: str) -> None:
    api.create(f"/api/v1/namespaces/{namespace}/pods", pod("elsewhere", schedulerName="elsewhere"))
    event = eventually("there is an event", lambda: api.items(f"/api/v1/namespaces/{namespace}/events"))[0]
    assert (event["type"], event["reason"]) == ("Warning", "FailedScheduling")
    assert 'its spec.schedulerName is "elsewhere"' in event["message"]
    assert "cotenant and default-scheduler" in event["message"]
