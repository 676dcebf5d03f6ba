"""A kube-scheduler with a configuration, and this scheduler's engine with the same file: each node that kube-scheduler
chooses is one with the highest score here, pod after pod, and both find none for the same pods.

Needs a real API server (COTENANT_TEST_KUBECONFIG) and the program kube-scheduler: on the PATH, or named by
COTENANT_TEST_KUBE_SCHEDULER.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml
from tests.fakes.waiting import patience

from cotenant.drivers.kube.kinds.node import NodeObject, read_node
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.kube.kinds.spread_selectors import MatchingObject
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.settings import EngineSettings
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduler_config.configuration_file import SchedulerConfig, parse_config

from .conftest import Kube

pytestmark = [pytest.mark.slow]
PROGRAM = os.environ.get("COTENANT_TEST_KUBE_SCHEDULER", "") or shutil.which("kube-scheduler") or ""
PODS = 24


def fit(strategy: str, resources: str, shape: str = "") -> str:
    ratio = f", requestedToCapacityRatio: {{shape: {shape}}}" if shape else ""
    return f"{{name: NodeResourcesFit, args: {{scoringStrategy: {{type: {strategy}, resources: {resources}{ratio}}}}}}}"


OWN = "kube-1.36"  # a placement profile, which says of itself that it scores as kube-scheduler without arguments
PROFILES = {
    "usual": "{}",
    OWN: "{}",
    "most": "pluginConfig: [" + fit("MostAllocated", "[{name: cpu, weight: 3}, {name: memory, weight: 1}]") + "]",
    "ratio": "pluginConfig: ["
    + fit(
        "RequestedToCapacityRatio",
        "[{name: cpu, weight: 2}, {name: example.com/card, weight: 5}]",
        "[{utilization: 0, score: 0}, {utilization: 70, score: 10}, {utilization: 100, score: 3}]",
    )
    + "]",
    "weights": """
  plugins:
    score:
      disabled: [{name: ImageLocality}, {name: NodeResourcesFit}]
      enabled: [{name: NodeResourcesBalancedAllocation, weight: 7}, {name: TaintToleration, weight: 1}]
  pluginConfig:
  - {name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu}, {name: memory}, {name: example.com/card}]}}
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 60}}
""",
    "few filters": """
  plugins:
    filter: {disabled: [{name: TaintToleration}, {name: InterPodAffinity}]}
    preFilter: {disabled: [{name: InterPodAffinity}]}
""",
    "list": """
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
      - {maxSkew: 2, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
  - name: NodeAffinity
    args:
      addedAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 30, preference: {matchExpressions: [{key: disk, operator: In, values: [fast]}]}}
""",
}


def configuration(written: str, scheduler: str, kubeconfig: Path) -> str:
    own = PROFILES[written]
    body = own if own.startswith("\n") else f"\n  {own}\n" if own != "{}" else "\n"
    return (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"clientConnection: {{kubeconfig: {kubeconfig}}}\nleaderElection: {{leaderElect: false}}\n"
        f"podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 1\nprofiles:\n- schedulerName: {scheduler}{body}"
    )


class Beside:
    """The engine of this scheduler, told what the server has."""

    def __init__(self, config: SchedulerConfig, scheduler: str, seed: int, own: str = "") -> None:
        """`own`: a placement profile in place of the file's."""
        named = config.profiles[scheduler]
        self.reader = PodReader(by_scheduler={scheduler: named.pods})
        self.reader.spread_selectors.is_on = True
        settings = EngineSettings(schedulers=(scheduler,))
        self.engine = Cluster(profile(own) if own else named.profile, np.random.default_rng(seed), settings)

    def see(self, obj: Any) -> None:
        self.engine.pod_seen(self.reader.pod(msgspec.convert(obj, PodObject, strict=False)), 0.0)

    def scores(self, key: str) -> dict[str, float]:
        answer = self.engine.why.pod(key, 0.0)
        assert answer is not None
        return {candidate.node: candidate.score for candidate in answer.candidates}


@pytest.mark.parametrize("written", list(PROFILES))
@pytest.mark.parametrize("seed", [1, 2])
def test_kube_scheduler_chooses_what_scores_highest_here(
    kube: Kube, namespace: str, tmp_path: Path, written: str, seed: int
) -> None:
    if kube.is_local:
        pytest.skip("kube-scheduler needs kinds that the local API server does not have")
    if not PROGRAM:
        pytest.skip("no kube-scheduler: COTENANT_TEST_KUBE_SCHEDULER, or on the PATH")
    scheduler = f"up-{namespace}"
    text = configuration(written, scheduler, kube.kubeconfig.absolute())
    config = parse_config(text.encode(), "test")
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(text)))
    with (tmp_path / "log").open("w") as log:
        program = subprocess.Popen([PROGRAM, f"--config={file}", "--secure-port=0"], stdout=log, stderr=log)
    nodes: list[str] = []
    try:
        beside = Beside(config, scheduler, seed, OWN if written == OWN else "")
        _compare(kube, namespace, scheduler, beside, Random(f"{written} {seed}"), nodes)
    finally:
        program.terminate()
        program.wait(patience(10))
        for name in nodes:
            kube.request("DELETE", f"/api/v1/nodes/{name}")


