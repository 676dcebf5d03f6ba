"""One cluster for the cases of this folder; one of its nodes has just failed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.e2e.manifests import deployment, is_running
from tests.e2e.running import Client, Up, eventually

NODES = 20
GRACE_S = 12.0


@dataclass(frozen=True)
class Dead:
    """A node that has failed, and the pod that was on it."""

    node: str
    pod: Any
    pods: str
    since: float


@pytest.fixture(scope="package")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("cluster") / "up", "--nodes", NODES, "--node-grace-s", GRACE_S) as running:
        running.ready()
        yield running


@pytest.fixture(scope="package")
def api(up: Up) -> Client:
    return Client(up.kubeconfig)


@pytest.fixture(scope="package")
def dead(up: Up, api: Client) -> Dead:
    """A node fails at the start, so that its grace has passed by the time a case needs it. It is cordoned against
    the pods of other cases.
    """
    pods = api.namespace("dead")
    now = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
        for key in ("unreachable", "not-ready")
    ]
    api.create("/apis/apps/v1/namespaces/dead/deployments", deployment("doomed", 1, tolerations=now))
    victim = eventually("the pod runs", lambda: [p for p in api.items(pods) if is_running(p)])[0]
    name = victim["spec"]["nodeName"]
    api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    eventually("the scheduler has heard of it", lambda: up.heard_of_cordon(name))
    api.patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {"cotenant.io/fail": "true"}}})
    return Dead(name, victim, pods, time.monotonic())


@pytest.fixture
def namespace(api: Client, dead: Dead, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for the case, once the dead node is cordoned. It ends with the case, so that no other case has to
    evict what is left of this one.
    """
    name = request.node.name.replace("_", "-").partition("[")[0][:50].rstrip("-")
    api.namespace(name)
    yield name
    api.delete(f"/api/v1/namespaces/{name}")
