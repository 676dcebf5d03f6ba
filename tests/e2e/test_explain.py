"""`cotenant explain` and the debug API through the real processes of `cotenant up`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.e2e.manifests import is_running, pod
from tests.e2e.running import ENVIRONMENT, Client, Up, eventually
from tests.fakes.waiting import patience

pytestmark = pytest.mark.slow


def explain(up: Up, *words: str) -> tuple[int, str, str]:
    """As a person has it: KUBECONFIG is set, and nothing else is said."""
    environment = {**ENVIRONMENT, "KUBECONFIG": str(up.kubeconfig)}
    command = [sys.executable, "-m", "cotenant", "explain", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(60), env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


def explained(up: Up, *words: str) -> Any:
    status, out, said = explain(up, *words, "--json")
    assert status == 0, said
    return json.loads(out)


def test_a_pending_pod_is_explained_live_and_afterwards(up: Up, api: Client, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, pod("too-large", cpu="64"))
    eventually("it is told why", lambda: api.get(f"{pods}/too-large")["status"].get("conditions"))
    eventually("and by an event", lambda: api.items(f"/api/v1/namespaces/{namespace}/events"))
    key = f"{namespace}/too-large"
    answer = explained(up, "pod", key)
    assert answer["waiting"]["passing"] == 0
    assert "request" in [entry["what"] for entry in answer["waiting"]["helps"]]
    assert answer["waiting"]["retry"]["at_s"] is not None
    supposed = explained(up, "pod", key, "--if", "cpu=100m")
    assert supposed["waiting"]["passing"] > 0
    status, out, _ = explain(up, "pod", key)
    assert (status, out.startswith(f"{key}: it waits: 0/")) == (0, True)
    assert max(map(len, out.splitlines())) <= 100
    status, out, said = explain(up, "pod", key, "--kubeconfig", str(up.kubeconfig))
    assert status == 0, said
    assert "it waits: 0/" in out
    assert "FailedScheduling" in out
    assert "nodeName" not in api.get(f"{pods}/too-large")["spec"]  # supposing placed nothing
    status, _, said = explain(up, "pod", f"{namespace}/nobody")
    assert (status, said.count("\n")) == (1, 1)
    assert "is not known to this scheduler" in said


def test_a_placed_pod_has_a_record_and_a_table_of_scores(up: Up, api: Client, namespace: str) -> None:
    assert up.asked("PUT", "/debug/flags/s", "3") == (200, "successfully set debugTopNScores to 3")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, pod("small"))
    found = eventually("it runs", lambda: [p for p in api.items(pods) if is_running(p)])[0]
    assert up.asked("PUT", "/debug/flags/s", "0")[0] == 200
    answer = explained(up, "pod", f"{namespace}/small")
    name = found["spec"]["nodeName"]
    assert (answer["node"], answer["record"]["node"]) == (name, name)
    status, table = up.asked("GET", f"/debug/scores?pod={namespace}/small")
    assert status == 200
    assert table.splitlines()[2].startswith("| # | Pod | Node | Score | ")
    assert f"| 0 | {namespace}/small | " in table
    log = up.directory / "logs" / "scheduler.log"
    eventually("the table is logged", lambda: f"| 0 | {namespace}/small | " in log.read_text())
    told = json.loads(up.asked("GET", f"/apis/v1/nodes/{name}")[1])
    assert f"{namespace}/small" in [entry["pod"] for entry in told["pods"]]
    status, out, said = explain(up, "pod", f"{namespace}/small", "--kubeconfig", str(up.kubeconfig))
    assert (status, f"{name} (current)" in out) == (0, True), said


def test_the_list_of_pages_and_who_may_read_it(up: Up) -> None:
    status, text = up.asked("GET", "/apis/v1/__services__")
    assert status == 200
    assert "/apis/v1/nodes/:nodeName" in json.loads(text)["GET"]
    for headers in ({"x_forwarded_for": "192.0.2.7"}, {"host": "elsewhere.example"}):
        status, said = up.asked("GET", "/apis/v1/__services__", **headers)
        assert (status, "may ask" in said) == (403, True)
