"""Three whole clusters under one hub: quotas are weighed by the share of all three, what one learned of a workload
reaches the others, and the hub's end takes that back everywhere, and nothing else.

Bare clusters: API server and store, whose pods are on their nodes from the start, since no scheduler is asked here. The
bus is once the hub's own, which ends with it, and once a real nats-server, where the hub alone is gone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.manifests import node, pod
from tests.e2e.running import ENVIRONMENT, Client, Up, eventually, run
from tests.fakes.servers.nats_server import NatsServer
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import patience

pytest.importorskip("nats", reason="nats-py is not installed")
pytestmark = pytest.mark.slow

KINDS = ("ElasticQuota", "WorkloadProfile")
PREFIX = "quota.scheduling.koordinator.sh/"
WEIGHT, OURS = PREFIX + "shared-weight", "cotenant.io/federation"
CLUSTERS = ("east", "north", "west")
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas"
PODS = "/api/v1/namespaces/default/pods"
PROFILES = "/apis/slo.cotenant.io/v1alpha1/namespaces/default/workloadprofiles"
LEARNED = {"value": 300, "low": 290, "high": 310, "samples": 50, "source": "learned"}


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


def weighs(api: Client, name: str, above: float, below: float) -> bool:
    return above < cpu_of(api, name) < below


def keeps(api: Client, name: str, weight: str) -> bool:
    """Whether it is noted what its own weight is."""
    return bool(json.loads(notes(api, name).get(OURS, "{}")).get("before") == weight)


def has_none(api: Client, name: str, *annotations: str) -> bool:
    return not set(annotations) & set(notes(api, name))


def serves_kinds(api: Client) -> bool:
    return all(api.exchange("GET", path)[0] == 200 for path in (QUOTAS, PROFILES))


def profile() -> dict[str, Any]:
    spec = {"workload": {"name": "cart"}, "sharedAs": "web"}
    return {
        "apiVersion": "slo.cotenant.io/v1alpha1",
        "kind": "WorkloadProfile",
        "metadata": {"name": "cart"},
        "spec": spec,
    }


def shared(api: Client) -> dict[str, Any] | None:
    found: dict[str, Any] | None = api.get(f"{PROFILES}/cart").get("status", {}).get("shared")
    return found


def has_learned_elsewhere(api: Client) -> bool:
    found = shared(api) or {}
    figure = found.get("overall", {}).get("sensitivity", {})
    return found.get("clusters") == 1 and (figure.get("value"), figure.get("source")) == (300, "shared")


def stored(api: Client) -> dict[str, Any]:
    """All that a joiner could have changed beside weights, with versions."""
    rest = [*api.items("/api/v1/nodes"), *api.items(PODS)]
    found = {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in rest}
    return found | {one["metadata"]["uid"]: one["spec"] for one in api.items(QUOTAS)}


@pytest.fixture(params=["embedded", "nats-server"])
def bus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """How a command finds the bus; nothing where the hub brings it along."""
    if request.param == "embedded":
        yield ()
        return
    server = NatsServer(tmp_path, free_port())
    server.start()
    yield ("--bus", server.url)
    server.kill()


def test_the_hub_ends_and_weights_expire_everywhere(tmp_path: Path, bus: tuple[str, ...]) -> None:
    with ExitStack() as opened:
        ups = {name: opened.enter_context(Up(tmp_path / name / "up", "--bare")) for name in made(tmp_path)}
        apis = {name: up.ready() for name, up in ups.items()}
        definitions = [one for one in yaml.safe_load_all(run("crds").stdout) if one["spec"]["names"]["kind"] in KINDS]
        for name, api in apis.items():
            for definition in definitions:
                api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            eventually("the kinds are served", partial(serves_kinds, api))
            api.create(PROFILES, profile())
            api.create("/api/v1/nodes", node("n1", 16))
            api.create(QUOTAS, quota("rich", '{"cpu":"8"}'))
            api.create(QUOTAS, quota("poor", None))
            for i in range(4 if name != "west" else 1):
                rich = pod(f"rich-{i}", "2", nodeName="n1")
                rich["metadata"]["labels"] = {PREFIX + "name": "rich"}
                api.create(PODS, rich)
            poor = pod("poor", "1", nodeName="n1")
            poor["metadata"]["labels"] = {PREFIX + "name": "poor"}
            api.create(PODS, poor)
        apis["east"].patch(f"{PROFILES}/cart/status", {"status": {"overall": {"sensitivity": LEARNED}}})
        state = tmp_path / "federation"
        members = "clusters:\n"
        for name in CLUSTERS:
            key = run("federate", "key", name, "--state-dir", state).stdout.strip()
            members += f"  {name}: {{key: {key}, cpu: 10000, memory: 100Ti}}\n"
        file = tmp_path / "members.yaml"
        file.write_text(members)
        log = tmp_path / "hub.log"
        hub = opened.enter_context(
            process(log, "federate", "hub", file, *(bus or ("--embedded",)), "--round-s", "1", "--state-dir", state)
        )
        eventually("the hub listens", lambda: hub.poll() is None and "the hub listens" in log.read_text(), 60.0)
        joiners = {
            name: opened.enter_context(
                process(tmp_path / f"{name}.log", "federate", "join", name, "--kubeconfig", up.kubeconfig,
                        "--state-dir", state, "--period-s", "1", "--epsilon", "0", *bus)
            )
            for name, up in ups.items()
        }  # fmt: skip
        for name, api in apis.items():
            eventually(f"rich weighs less in {name}", partial(weighs, api, "rich", 0, 8), 60.0)
            eventually(f"poor weighs more in {name}", partial(weighs, api, "poor", 40, 81), 60.0)
            eventually(f"{name} keeps what it had", partial(keeps, api, "rich", '{"cpu":"8"}'))
        for name in ("north", "west"):
            eventually(f"{name} has what east learned", partial(has_learned_elsewhere, apis[name]), 60.0)
        assert shared(apis["east"]) is None

        # What a cluster says holds for three seconds here: one that is late on a busy machine is left out for a while.
        def rooms() -> set[str]:
            shown = run("federate", "show", "--state-dir", state, "--json", *bus)
            known = json.loads(shown.stdout)["clusters"] if shown.returncode == 0 else []
            return {found["cluster"] for found in known if found["room"]}

        eventually("the hub knows the room of each", lambda: rooms() == set(CLUSTERS), 60.0)
        job = tmp_path / "job.yaml"
        job.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **pod("new", "1")}))

        def best() -> str:
            asked = run("federate", "where", job, "--state-dir", state, "--json", *bus)
            return json.loads(asked.stdout)["best"] if asked.returncode == 0 else asked.stderr

        eventually("the emptiest is the best", lambda: best() == "west", 60.0)
        before = {name: stored(api) for name, api in apis.items()}

        hub.kill()
        for name, api in apis.items():
            eventually(f"{name} has its own weights", partial(has_none, api, "rich", OURS), 60.0)
            eventually(f"{name} has none again", partial(has_none, api, "poor", OURS, WEIGHT), 60.0)
            assert notes(api, "rich")[WEIGHT] == '{"cpu":"8"}'
        for name in ("north", "west"):
            eventually(f"{name} has nothing of others", partial(has_nothing_of_others, apis[name]), 60.0)
        assert {name: stored(api) for name, api in apis.items()} == before
        assert all(joiner.poll() is None for joiner in joiners.values())


def has_nothing_of_others(api: Client) -> bool:
    return shared(api) == {}


def made(folder: Path) -> tuple[str, ...]:
    """The clusters, each with a folder."""
    for name in CLUSTERS:
        (folder / name).mkdir()
    return CLUSTERS
