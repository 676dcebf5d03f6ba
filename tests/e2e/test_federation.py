"""Three whole clusters under one hub: quotas are weighed by the share of all three, and the hub's end takes that back
everywhere, and nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.manifests import is_running, pod
from tests.e2e.running import ENVIRONMENT, Client, Up, eventually, run
from tests.fakes.waiting import patience

pytest.importorskip("nats", reason="nats-py is not installed")
pytestmark = pytest.mark.slow

PREFIX = "quota.scheduling.koordinator.sh/"
WEIGHT, OURS = PREFIX + "shared-weight", "cotenant.io/federation"
CLUSTERS = ("east", "north", "west")
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas"
PODS = "/api/v1/namespaces/default/pods"


@contextmanager
def process(log: Path, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as out:
        started = subprocess.Popen(
            [sys.executable, "-m", "cotenant", *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=ENVIRONMENT,
        )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.terminate()
        started.wait(patience(30))


def quota(name: str, weight: str | None) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "annotations": {WEIGHT: weight} if weight else {}}
    spec = {"min": {"cpu": "1"}, "max": {"cpu": "40"}}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": meta, "spec": spec}


def notes(api: Client, name: str) -> dict[str, str]:
    found: dict[str, str] = api.get(f"{QUOTAS}/{name}")["metadata"].get("annotations") or {}
    return found


def cpu_of(api: Client, name: str) -> float:
    text = str(json.loads(notes(api, name).get(WEIGHT, "{}")).get("cpu", "0"))
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def places(api: Client) -> dict[str, str]:
    return {p["metadata"]["uid"]: p["spec"]["nodeName"] for p in api.items(PODS) if is_running(p)}


def test_the_hub_ends_and_weights_expire_everywhere(tmp_path: Path) -> None:
    with ExitStack() as opened:
        ups = {name: opened.enter_context(Up(tmp_path / name / "up", "--nodes", 2)) for name in made(tmp_path)}
        apis = {name: up.ready() for name, up in ups.items()}
        for name, api in apis.items():
            api.create(QUOTAS, quota("rich", '{"cpu":"8"}'))
            api.create(QUOTAS, quota("poor", None))
            for i in range(4 if name != "west" else 1):
                rich = pod(f"rich-{i}", "2")
                rich["metadata"]["labels"] = {PREFIX + "name": "rich"}
                api.create(PODS, rich)
            poor = pod("poor", "1")
            poor["metadata"]["labels"] = {PREFIX + "name": "poor"}
            api.create(PODS, poor)
        state = tmp_path / "federation"
        members = "clusters:\n"
        for name in CLUSTERS:
            key = run("federate", "key", name, "--state-dir", state).stdout.strip()
            members += f"  {name}: {{key: {key}, cpu: 10000, memory: 100Ti}}\n"
        file = tmp_path / "members.yaml"
        file.write_text(members)
        log = tmp_path / "hub.log"
        hub = opened.enter_context(
            process(log, "federate", "hub", file, "--embedded", "--round-s", "1", "--state-dir", state)
        )
        eventually("the hub listens", lambda: hub.poll() is None and "the hub listens" in log.read_text(), 60.0)
        joiners = {
            name: opened.enter_context(
                process(tmp_path / f"{name}.log", "federate", "join", name, "--kubeconfig", up.kubeconfig,
                        "--state-dir", state, "--period-s", "1", "--epsilon", "0")
            )
            for name, up in ups.items()
        }  # fmt: skip
        for name, api in apis.items():
            eventually(f"rich weighs less in {name}", lambda api=api: 0 < cpu_of(api, "rich") < 8, 60.0)
            eventually(f"poor weighs more in {name}", lambda api=api: cpu_of(api, "poor") > 40, 60.0)
            assert json.loads(notes(api, "rich")[OURS])["before"] == '{"cpu":"8"}'
        shown = run("federate", "show", "--state-dir", state, "--json")
        assert {found["cluster"] for found in json.loads(shown.stdout)["clusters"] if found["room"]} == set(CLUSTERS)
        job = tmp_path / "job.yaml"
        job.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **pod("new", "1")}))
        asked = run("federate", "where", job, "--state-dir", state, "--json")
        assert json.loads(asked.stdout)["best"] == "west"  # the emptiest
        before = {name: places(api) for name, api in apis.items()}

        hub.kill()
        for name, api in apis.items():
            eventually(f"{name} has its own weights", lambda api=api: OURS not in notes(api, "rich"), 60.0)
            eventually(f"{name} has none again", lambda api=api: not {OURS, WEIGHT} & set(notes(api, "poor")), 60.0)
            assert notes(api, "rich")[WEIGHT] == '{"cpu":"8"}'
        assert {name: places(api) for name, api in apis.items()} == before
        assert all(joiner.poll() is None for joiner in joiners.values())


def made(folder: Path) -> tuple[str, ...]:
    """The clusters, each with a folder."""
    for name in CLUSTERS:
        (folder / name).mkdir()
    return CLUSTERS
