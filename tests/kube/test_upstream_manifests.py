"""Manifests with the fields that Koordinator documents, applied as they are: the ConfigMap, a quota profile, a
colocation profile, and pods of both kinds.

The manager and the webhook run against the server under test; nothing in the manifests is ours.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from tests.fakes import waiting
from tests.fakes.waiting import patience
from tests.kube.definitions import collection, installed
from tests.kube.test_webhook_process import EXAMPLE, webhook

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import load_access
from cotenant.engine.manager.settings import ManagerSettings
from cotenant.services.agent_settings.koordinator import policies_of, read_node_slo
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.manager.manager_process import ManagerOptions, ManagerProcess

pytestmark = pytest.mark.slow

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: slo-controller-config
  namespace: koordinator-system
data:
  colocation-config: |
    {
      "enable": true,
      "metricAggregateDurationSeconds": 300,
      "metricReportIntervalSeconds": 60,
      "cpuReclaimThresholdPercent": 60,
      "memoryReclaimThresholdPercent": 70,
      "memoryCalculatePolicy": "usage",
      "degradeTimeMinutes": 15,
      "updateTimeThresholdSeconds": 300,
      "resourceDiffThreshold": 0.1,
      "nodeConfigs": [
        {"name": "anolis", "nodeSelector": {"matchLabels": {"kubernetes.io/kernel": "anolis"}},
         "updateTimeThresholdSeconds": 360}
      ]
    }
  resource-threshold-config: |
    {
      "clusterStrategy": {"enable": true, "cpuSuppressThresholdPercent": 60, "cpuSuppressPolicy": "cpuset",
        "memoryEvictThresholdPercent": 75},
      "nodeStrategies": [
        {"name": "alios", "nodeSelector": {"matchLabels": {"kubernetes.io/kernel": "alios"}},
         "cpuEvictBEUsageThresholdPercent": 80}
      ]
    }
  resource-qos-config: |
    {
      "clusterStrategy": {
        "policies": {"cpuPolicy": "groupIdentity"},
        "lsClass": {"cpuQOS": {"enable": true, "groupIdentity": 2},
          "resctrlQOS": {"enable": false, "catRangeEndPercent": 100}},
        "beClass": {"cpuQOS": {"enable": true, "groupIdentity": -1},
          "memoryQOS": {"enable": true, "throttlingPercent": 80}}
      }
    }
  cpu-burst-config: |
    {"clusterStrategy": {"policy": "auto", "cpuBurstPercent": 1000, "cfsQuotaBurstPercent": 300,
      "cfsQuotaBurstPeriodSeconds": -1}}
  cpu-normalization-config: |
    {
      "enable": true,
      "ratioModel": {
        "Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz": {
          "baseRatio": 1.29, "hyperThreadEnabledRatio": 0.82, "turboEnabledRatio": 1.52,
          "hyperThreadTurboEnabledRatio": 1.0
        },
        "Intel Xeon Platinum 8369B CPU @ 2.90GHz": {
          "baseRatio": 1.69, "hyperThreadEnabledRatio": 1.06, "turboEnabledRatio": 1.91,
          "hyperThreadTurboEnabledRatio": 1.20
        }
      }
    }
  resource-amplification-config: |
    {"enable": true, "resourceAmplificationRatio": {"memory": 1.5}}
  system-config: |
    {"clusterStrategy": {"minFreeKbytesFactor": 100, "watermarkScaleFactor": 150}}
"""
PROFILE = """
apiVersion: quota.koordinator.sh/v1alpha1
kind: ElasticQuotaProfile
metadata:
  name: pool-profile
  labels:
    kubernetes.io/arch: amd64
spec:
  quotaName: pool-root-quota
  quotaLabels:
    quota.scheduling.koordinator.sh/is-parent: "true"
  resourceRatio: "0.9"
  nodeSelector:
    matchLabels:
      node-pool: NAME
"""
NGINX = """
apiVersion: v1
kind: Pod
metadata:
  name: nginx
  labels:
    app: nginx
    koordinator.sh/qosClass: LS
spec:
  schedulerName: koord-scheduler
  containers:
    - name: nginx
      image: docker.io/koordinatorsh/nginx:v1.18-koord-example
      resources:
        limits: {cpu: "8", memory: 1Gi}
        requests: {cpu: "4", memory: 1Gi}
"""
SPARK = """
apiVersion: v1
kind: Pod
metadata:
  name: spark-executor
  labels:
    koordinator.sh/enable-colocation: "true"
spec:
  containers:
    - name: executor
      image: spark
      resources:
        limits: {cpu: "1", memory: 3456Mi}
        requests: {cpu: "1", memory: 3456Mi}
"""
CLASS = {"metadata": {"name": "koord-batch-of-case"}, "value": 5500}  # the chart installs koord-batch