def _compare(kube: Kube, namespace: str, scheduler: str, beside: Beside, rng: Random, nodes: list[str]) -> None:
    for i in range(5):
        name = f"{namespace}-{i}"
        nodes.append(name)
        _node(kube, name, namespace, i, rng, beside)
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    kube.create(f"/api/v1/namespaces/{namespace}/services", {"apiVersion": "v1", "kind": "Service", **service})
    found = msgspec.convert(service, MatchingObject, strict=False)
    beside.reader.spread_selectors.put_service(f"{namespace}/web", found)
    placed = refused = 0
    for number in range(PODS):
        name = f"p{number}"
        path = f"/api/v1/namespaces/{namespace}/pods"
        made = kube.create(path, _pod(name, namespace, scheduler, rng))
        beside.see(made)
        scores = beside.scores(f"{namespace}/{name}")
        if not scores:
            waits = kube.eventually(f"{path}/{name}", _is_judged)
            assert not waits["spec"].get("nodeName"), f"{name} has no node here, and {waits['spec']['nodeName']} there"
            kube.delete(f"{path}/{name}", gracePeriodSeconds="0")
            beside.engine.pod_gone(made["metadata"]["uid"], 0.0)
            refused += 1
            continue
        bound = kube.eventually(f"{path}/{name}", _is_judged)
        node = bound["spec"].get("nodeName", "")
        assert node in scores, f"{name}: {bound['status']}"
        assert scores[node] == max(scores.values()), f"{name}: {node} of {scores}"
        beside.see(bound)
        placed += 1
    assert placed >= PODS // 3


def _is_judged(pod: Any) -> bool:
    if pod["spec"].get("nodeName"):
        return True
    conditions = pod["status"].get("conditions", [])
    return any(entry["type"] == "PodScheduled" and entry["status"] == "False" for entry in conditions)


def _node(kube: Kube, name: str, namespace: str, i: int, rng: Random, beside: Beside) -> None:
    amounts = {"cpu": str(rng.randint(2, 12)), "memory": f"{rng.randint(4, 24)}Gi", "pods": "30"}
    if rng.random() < 0.6:
        amounts["example.com/card"] = str(rng.randint(1, 6))
    labels = {
        "kubernetes.io/hostname": name,
        "case": namespace,
        "topology.kubernetes.io/zone": f"z{i % 2}",
        "disk": rng.choice(("fast", "slow")),
    }
    made = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    kube.create("/api/v1/nodes", made)
    taints = [{"key": "busy", "effect": "PreferNoSchedule"}] if rng.random() < 0.4 else []
    kube.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints or None}})
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": amounts, "allocatable": amounts}
    written = kube.patch(f"/api/v1/nodes/{name}/status", {"status": ready})
    beside.engine.node_seen(read_node(msgspec.convert(written, NodeObject, strict=False)))


def _pod(name: str, namespace: str, scheduler: str, rng: Random) -> dict[str, Any]:
    requests = {"cpu": f"{rng.randint(1, 8) * 250}m", "memory": f"{rng.randint(1, 8) * 256}Mi"}
    limits: dict[str, str] = {}
    if rng.random() < 0.3:
        requests["example.com/card"] = limits["example.com/card"] = str(rng.randint(1, 2))
    labels = {"app": rng.choice(("web", "web", "api"))}
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "nodeSelector": {"case": namespace},
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "none", "resources": {"requests": requests, "limits": limits}}],
    }
    affinity: dict[str, Any] = {}
    if rng.random() < 0.4:
        term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [rng.choice(("fast", "slow"))]}]}
        affinity["nodeAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": rng.randint(1, 100), "preference": term}]
        }
    near = {
        "labelSelector": {"matchLabels": {"app": rng.choice(("web", "api"))}},
        "topologyKey": rng.choice(("topology.kubernetes.io/zone", "kubernetes.io/hostname")),
    }
    if (drawn := rng.random()) < 0.2:
        affinity["podAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": rng.randint(1, 100), "podAffinityTerm": near}
            ]
        }
    elif drawn < 0.4:
        affinity["podAntiAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": rng.randint(1, 100), "podAffinityTerm": near}
            ]
        }
    elif drawn < 0.5:
        near["labelSelector"] = {"matchLabels": labels}
        affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
    if affinity:
        spec["affinity"] = affinity
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
