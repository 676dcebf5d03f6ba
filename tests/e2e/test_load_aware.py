"""`cotenant up --load-aware`: a hot node is skipped; a pod without a node reports why, and is placed once a node
has cooled down.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from tests.e2e.running import Client, Up, eventually, metric

pytestmark = pytest.mark.slow

METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("loads")
    lasts = "nodeMetricExpirationSeconds: 86400\n"  # what the case says holds for as long as it takes
    (folder / "load.yaml").write_text(f"usageThresholds: {{cpu: 65, memory: 95}}\n{lasts}")
    # The cases say what nodes use. No simulated nodes, whose own measurements would be written over that.
    with Up(folder / "up", "--nodes", 0, "--ephemeral", "--load-aware", folder / "load.yaml") as running:
        running.ready()
        for number in range(3):
            Client(running.kubeconfig).create(NODES, node(f"node-{number}"))
        yield running


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    # No kubelet renews it, so the last heartbeat is one that never grows old.
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2099-01-01T00:00:00Z"}
    return {
        "metadata": {"name": name},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def tell(api: Client, node: Any, share: float) -> None:
    """Its agent says that so much of its CPU is in use now."""
    name, cores = node["metadata"]["name"], float(node["status"]["allocatable"]["cpu"])
    status = {
        "updateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nodeMetric": {"nodeUsage": {"resources": {"cpu": f"{cores * share:.3f}", "memory": "1Gi"}}},
    }
    if api.exchange("GET", f"{METRICS}/{name}")[0] == 404:
        body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": name}}
        api.create(METRICS, body)
    api.patch(f"{METRICS}/{name}/status", {"status": status})


def run_pod(api: Client, name: str) -> str:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    api.create(PODS, {"metadata": {"name": name}, "spec": {"schedulerName": "cotenant", "containers": [container]}})
    return f"{PODS}/{name}"


def condition(pod: Any) -> Any:
    return next((c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"), {})


def test_a_hot_node_is_skipped_and_a_pending_pod_is_placed_once_a_node_has_cooled_down(up: Up) -> None:
    api = Client(up.kubeconfig)
    nodes = eventually("the nodes are registered", lambda: found if len(found := api.items(NODES)) == 3 else [])
    for node, share in zip(nodes, (0.9, 0.2, 0.9), strict=True):
        tell(api, node, share)
    eventually(
        "the scheduler has heard of all",
        lambda: metric(up.page("scheduler"), 'cotenant_scheduler_node_loads{source="NodeMetric"}') == 3,
    )
    cool = nodes[1]["metadata"]["name"]
    first = run_pod(api, "first")
    assert eventually("it is placed", lambda: api.get(first)["spec"].get("nodeName")) == cool

    tell(api, nodes[1], 0.8)
    # The same gauge cannot tell one metric from the next: the second pod may still find the old one, so it is asked
    # what the node is said to use.
    second = eventually("a pod waits for load", lambda: _waits(api))
    message = condition(api.get(second))["message"]
    assert "node(s) would use more CPU than the load threshold allows" in message
    assert "threshold 65 %" in message

    tell(api, nodes[1], 0.1)
    assert eventually("it is placed", lambda: api.get(second)["spec"].get("nodeName"), 60.0) == cool


_names = (f"second-{i}" for i in count())


def _waits(api: Client) -> str:
    """A new pod's path if it is told to wait, empty if it was placed."""
    path = run_pod(api, next(_names))
    pod = eventually("it has a condition", lambda: found if condition(found := api.get(path)) else None)
    return "" if pod["spec"].get("nodeName") else path