@pytest.fixture(scope="module")
def kinds(kube: Any) -> Iterator[None]:
    with installed(kube):
        yield


@contextmanager
def managing(kube: Any) -> Iterator[ManagerProcess]:
    """A manager in a thread."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    options = ManagerOptions(listen=Address("127.0.0.1", 0), settings=ManagerSettings(confirm_s=1.0, settle_s=0.01))
    found: list[ManagerProcess] = []

    async def serve() -> None:
        found.append(ManagerProcess(load_access(kube.kubeconfig), options, "case", lambda client: Alone()))
        await found[0].run(stop)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="manager", daemon=True)
    thread.start()
    try:
        waiting.eventually("it runs", lambda: found, 20.0)
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(patience(15))


@pytest.fixture
def configured(kube: Any, kinds: None) -> Iterator[None]:
    kube.request("POST", "/api/v1/namespaces", {"metadata": {"name": "koordinator-system"}})
    configs = "/api/v1/namespaces/koordinator-system/configmaps"
    kube.create(configs, yaml.safe_load(CONFIG))
    yield
    kube.delete(f"{configs}/slo-controller-config")


def measure(kube: Any, node: str) -> None:
    path = collection("nodemetrics")
    if kube.request("GET", f"{path}/{node}").code == 404:
        body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": node}}
        kube.request("POST", path, body)
    use = {"resources": {"cpu": "500m", "memory": "1Gi"}}
    status = {
        "updateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nodeMetric": {"nodeUsage": use, "systemUsage": use},
    }
    kube.patch(f"{path}/{node}/status", {"status": status})


def test_the_config_map_lends_and_renders(kube: Any, configured: None, node: str) -> None:
    measure(kube, node)
    topologies = collection("noderesourcetopologies")
    cpu = {"cpuModel": "Intel Xeon Platinum 8369B CPU @ 2.90GHz", "hyperThreadEnabled": True, "turboEnabled": True}
    annotations = {"node.koordinator.sh/cpu-basic-info": json.dumps(cpu)}
    topology = {"metadata": {"name": node, "annotations": annotations}, "topologyPolicies": ["None"], "zones": []}
    kube.create(topologies, {"apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology", **topology})
    with managing(kube) as manager:
        written = kube.eventually(
            f"/api/v1/nodes/{node}",
            lambda found: "node.koordinator.sh/cpu-normalization-ratio" in (found["metadata"].get("annotations") or {}),
            20.0,
        )["metadata"]["annotations"]
        assert written["node.koordinator.sh/cpu-normalization-ratio"] == "1.20"
        assert json.loads(written["node.koordinator.sh/resource-amplification-ratio"]) == {"cpu": 1.2, "memory": 1.5}
        found = kube.eventually(
            f"/api/v1/nodes/{node}",
            lambda found: found["status"]["allocatable"].get("kubernetes.io/batch-cpu") == "2280",
            20.0,
        )
        slo = kube.eventually(f"{collection('nodeslos')}/{node}", lambda found: "spec" in found, 20.0)
        metric = f"{collection('nodemetrics')}/{node}"
        measuring = kube.eventually(metric, lambda found: "metricCollectPolicy" in found.get("spec", {}), 20.0)
        policy = measuring["spec"]["metricCollectPolicy"]
        assert manager.manager.config_errors == ()
    lent = json.loads(found["metadata"]["annotations"]["cotenant.io/lent"])["amounts"]["batch-cpu"]
    assert sum(amount for _, amount in lent["terms"]) == 2280  # (4000 - 40 % - 500) x 1.2
    assert slo["spec"]["resourceUsedThresholdWithBE"]["cpuSuppressThresholdPercent"] == 60
    assert slo["spec"]["cpuBurstStrategy"]["policy"] == "auto"
    taken = policies_of(read_node_slo(slo))  # what our agent makes of it
    assert taken.best_effort_cpu is not None
    assert taken.best_effort_cpu.suppress.threshold_percent == 60
    assert taken.best_effort_cpu.idle
    assert taken.memory is not None
    assert taken.memory.best_effort.throttling_percent == 80
    assert policy["reportIntervalSeconds"] == 60
    kube.request("DELETE", f"{topologies}/{node}")
    kube.request("DELETE", f"{collection('nodemetrics')}/{node}")
    kube.request("DELETE", f"{collection('nodeslos')}/{node}")


def test_a_quota_profile_makes_a_tree_as_large_as_its_nodes(kube: Any, kinds: None, namespace: str, node: str) -> None:
    kube.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"node-pool": namespace}}})
    profiles, quotas = (collection(plural, namespace) for plural in ("elasticquotaprofiles", "elasticquotas"))
    kube.create(profiles, yaml.safe_load(PROFILE.replace("NAME", namespace)), fieldValidation="Strict")
    prefix = "quota.scheduling.koordinator.sh/"
    with managing(kube):
        quota = kube.eventually(f"{quotas}/pool-root-quota", lambda found: "spec" in found, 20.0)
        profile = kube.eventually(
            f"{profiles}/pool-profile", lambda found: prefix + "tree-id" in found["metadata"]["labels"], 20.0
        )
        assert quota["spec"]["min"]["cpu"] == "3600m"
        labels = quota["metadata"]["labels"]
        assert labels[prefix + "tree-id"] == profile["metadata"]["labels"][prefix + "tree-id"]
        assert (labels[prefix + "is-root"], labels[prefix + "is-parent"], labels[prefix + "profile"]) == (
            "true",
            "true",
            "pool-profile",
        )
        assert json.loads(quota["metadata"]["annotations"][prefix + "total-resource"])["cpu"] == "3600m"
        grown = {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}}
        kube.patch(f"/api/v1/nodes/{node}/status", {"status": grown})
        kube.eventually(f"{quotas}/pool-root-quota", lambda found: found["spec"]["min"]["cpu"] == "7200m", 20.0)
        kube.patch(f"{profiles}/pool-profile", {"spec": {"resourceRatio": "2"}})
        kube.eventually(
            f"/api/v1/namespaces/{namespace}/events",
            lambda found: any(
                entry["reason"] == "ProfileNotInForce" and "resourceRatio" in entry["message"]
                for entry in found["items"]
            ),
            20.0,
        )
        assert kube.get(f"{quotas}/pool-root-quota")["spec"]["min"]["cpu"] == "7200m"


def test_the_services_pod_stays_and_the_executor_becomes_a_batch_pod(
    kube: Any, kinds: None, namespace: str, pods: str
) -> None:
    marked = {"metadata": {"labels": {"koordinator.sh/enable-colocation": "true"}}}
    kube.patch(f"/api/v1/namespaces/{namespace}", marked)
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    kube.create(classes, CLASS)
    profile = yaml.safe_load(EXAMPLE)
    kube.create(collection("clustercolocationprofiles"), profile, fieldValidation="Strict")
    try:
        with webhook(kube, namespace):
            nginx = kube.create(pods, yaml.safe_load(NGINX))
            spark = kube.create(pods, yaml.safe_load(SPARK))
    finally:
        kube.request("DELETE", f"{collection('clustercolocationprofiles')}/{profile['metadata']['name']}")
        kube.request("DELETE", f"{classes}/{CLASS['metadata']['name']}")  # type: ignore[index]
    assert nginx["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "4", "memory": "1Gi"}
    assert spark["spec"]["containers"][0]["resources"] == {
        "limits": {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "3456Mi"},
        "requests": {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "3456Mi"},
    }
    assert spark["status"]["qosClass"] == "BestEffort"
    annotation = json.loads(spark["metadata"]["annotations"]["node.koordinator.sh/extended-resource-spec"])
    assert annotation["containers"]["executor"]["requests"]["kubernetes.io/batch-memory"] == "3456Mi"
