"""`cotenant scheduler --config` as a process: profiles beside each other, defaults by a Service, an extender, on the
local API server and on a real one.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.servers.fake_extender import FakeExtender, keeping
from tests.fakes.waiting import patience

from .conftest import Kube

pytestmark = [pytest.mark.slow]


@contextmanager
def scheduler(kube: Kube, folder: Path, text: str) -> Iterator[Path]:
    """The command with this configuration; its log."""
    config, log = folder / "config.yaml", folder / "log"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"leaderElection: {{leaderElect: false}}\nclientConnection: {{kubeconfig: {kube.kubeconfig.absolute()}}}\n"
        + text
    )
    command = [sys.executable, "-m", "cotenant", "scheduler", "--config", str(config), "--listen", "127.0.0.1:0"]
    with log.open("w") as written:
        program = subprocess.Popen([*command, "--state-dir", str(folder)], stdout=written, stderr=written)
    try:
        yield log
    finally:
        program.send_signal(signal.SIGTERM)
        assert program.wait(patience(60)) == 0, log.read_text()[-2000:]


@contextmanager
def extender(**verbs: Any) -> Iterator[FakeExtender]:
    """An extender in a thread of its own."""
    server, loop, started = FakeExtender(**verbs), asyncio.new_event_loop(), threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        async with server:
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(patience(10))
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(patience(10))


PACKING = "scoringStrategy: {type: MostAllocated, resources: [{name: cpu}]}"
ONLY_FIT = "plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}}"
CONSTRAINT = "{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}"
PROFILES = f"""
parallelism: 3
profiles:
- schedulerName: packs
  {ONLY_FIT}
  pluginConfig: [{{name: NodeResourcesFit, args: {{{PACKING}}}}}]
- schedulerName: spreads
  {ONLY_FIT}
- schedulerName: listed
  {ONLY_FIT}
  pluginConfig:
  - {{name: PodTopologySpread, args: {{defaultingType: List, defaultConstraints: [{CONSTRAINT}]}}}}
  - {{name: NodeResourcesFit, args: {{{PACKING}}}}}
- schedulerName: usual
- schedulerName: careless
  plugins: {{filter: {{disabled: [{{name: TaintToleration}}]}}}}
"""


@pytest.fixture(scope="module")
def profiles(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One scheduler with the profiles of all cases but the extender's; its log."""
    with scheduler(kube, tmp_path_factory.mktemp("profiles"), PROFILES) as log:
        yield log


@pytest.fixture(scope="module")
def extended(kube: Kube, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeExtender]:
    """A scheduler's extender, whose filter each case sets."""
    with extender() as server:
        text = f"""
profiles: [{{schedulerName: extended}}]
extenders: [{{urlPrefix: "{server.url}", filterVerb: filter, nodeCacheCapable: true}}]
"""
        with scheduler(kube, tmp_path_factory.mktemp("extended"), text):
            yield server


@pytest.fixture
def nodes(kube: Kube, namespace: str) -> Iterator[tuple[str, ...]]:
    """Four nodes in two zones, for this case's pods alone."""
    names = tuple(f"{namespace}-{i}" for i in range(4))
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    for i, name in enumerate(names):
        labels = {"kubernetes.io/hostname": name, "case": namespace, "topology.kubernetes.io/zone": f"z{i % 2}"}
        status = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": amounts, "allocatable": amounts}
        made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
        kube.create("/api/v1/nodes", made)
        kube.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    yield names
    for name in names:
        kube.request("DELETE", f"/api/v1/nodes/{name}")


def pod(
    kube: Kube, namespace: str, name: str, scheduler_name: str, annotations: dict[str, str] | None = None, **labels: str
) -> None:
    spec = {
        "schedulerName": scheduler_name,
        "nodeSelector": {"case": namespace},
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "500m", "memory": "64Mi"}}}],
    }
    metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    kube.create(f"/api/v1/namespaces/{namespace}/pods", made)


def node_of(kube: Kube, namespace: str, name: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    found = kube.eventually(path, lambda obj: bool(obj["spec"].get("nodeName")), timeout_s=60.0)
    return str(found["spec"]["nodeName"])


def test_two_profiles_place_by_their_own_scores(
    kube: Kube, namespace: str, nodes: tuple[str, ...], profiles: Path
) -> None:
    for i in range(4):
        pod(kube, namespace, f"packed-{i}", "packs")
    packed = {node_of(kube, namespace, f"packed-{i}") for i in range(4)}
    assert len(packed) == 1
    for i in range(3):
        pod(kube, namespace, f"apart-{i}", "spreads")
    apart = {node_of(kube, namespace, f"apart-{i}") for i in range(3)}
    assert len(apart) == 3
    assert not apart & packed
    assert "parallelism: irrelevant here" in profiles.read_text()


def test_pods_of_a_service_are_spread_by_the_listed_constraints(
    kube: Kube, namespace: str, nodes: tuple[str, ...], profiles: Path
) -> None:
    service = {"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}, "metadata": {"name": "web"}}
    kube.create(f"/api/v1/namespaces/{namespace}/services", {"apiVersion": "v1", "kind": "Service", **service})
    for i in range(4):
        pod(kube, namespace, f"web-{i}", "listed", app="web")
    assert {node_of(kube, namespace, f"web-{i}") for i in range(4)} == set(nodes)
    for i in range(3):
        pod(kube, namespace, f"other-{i}", "listed", app="other")
    assert len({node_of(kube, namespace, f"other-{i}") for i in range(3)}) == 1


def test_an_extender_of_the_file_is_asked(
    kube: Kube, namespace: str, nodes: tuple[str, ...], extended: FakeExtender
) -> None:
    extended.asked.clear()
    extended.verbs["filter"] = keeping(nodes[2])
    pod(kube, namespace, "p", "extended")
    assert node_of(kube, namespace, "p") == nodes[2]
    (_, asked) = extended.asked[0]
    assert asked["NodeNames"] == sorted(nodes)
    assert asked["Pod"]["metadata"]["name"] == "p"


def test_a_gang_goes_through_the_extender_whole(
    kube: Kube, namespace: str, nodes: tuple[str, ...], extended: FakeExtender
) -> None:
    extended.asked.clear()
    extended.verbs["filter"] = keeping(nodes[1])
    gang = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "3"}
    for i in range(3):
        pod(kube, namespace, f"m{i}", "extended", gang)
    assert {node_of(kube, namespace, f"m{i}") for i in range(3)} == {nodes[1]}
    assert {asked["Pod"]["metadata"]["name"] for _, asked in extended.asked} == {"m0", "m1", "m2"}


def test_filters_that_a_profile_disables_let_its_pods_pass(
    kube: Kube, namespace: str, nodes: tuple[str, ...], profiles: Path
) -> None:
    for name in nodes:
        kube.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [{"key": "busy", "effect": "NoSchedule"}]}})
    pod(kube, namespace, "usual", "usual")
    pod(kube, namespace, "careless", "careless")
    assert node_of(kube, namespace, "careless") in nodes
    path = f"/api/v1/namespaces/{namespace}/pods/usual"
    waits = kube.eventually(path, lambda obj: bool(obj["status"].get("conditions")), timeout_s=60.0)
    assert "untolerated taint" in waits["status"]["conditions"][0]["message"]
