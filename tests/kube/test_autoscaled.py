"""A RightSizing beside the HorizontalPodAutoscaler of a real kube-controller-manager, which goes by metrics.k8s.io as
this test serves it. Nodes and kubelets are the test's own: what they would write, it writes.

Needs a real API server of this machine with a controller manager (COTENANT_TEST_KUBECONFIG), and no metrics server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.servers import pod_metrics
from tests.fakes.waiting import soon
from tests.kube import definitions
from tests.kube.conftest import REAL, Kube

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import load_access
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.manager.manager_process import ManagerOptions, ManagerProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not REAL, reason="COTENANT_TEST_KUBECONFIG names no server"),
]
WITHIN_S = 60.0
USED = {"cpu": "50m", "memory": "40Mi"}  # of every pod
ASKED = {"cpu": "300m", "memory": "200Mi"}
SIZINGS = "/apis/slo.cotenant.io/v1alpha1/namespaces/{}/rightsizings"
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
Obj = dict[str, Any]


class Scaled:
    """A Deployment of two pods, its node, and who reports of them."""

    def __init__(self, kube: Kube, namespace: str, node: str) -> None:
        self.kube, self.namespace, self.node = kube, namespace, node
        self.base = f"/api/v1/namespaces/{namespace}"
        kube.request("POST", f"{self.base}/serviceaccounts", {"metadata": {"name": "default"}})
        container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": ASKED}}
        spec = {"nodeName": node, "automountServiceAccountToken": False, "containers": [container]}
        template = {"metadata": {"labels": {"app": "wide"}}, "spec": spec}
        selector = {"matchLabels": {"app": "wide"}}
        self.deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        self.scalers = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
        self.sizing = SIZINGS.format(namespace) + "/wide"
        kube.create(
            self.deployments,
            {"metadata": {"name": "wide"}, "spec": {"replicas": 2, "selector": selector, "template": template}},
        )

    def size(self, proof: str) -> None:
        """A RightSizing of it that acts."""
        spec = {
            "workload": {"kind": "Deployment", "name": "wide"},
            "mode": "act",
            "minHistory": "2s",
            "proof": proof,
            "patience": "10m",
        }
        body = {"apiVersion": "slo.cotenant.io/v1alpha1", "kind": "RightSizing", "metadata": {"name": "wide"}}
        self.kube.create(self.sizing.removesuffix("/wide"), body | {"spec": spec})

    def scale(self, name: str, *metrics: Obj) -> None:
        """An autoscaler that keeps two replicas."""
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "wide"}
        spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 2, "metrics": list(metrics)}
        self.kube.create(self.scalers, {"metadata": {"name": name}, "spec": spec})

    def pods(self) -> list[Obj]:
        found: list[Obj] = self.kube.get(f"{self.base}/pods", labelSelector="app=wide")["items"]
        return found

    def requests(self) -> list[Obj]:
        return [pod["spec"]["containers"][0]["resources"]["requests"] for pod in self.pods()]

    def live(self) -> None:
        """What a kubelet and an agent write: that the node lives, its pods run at the size that is wished for, and
        what they use.
        """
        lease = {
            "holderIdentity": self.node,
            "leaseDurationSeconds": 40,
            "renewTime": self.kube.now()[:-1] + ".000000Z",
        }
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        self.kube.request("POST", leases, {"metadata": {"name": self.node}, "spec": lease})
        self.kube.request(
            "PATCH", f"{leases}/{self.node}", {"spec": lease}, content_type="application/merge-patch+json"
        )
        pods = self.pods()
        for pod in pods:
            self._runs(pod)
        measured = [
            {"name": pod["metadata"]["name"], "namespace": self.namespace, "podUsage": {"resources": USED}}
            for pod in pods
        ]
        body: Obj = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": self.node}}
        self.kube.request("POST", METRICS, body)
        of_node = {"nodeUsage": {"resources": USED}}
        status = {"updateTime": self.kube.now(), "nodeMetric": of_node, "podsMetric": measured}
        self.kube.patch(f"{METRICS}/{self.node}/status", {"status": status})

    def _runs(self, pod: Obj) -> None:
        wished = pod["spec"]["containers"][0]["resources"]
        (has,) = pod["status"].get("containerStatuses") or [{}]
        ready = [c for c in pod["status"].get("conditions", ()) if c["type"] == "Ready" and c["status"] == "True"]
        if has.get("resources") == wished and ready:
            return
        now = self.kube.now()
        state = {"running": {"startedAt": now}}
        container = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": state,
                     "started": True, "resources": wished, "allocatedResources": wished["requests"]}  # fmt: skip
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        status = {"phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": [container]}
        path = f"{self.base}/pods/{pod['metadata']['name']}/status"
        self.kube.request("PATCH", path, {"status": status}, content_type="application/merge-patch+json")

    async def until(self, what: str, found: Callable[[], Any]) -> Any:
        def look() -> Any:
            self.live()
            return found()

        return await soon(what, look, 5 * WITHIN_S)

    def status(self) -> Obj:
        found: Obj = self.kube.get(self.sizing).get("status", {})
        return found

    def receipt(self) -> Obj | None:
        found: Obj | None = next(iter(self.status().get("receipts", ())), None)
        return found

    def percent(self, name: str) -> int | None:
        """CPU in percent of requests, as the autoscaler last found it."""
        for metric in self.kube.get(f"{self.scalers}/{name}").get("status", {}).get("currentMetrics") or ():
            found = metric.get("resource", {}).get("current", {}).get("averageUtilization")
            if found is not None:
                return int(found)
        return None


def by_cpu(percent: int = 60) -> Obj:
    return _resource("cpu", percent)


def _resource(name: str, percent: int) -> Obj:
    return {
        "type": "Resource",
        "resource": {"name": name, "target": {"type": "Utilization", "averageUtilization": percent}},
    }


def by_queue() -> Obj:
    """As KEDA writes it for a ScaledObject with a trigger that is no resource."""
    selector = {"matchLabels": {"scaledobject.keda.sh/name": "wide"}}
    metric = {"name": "s0-rabbitmq-orders", "selector": selector}
    return {
        "type": "External",
        "external": {"metric": metric, "target": {"type": "AverageValue", "averageValue": "20"}},
    }


@pytest.fixture
def kube() -> Kube:
    return Kube(Path(REAL), is_local=False)


@pytest.fixture
def scaled(kube: Kube, namespace: str, node: str, tmp_path: Path) -> Iterator[Scaled]:
    if kube.request("GET", f"{pod_metrics.APISERVICES}/{pod_metrics.NAME}").code != 404:
        pytest.skip("the server has metrics.k8s.io already")
    with definitions.installed(kube):
        made = Scaled(kube, namespace, node)

        def used(asked: str) -> dict[str, dict[str, str]]:
            """Over a connection of its own: asked from the threads of the metrics."""
            pods = Kube(Path(REAL), is_local=False).get(f"/api/v1/namespaces/{asked}/pods", labelSelector="app=wide")
            return {pod["metadata"]["name"]: USED for pod in pods["items"]}

        try:
            with pod_metrics.serving(tmp_path / "tls", used) as port:
                pod_metrics.registered(kube, namespace, port)
                yield made
        finally:
            kube.request("DELETE", f"{pod_metrics.APISERVICES}/{pod_metrics.NAME}")
            kube.request("DELETE", f"{METRICS}/{node}")
            kube.request("DELETE", f"{made.deployments}/wide", propagationPolicy="Background")
            for pod in made.pods():
                path = f"{made.base}/pods/{pod['metadata']['name']}"
                kube.request("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})


@asynccontextmanager
async def managing() -> AsyncIterator[None]:
    options = ManagerOptions(listen=Address("127.0.0.1", 0), right_sizing=True)
    process = ManagerProcess(load_access(REAL), options, "test", lambda client: Alone())
    stop = asyncio.Event()
    running = asyncio.create_task(process.run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        async with managing():
            await scenario()

    asyncio.run(all_of_it())


def test_what_an_autoscaler_goes_by_keeps_its_request_and_the_rest_is_sized(scaled: Scaled) -> None:
    scaled.scale("wide", by_cpu())
    scaled.size("2s")

    async def scenario() -> None:
        before = await scaled.until("the autoscaler knows what is used", lambda: scaled.percent("wide"))
        assert before == 16  # 50m of 300m
        receipt = await scaled.until("a change is proven", scaled.receipt)
        assert receipt["outcome"] == "done", receipt
        assert receipt["after"].get("cpuRequestM") == receipt["before"].get("cpuRequestM") == 300
        assert receipt["after"]["memoryRequestBytes"] < receipt["before"]["memoryRequestBytes"]
        assert {asked["cpu"] for asked in scaled.requests()} == {"300m"}
        assert scaled.percent("wide") == before

    run(scenario)


def test_one_that_comes_in_the_middle_of_a_change_ends_it(scaled: Scaled) -> None:
    scaled.size("10m")

    async def scenario() -> None:
        await scaled.until("a pod is smaller", lambda: any(asked["cpu"] != "300m" for asked in scaled.requests()))
        scaled.scale("wide", by_cpu())
        receipt = await scaled.until("the change is given up", scaled.receipt)
        assert receipt["outcome"] == "givenUp", receipt
        assert "HorizontalPodAutoscaler wide scales by it" in receipt["why"]
        await scaled.until("all have what they had", lambda: {asked["cpu"] for asked in scaled.requests()} == {"300m"})
        assert await scaled.until("the autoscaler goes by that", lambda: scaled.percent("wide") == 16)

    run(scenario)


def test_one_by_a_queue_holds_nothing_and_one_that_is_gone_no_more(scaled: Scaled) -> None:
    scaled.scale("keda-hpa-wide", by_queue())
    scaled.scale("wide", by_cpu(), _resource("memory", 90))
    scaled.size("2s")

    async def scenario() -> None:
        await scaled.until("both amounts are held", lambda: "scales by it" in str(scaled.status()))
        assert {asked["cpu"] for asked in scaled.requests()} == {"300m"}
        scaled.kube.delete(f"{scaled.scalers}/wide")
        receipt = await scaled.until("a change is proven", scaled.receipt)
        assert receipt["outcome"] == "done", receipt
        assert receipt["after"]["cpuRequestM"] < 300

    run(scenario)
