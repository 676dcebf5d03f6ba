"""Elastic quotas through the real processes: borrowed resources are reclaimed, objects get their status, an invalid
one affects no other.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.manifests import is_running, pod
from tests.e2e.running import ENVIRONMENT, Client, Up, eventually
from tests.fakes.waiting import becomes, patience

pytestmark = pytest.mark.slow

PREFIX = "quota.scheduling.koordinator.sh/"
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/elasticquotas"
SCHEDULER = "quota-e2e"


@pytest.fixture
def scheduler(up: Up) -> Iterator[None]:
    """One more scheduler, which reclaims soon."""
    log = up.directory.parent / f"{SCHEDULER}.log"
    words = ["scheduler", "--kubeconfig", str(up.kubeconfig), "--scheduler-name", SCHEDULER, "--listen", "127.0.0.1:0",
             "--no-leader-elect", "--quota-revoke-after-s", "2"]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "cotenant", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=ENVIRONMENT,
        )
    try:
        eventually("it leads", lambda: process.poll() is None and "leads" in log.read_text(), 120.0)
        yield
    finally:
        process.terminate()
        process.wait(patience(30))


def quota(name: str, least: int, most: int, labels: dict[str, str], total: int = 0) -> dict[str, Any]:
    notes = {f"{PREFIX}total-resource": json.dumps({"cpu": str(total)})} if total else {}
    meta = {"name": name, "labels": {PREFIX + key: value for key, value in labels.items()}, "annotations": notes}
    spec = {"min": {"cpu": str(least)}, "max": {"cpu": str(most)}}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": meta, "spec": spec}


def of_quota(name: str, of: str) -> dict[str, Any]:
    made = pod(name, "1", schedulerName=SCHEDULER, terminationGracePeriodSeconds=1)
    made["metadata"]["labels"] = {"app": of, PREFIX + "name": of}
    return made


def test_borrowed_resources_are_reclaimed(up: Up, api: Client, namespace: str, scheduler: None) -> None:
    path = QUOTAS.format(namespace)
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def running(of: str) -> list[Any]:
        return [entry for entry in api.items(pods, labelSelector=f"app={of}") if is_running(entry)]

    def annotations(name: str) -> dict[str, str]:
        found: dict[str, str] = api.get(f"{path}/{name}")["metadata"].get("annotations", {})
        return found

    api.create(path, quota("e2e", 8, 8, {"is-parent": "true", "is-root": "true", "tree-id": "e2e"}, total=8))
    for name in ("e2e-a", "e2e-b"):
        api.create(path, quota(name, 4, 8, {"parent": "e2e"}))
    api.create(path, quota("e2e-bad", 5, 3, {"parent": "e2e"}))
    for i in range(9):
        api.create(pods, of_quota(f"a{i}", "e2e-a"))
    api.create(pods, of_quota("lost", "e2e-bad"))
    eventually("a has all eight", lambda: len(running("e2e-a")) == 8)
    eventually("its status has the use", lambda: api.get(f"{path}/e2e-a").get("status", {}).get("used") == {"cpu": "8"})
    runtime = lambda: json.loads(annotations("e2e-a").get(f"{PREFIX}runtime", "{}"))  # noqa: E731
    becomes("an annotation says what it may use", runtime, {"cpu": "8"})
    eventually("the invalid one has a reason", lambda: annotations("e2e-bad").get("cotenant.io/quota-problem"))
    assert "exceeds the maximum 3" in annotations("e2e-bad")["cotenant.io/quota-problem"]

    for i in range(8):
        api.create(pods, of_quota(f"b{i}", "e2e-b"))
    eventually("both have half", lambda: (len(running("e2e-a")), len(running("e2e-b"))) == (4, 4), 60.0)

    def overused() -> list[str]:
        events = api.items(f"/api/v1/namespaces/{namespace}/events")
        return [event["message"] for event in events if event["reason"] == "QuotaOverused"]

    told = eventually("an event for each", lambda: found if len(found := overused()) >= 4 else [])
    # Of the pods that went first, which need not be the first in the list: what it may use falls to 4 as the other
    # quota's pods come, and they may come slowly.
    first = re.compile(r"quota e2e-a has used 8 cpu where it may use [4-7] for more than 2 s")
    assert any(map(first.search, told)), told

    def messages(found: list[Any]) -> str:
        return " ".join(c.get("message", "") for entry in found for c in entry["status"].get("conditions", []))

    def waiting() -> list[Any]:
        return [entry for entry in api.items(pods, labelSelector="app=e2e-b") if not is_running(entry)]

    eventually("they are told", lambda: "Insufficient quota e2e-b: cpu of its runtime" in messages(waiting()))
    eventually("lost is told", lambda: "Quota e2e-bad is not used" in messages([api.get(f"{pods}/lost")]))
