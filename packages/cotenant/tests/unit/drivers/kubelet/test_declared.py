"""Declared attributes merged into found pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.drivers.kubelet.declared import (
    RESOURCE_STATUS,
    Belief,
    DeclaredContainer,
    DeclaredPod,
    join,
    merged,
    objective_us,
)
from cotenant.model.cluster.annotations import OBJECTIVE_P99_MS, TENANT
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS, SUB_PRIORITY, Labels
from cotenant.model.cluster.qos import KubernetesQoS, PriorityClass, QoSClass
from cotenant.model.machine.node_pod import NodeContainer, NodePod, NodePodPhase

FOUND = NodePod(
    "u",
    "",
    "u",
    "kubepods/burstable/podu",
    qos=QoSClass.LS,
    containers=(NodeContainer("aaaa", "kubepods/burstable/podu/a", "a", cpu_request_m=488, cpu_limit_m=1500),),
)


def test_labels_and_annotations_give_class_priority_tenant_and_objective() -> None:
    said = DeclaredPod(
        "u",
        "shop",
        "cart",
        Labels.of({QOS_CLASS: "BE", PRIORITY_CLASS: "koord-batch", SUB_PRIORITY: "77"}),
        Labels.of({TENANT: "red", OBJECTIVE_P99_MS: "12.5"}),
    )
    (pod,) = join([FOUND], [said])
    assert (pod.key, pod.qos, pod.priority_class, pod.priority) == ("shop/cart", QoSClass.BE, PriorityClass.BATCH, 5500)
    assert (pod.sub_priority, pod.tenant, pod.objective_p99_us) == (77, "red", 12_500)
    assert pod.group == FOUND.group


def test_a_priority_confirms_a_service_and_a_label_does_not() -> None:
    """spec.priority is written by admission, labels by whoever creates the pod."""
    labels = Labels.of({QOS_CLASS: "LS", PRIORITY_CLASS: "koord-prod"})
    said = DeclaredPod("u", "shop", "cart", labels, kubernetes_qos=KubernetesQoS.BEST_EFFORT)
    claimed = merged(FOUND, said)
    assert (claimed.priority, claimed.is_confirmed_service, claimed.is_service_by_label_only) == (9500, False, True)
    for declared, confirmed in (
        (replace(said, priority=0), False),
        (replace(said, priority=8999), False),
        (replace(said, priority=9000), True),
        (replace(said, priority=2_000_000_000), True),
        (replace(said, qos=QoSClass.LS), True),  # a file of the node says so
        (replace(said, qos=QoSClass.BE), False),
    ):
        found = merged(FOUND, declared)
        assert (found.is_confirmed_service, found.is_service_by_label_only) == (confirmed, not confirmed)
    assert merged(
        claimed, replace(said, priority=9500)
    ).is_confirmed_service  # the API server's word beside a runtime's
    assert merged(merged(FOUND, replace(said, priority=9500)), said).is_confirmed_service


def test_runtime_and_api_together_and_the_later_wins() -> None:
    runtime = DeclaredPod("u", "shop", "cart", containers=(DeclaredContainer("web", "a", memory_limit_bytes=5),))
    api = DeclaredPod(
        "u",
        "shop",
        "cart",
        priority=9100,
        kubernetes_qos=KubernetesQoS.GUARANTEED,
        containers=(DeclaredContainer("web", cpu_request_m=500, memory_request_bytes=7),),
        phase=NodePodPhase.TERMINATING,
    )
    (pod,) = join([FOUND], [runtime, api])
    (container,) = pod.containers
    assert container == NodeContainer("web", "kubepods/burstable/podu/a", "a", 500, 1500, 7, 5)
    assert (pod.priority, pod.priority_class, pod.qos) == (9100, PriorityClass.PROD, QoSClass.LSR)
    assert (pod.tenant, pod.phase) == ("shop", NodePodPhase.TERMINATING)


def test_a_pod_without_a_group_is_left_out_and_an_undeclared_one_stays() -> None:
    assert join([FOUND], [DeclaredPod("other", "shop", "cart")]) == (FOUND,)


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        (DeclaredPod("u", "shop", "cart"), True),
        (DeclaredPod("u", "", "cart"), False),
        (DeclaredPod("u", "shop"), False),
        (DeclaredPod("other", "shop", "cart"), False),
    ],
)
def test_a_pod_of_the_tree_is_named_by_namespace_and_name(declared: DeclaredPod, named: bool) -> None:
    found = replace(FOUND, namespace="", name="u", is_named=False)
    (pod,) = join([found], [declared])
    assert pod.is_named is named
    assert join([replace(pod, is_named=True)], [DeclaredPod("u")])[0].is_named  # an earlier source named it


def test_malformed_labels_and_annotations_count_as_absent() -> None:
    labels = Labels.of({QOS_CLASS: "best", PRIORITY_CLASS: "high", SUB_PRIORITY: "first"})
    annotations = Labels.of({OBJECTIVE_P99_MS: "fast", RESOURCE_STATUS: "{"})
    (pod,) = join([FOUND], [DeclaredPod("u", "shop", "cart", labels, annotations)])
    assert (pod.qos, pod.priority_class, pod.sub_priority) == (QoSClass.LS, PriorityClass.PROD, 0)
    assert (pod.objective_p99_us, pod.own_cpus) == (None, ())


def test_own_cpus_are_for_classes_that_get_them() -> None:
    annotations = Labels.of({RESOURCE_STATUS: '{"cpuset": "2-3,6", "numaNodeResources": []}'})
    for qos, cpus in (("LSR", (2, 3, 6)), ("LSE", (2, 3, 6)), ("LS", ()), ("BE", ())):
        said = DeclaredPod("u", labels=Labels.of({QOS_CLASS: qos}), annotations=annotations, cpu_request_m=3000)
        (pod,) = join([FOUND], [said])
        assert pod.own_cpus == cpus


def test_who_requests_more_than_its_cpus_by_now_has_outgrown_them_and_amounts_of_groups_do_not_say_so() -> None:
    annotations = Labels.of({RESOURCE_STATUS: '{"cpuset": "2-3"}'})
    labels = Labels.of({QOS_CLASS: "LSR"})
    said = DeclaredPod("u", labels=labels, annotations=annotations, cpu_request_m=2000)
    for cpu_m, outgrown in ((2000, False), (2500, True), (500, False)):
        (pod,) = join([FOUND], [said, replace(said, cpu_request_m=cpu_m)], Belief(checks_requests=False))
        assert (pod.own_cpus, pod.has_outgrown_own_cpus) == ((2, 3), outgrown)
    rounded = replace(FOUND, containers=(NodeContainer("a", "kubepods/podu/a", cpu_request_m=2536),))
    (pod,) = join([rounded], [replace(said, cpu_request_m=None)], Belief(checks_requests=False))
    assert (pod.own_cpus, pod.has_outgrown_own_cpus) == ((2, 3), False)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(None, None), ("10", 10_000), ("0.25", 250), ("1.2345", 1234), ("0", None), ("0.0001", None), ("-1", None),
        ("1e3", None), ("", None), ("9" * 400, None), ("١", None)],
)  # fmt: skip
def test_objectives(text: str | None, wanted: int | None) -> None:
    assert objective_us(text) == wanted


@pytest.mark.parametrize(
    ("owner", "labels", "expected"),
    [
        ("Job hogs", {}, "Job shop/hogs"),
        ("", {"job-name": "hogs"}, ""),  # any pod may carry the label
        ("ReplicaSet web-1", {"batch.kubernetes.io/job-name": "hogs"}, "ReplicaSet shop/web-1"),
        ("", {"app": "web"}, ""),
    ],
)
def test_a_pod_belongs_to_its_controller_whatever_its_labels_say(
    owner: str, labels: dict[str, str], expected: str
) -> None:
    pod = NodePod("u", "", "", "kubepods/podu")
    declared = DeclaredPod("u", "shop", "hogs-1", Labels.of(labels), owner=owner)
    assert merged(pod, declared).workload == expected


@pytest.mark.parametrize(
    ("priority", "annotations", "labels", "expected"),
    [
        (2_000_001_000, {}, {}, QoSClass.SYSTEM),
        (2_000_000_000, {}, {}, QoSClass.SYSTEM),
        (None, {"kubernetes.io/config.mirror": "x"}, {}, QoSClass.SYSTEM),
        (2_000_001_000, {}, {QOS_CLASS: "BE"}, QoSClass.BE),
        (2_000_001_000, {}, {QOS_CLASS: "SYSTEM"}, QoSClass.SYSTEM),
        (None, {"kubernetes.io/config.mirror": "x"}, {QOS_CLASS: "SYSTEM"}, QoSClass.SYSTEM),
        (
            1_000_000_000,
            {},
            {QOS_CLASS: "SYSTEM"},
            QoSClass.LS,
        ),  # it would keep the CPUs that others have to themselves
        (None, {}, {QOS_CLASS: "SYSTEM"}, QoSClass.LS),
        (0, {}, {}, QoSClass.BE),
        (0, {"kubernetes.io/config.hash": "forged", "kubernetes.io/config.source": "file"}, {}, QoSClass.BE),
    ],
)
def test_who_is_of_the_class_system_is_the_nodes_to_say_and_no_best_effort_work_for_want_of_requests(
    priority: int | None, annotations: dict[str, str], labels: dict[str, str], expected: QoSClass
) -> None:
    said = DeclaredPod(
        "u",
        "kube-system",
        "kube-proxy",
        Labels.of(labels),
        Labels.of(annotations),
        priority,
        kubernetes_qos=KubernetesQoS.BEST_EFFORT,
    )
    found = merged(NodePod("u", "", "", "kubepods/besteffort/podu"), said)
    assert found.qos is expected
    assert ("class SYSTEM is for pods that the node needs" in found.unbelieved) == (expected is QoSClass.LS)
