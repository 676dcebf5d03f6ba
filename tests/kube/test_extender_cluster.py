"""The extender that reads a cluster: sizes, residents and quotas come from the API server, bindings go to it."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fakes.servers.extender_forms import by_name, pod
from tests.fakes.waiting import eventually

from cotenant.services.extender.extender_arguments import ExtenderSettings

from .test_extender import connected, post, running, told

NODES = "/api/v1/nodes"


@pytest.fixture
def nodes(kube: Any) -> Iterator[tuple[str, str]]:
    """A large and a small node of this case."""
    made = []
    for kind, cpu in (("large", "8"), ("small", "1")):
        name = f"{kind}-{uuid.uuid4().hex[:6]}"
        amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"conditions": [ready], "capacity": amounts, "allocatable": amounts}
        kube.create(NODES, {"metadata": {"name": name}, "status": status})
        kube.patch(f"{NODES}/{name}", {"spec": {"taints": None}})
        made.append(name)
    yield made[0], made[1]
    for name in made:
        kube.request("DELETE", f"{NODES}/{name}")


def wanted(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "c", "resources": resources}], **more},
    }


@pytest.mark.parametrize("profile", ["founding", "founding-ledger", "cotenant"])
@pytest.mark.slow
def test_sizes_and_residents_are_the_clusters(profile: str, kube: Any, pods: str, nodes: tuple[str, str]) -> None:
    large, small = nodes
    settings = ExtenderSettings(listen="127.0.0.1:0", profile=profile, cluster=True, kubeconfig=kube.kubeconfig)
    with running(settings) as port:
        connection = connected(port)

        def ready() -> bool:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            answer.read()
            return answer.status == 200

        def fit(cpu: str) -> list[str]:
            answer = json.loads(post(connection, "/filter", by_name([large, small], pod(cpu)))[1])
            failed = {**answer["FailedNodes"], **(answer.get("FailedAndUnresolvableNodes") or {})}
            assert set(answer["NodeNames"]) | set(failed) == {large, small}
            return list(answer["NodeNames"])

        eventually("it has listed the cluster", ready)
        assert fit("500m") == [large, small]
        assert fit("6") == [large]
        assert fit("9") == []
        kube.create(pods, wanted("resident", "3", nodeName=large))
        eventually("the resident counts", lambda: fit("6") == [])
        assert fit("1100m") == [large]
        kube.delete(f"{pods}/resident", gracePeriodSeconds="0")
        eventually("who has left counts no more", lambda: fit("6") == [large])
        kube.request("DELETE", f"{NODES}/{small}")
        connection.close()


@pytest.mark.slow
def test_it_binds_and_says_why_it_could_not(kube: Any, namespace: str, pods: str, nodes: tuple[str, str]) -> None:
    large, _ = nodes
    made = kube.create(pods, wanted("p", "1", schedulerName="nobody"))
    uid = made["metadata"]["uid"]
    settings = ExtenderSettings(listen="127.0.0.1:0", cluster=True, kubeconfig=kube.kubeconfig, bind=True)
    with running(settings) as port:
        connection = connected(port)

        def bind(uid: str) -> str:
            asked = {"PodName": "p", "PodNamespace": namespace, "PodUID": uid, "Node": large}
            status, body = post(connection, "/bind", json.dumps(asked).encode())
            assert status == 200
            return str(json.loads(body).get("Error", ""))

        assert "uid" in bind("another").lower()
        assert "nodeName" not in kube.get(f"{pods}/p")["spec"]
        assert bind(uid) == ""
        assert kube.get(f"{pods}/p")["spec"]["nodeName"] == large
        connection.close()


@pytest.mark.slow
def test_a_report_of_a_node_that_the_cluster_lacks_is_refused(kube: Any, nodes: tuple[str, str]) -> None:
    large, _ = nodes
    with running(ExtenderSettings(listen="127.0.0.1:0", cluster=True, kubeconfig=kube.kubeconfig)) as port:
        connection = connected(port)
        eventually("it knows its nodes", lambda: post(connection, "/metrics/report", told(large, 7.5))[0] == 204)
        status, said = post(connection, "/metrics/report", told("stranger", 0.1))
        assert (status, b"stranger" in said) == (404, True), said
        busy = json.loads(post(connection, "/filter", by_name([large], pod("2")))[1])
        assert busy["NodeNames"] == []
        connection.close()
