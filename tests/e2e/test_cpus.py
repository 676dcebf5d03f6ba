"""Exclusive CPUs through the real processes: a pod's annotation has its cpuset, and a restarted scheduler knows the
allocations.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.manifests import pod
from tests.e2e.running import Client, Up, eventually

pytestmark = pytest.mark.slow
STATUS = "scheduling.koordinator.sh/resource-status"


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("cpus") / "up", "--nodes", 2, "--cpu-topology", "2x8x2", "--ephemeral") as running:
        running.ready()
        yield running


def own(name: str, cpu: str, **annotations: str) -> dict[str, Any]:
    made = pod(name, cpu)
    made["metadata"]["labels"]["koordinator.sh/qosClass"] = "LSR"
    made["metadata"]["annotations"] = {f"scheduling.koordinator.sh/{key}": text for key, text in annotations.items()}
    return made


def cpus_of(api: Client, path: str, within_s: float = 30.0) -> set[int]:
    def held() -> str:
        return str(api.get(path)["metadata"].get("annotations", {}).get(STATUS, ""))

    text = json.loads(eventually(f"{path} has CPUs", held, within_s))["cpuset"]
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def test_pods_get_exclusive_cpus_and_keep_them_over_a_restart(telling: Up) -> None:
    api = Client(telling.kubeconfig)
    pods = api.namespace("own-cpus")
    told = api.items("/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies")
    assert len(told) == 2
    for name in ("one", "two", "three", "four"):
        api.create(pods, own(name, "14"))
    held: dict[str, list[set[int]]] = {}
    for name in ("one", "two", "three", "four"):
        cpus = cpus_of(api, f"{pods}/{name}")
        assert len(cpus) == 14
        # whole cores of one socket: CPU n and n + 16 are threads of core n
        assert {cpu % 16 for cpu in cpus} in ({*range(7)}, {*range(8, 15)})
        assert api.get(f"{pods}/{name}")["metadata"]["annotations"]["cotenant.io/seal"]
        held.setdefault(api.get(f"{pods}/{name}")["spec"]["nodeName"], []).append(cpus)
    for here in held.values():
        assert len(set.union(*here)) == sum(map(len, here)) == 28
    api.create(pods, own("waits", "6", **{"resource-spec": json.dumps({"requiredCPUBindPolicy": "FullPCPUs"})}))

    def why() -> str:
        conditions = api.get(f"{pods}/waits").get("status", {}).get("conditions", [])
        return next(
            (str(condition.get("message", "")) for condition in conditions if condition["type"] == "PodScheduled"), ""
        )

    message = eventually("the reason is reported", why)
    assert "2 Insufficient cpu" in message or "2 not enough free CPUs" in message
    os.kill(telling.children()["scheduler"], signal.SIGKILL)
    api.delete(f"{pods}/one")
    got = cpus_of(api, f"{pods}/waits", 120.0)  # by a scheduler that is started anew
    where = api.get(f"{pods}/waits")["spec"]["nodeName"]
    others = [
        cpus_of(api, f"{pods}/{name}")
        for name in ("two", "three", "four")
        if api.get(f"{pods}/{name}")["spec"]["nodeName"] == where
    ]
    assert len(got) == 6
    assert not any(got & group for group in others)
