"""Batch and mid amounts from specifications and annotations."""

from __future__ import annotations

import json

import msgspec
import pytest

from cotenant.drivers.kube.kinds.pod.on_node import NodePodObject, declared
from cotenant.drivers.kubelet.declared import DeclaredContainer, DeclaredPod, join
from cotenant.drivers.kubelet.extended import PodInfoAmounts, Role, pod_amounts, read_annotation
from cotenant.model.cluster.annotations import EXTENDED_SPEC
from cotenant.model.cluster.labels import Labels
from cotenant.model.machine.node_pod import NOT_EXTENDED, ExtendedAmounts, NodeContainer, NodePod

MIB = 1 << 20
FOUND = NodePod("u", "", "u", "besteffort/u", containers=(NodeContainer("aa", "besteffort/u/a", "a"),))


def batch(request: int, limit: int = 0, memory: int = 0, role: Role = Role.CONTAINER) -> PodInfoAmounts:
    return PodInfoAmounts(role, request, limit, memory, extended_cpu=True, extended_memory=memory > 0)


def test_a_pod_is_the_sum_of_its_containers_and_its_overhead() -> None:
    overhead = PodInfoAmounts(Role.CONTAINER, 100, 100, MIB, extended_cpu=True, extended_memory=True)
    found = pod_amounts([batch(500, 1000, 8 * MIB), batch(250, 250, MIB)], overhead)
    assert found == ExtendedAmounts(850, 1350, 10 * MIB)


def test_one_container_without_a_limit_lifts_the_pods() -> None:
    assert pod_amounts([batch(500, 1000, MIB), batch(250)]) == ExtendedAmounts(750, None, None)
    native = PodInfoAmounts(cpu_request_m=100)
    assert pod_amounts([batch(500, 1000, MIB), native]) == ExtendedAmounts(600, None, None)


def test_a_native_limit_lifts_the_pods_too_or_it_would_be_in_the_way_of_a_resize() -> None:
    native = PodInfoAmounts(cpu_request_m=100, cpu_limit_m=200, memory_limit_bytes=MIB)
    assert pod_amounts([batch(500, 1000, MIB), native]) == ExtendedAmounts(600, None, None)


def test_init_containers_run_alone_and_sidecars_beside_all_that_follow() -> None:
    first, side, second = (
        batch(300, 300, MIB, Role.INIT),
        batch(50, 50, MIB, Role.SIDECAR),
        batch(900, 900, MIB, Role.INIT),
    )
    assert pod_amounts([first, side, second, batch(400, 400, MIB)]) == ExtendedAmounts(950, 950, 2 * MIB)


@pytest.mark.parametrize(
    ("written", "limit"), [("100M", 100_000_000), ("100000001", 0), ("9223372036854775807", 0), ("-1", 0), ("0", 0)]
)
def test_a_limit_that_no_quota_states_is_none(written: str, limit: int) -> None:
    batch_cpu = {"limits": {"kubernetes.io/batch-cpu": written}}
    whole = {"containers": [{"name": "a", "resources": batch_cpu}]}
    assert of_api(whole).containers[0].cpu_limit_m == limit
    annotated = json.dumps({"containers": {"a": batch_cpu}})
    assert read_annotation(annotated)["a"].cpu_limit_m == limit


def test_a_native_pod_has_none() -> None:
    assert pod_amounts([PodInfoAmounts(cpu_request_m=100, cpu_limit_m=100, memory_limit_bytes=5)]) == NOT_EXTENDED


def of_api(spec: dict[str, object]) -> DeclaredPod:
    text = json.dumps({"metadata": {"uid": "u", "namespace": "jobs", "name": "sort"}, "spec": spec})
    return declared(msgspec.json.decode(text, type=NodePodObject))


def test_the_api_servers_pod() -> None:
    resources = {
        "requests": {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"},
        "limits": {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "64Mi"},
    }
    spec = {
        "containers": [{"name": "main", "resources": resources}],
        "initContainers": [
            {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"kubernetes.io/mid-cpu": "200"}}}
        ],
    }
    one = of_api(spec)
    assert one.extended == ExtendedAmounts(700, 1200, None)
    (side, main) = one.containers
    assert (side.name, side.cpu_limit_m, side.extended_cpu, side.extended_memory) == ("side", 200, True, False)
    assert (main.cpu_request_m, main.cpu_limit_m, main.memory_limit_bytes) == (500, 1000, 64 * MIB)
    assert main.extended_cpu
    assert main.extended_memory


def test_a_native_amount_beside_a_batch_amount_is_the_kubelets() -> None:
    one = of_api(
        {"containers": [{"name": "m", "resources": {"requests": {"cpu": "1", "kubernetes.io/batch-cpu": "5"}}}]}
    )
    assert not one.containers[0].extended_cpu
    assert one.extended == NOT_EXTENDED


ANNOTATION = json.dumps(
    {
        "containers": {
            "main": {"requests": {"kubernetes.io/batch-cpu": "500"}, "limits": {"kubernetes.io/batch-cpu": "500"}},
            "log": {
                "requests": {"kubernetes.io/batch-memory": "64Mi"},
                "limits": {"kubernetes.io/batch-memory": "64Mi"},
            },
        }
    }
)


def test_the_runtimes_annotation_until_the_api_server_answers() -> None:
    runtime = DeclaredPod(
        "u",
        "jobs",
        "sort",
        annotations=Labels.of({EXTENDED_SPEC: ANNOTATION}),
        containers=(DeclaredContainer("main", "a", cpu_request_m=2, cpu_limit_m=0),),
    )
    (pod,) = join([FOUND], [runtime])
    assert pod.containers == (NodeContainer("main", "besteffort/u/a", "a", 500, 500, extended_cpu=True),)
    assert pod.extended == ExtendedAmounts(500, None, None)  # a container without CPU limit, one without memory limit
    later = of_api({"containers": [{"name": "main", "resources": {"requests": {"kubernetes.io/batch-cpu": "700"}}}]})
    (pod,) = join([FOUND], [runtime, later])
    assert (pod.containers[0].cpu_request_m, pod.containers[0].cpu_limit_m) == (700, 0)
    assert pod.extended == ExtendedAmounts(700, None, None)


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", "{}", '{"containers": {"a": {"requests": {"kubernetes.io/batch-cpu": "much"}}}}', "\\ud800"],
)
def test_a_malformed_annotation_counts_as_absent(text: str | None) -> None:
    assert read_annotation(text) == {}
