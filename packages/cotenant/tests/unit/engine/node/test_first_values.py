"""First values, by table: what a container starts with, what it does not, and that leases take over without a step."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cotenant.drivers.kubelet.declared import Belief, DeclaredPod, merged
from cotenant.engine.node.first_values import (
    FirstValueFacts,
    FirstValueSettings,
    StartingContainer,
    first_values,
    sentences,
    updated_values,
    workload_of,
)
from cotenant.model.cluster.annotations import EXTENDED_SPEC
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.machine.counters import GpuCounters
from cotenant.model.machine.first_values import NOTHING, FirstValueRefusal, FirstValues, LeftOut
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.knob_values import CpuMax
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.policy.nodeqos.batch_resources import BatchResourcesConfig, desired

GROUP = "kubepods/besteffort/pod1"
WORK = StartingContainer("work", id="4f2a9c00ffeeddcc", image="registry.example/team/cart:1.2@sha256:00")
BATCH = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "64Mi"}
USUAL = FirstValueSettings()
BELIEVING = FirstValueSettings(believed=frozenset({"shop"}), cpus=True, devices=True)
GPUS = tuple(GpuCounters(index, f"GPU-{index}", "H100", index != 2, 0, 1, 0) for index in range(3))
OWN = json.dumps({"cpuset": "2-3"})


def pod(
    qos: str = "",
    *,
    spec: dict[str, dict[str, str]] | None = None,
    annotations: dict[str, str] | None = None,
    kubernetes: KubernetesQoS = KubernetesQoS.BURSTABLE,
    containers: tuple[str, ...] = ("work",),
    name: str = "cart-1",
    labels: dict[str, str] | None = None,
) -> NodePod:
    notes = dict(annotations or {})
    if spec is not None:
        notes[EXTENDED_SPEC] = json.dumps({"containers": {"work": spec}})
    given = {**({"koordinator.sh/qosClass": qos} if qos else {}), **(labels or {})}
    found = NodePod(
        "u1",
        "shop",
        name,
        GROUP,
        kubernetes_qos=kubernetes,
        containers=tuple(NodeContainer(container, "") for container in containers),
    )
    declared = DeclaredPod("u1", labels=Labels.of(given), annotations=Labels.of(notes))
    return merged(found, declared, Belief(checks_requests=False))


def batch(cpu: str = "1500", memory: str = "64Mi") -> dict[str, dict[str, str]]:
    return {
        name: {"kubernetes.io/batch-cpu": cpu, "kubernetes.io/batch-memory": memory} for name in ("requests", "limits")
    }


def limits(values: FirstValues) -> tuple[int | None, CpuMax | None, int | None]:
    return values.weight, values.quota, values.memory_bytes


@pytest.mark.parametrize(
    ("what", "given", "wanted"),
    [
        ("a service", pod("LS"), (None, None, None)),
        ("a pod without a class", pod(), (None, None, None)),
        ("best effort by its label", pod("BE"), (1, None, None)),
        ("best effort by its kubelet's class", pod(kubernetes=KubernetesQoS.BEST_EFFORT), (1, None, None)),
        ("batch resources", pod("BE", spec=batch()), (150, CpuMax(150_000), 64 << 20)),
        ("batch requests alone", pod("BE", spec={"requests": BATCH}), (150, None, None)),
        ("batch memory alone", pod("BE", spec={"limits": {"kubernetes.io/batch-memory": "64Mi"}}), (1, None, 64 << 20)),
        (
            "mid resources of a service",
            pod("LS", spec={"limits": {"kubernetes.io/batch-cpu": "500"}}),
            (50, CpuMax(50_000), None),
        ),
        ("an annotation that cannot be read", pod("BE", annotations={EXTENDED_SPEC: "{"}), (1, None, None)),
    ],
)
def test_weight_quota_and_memory(what: str, given: NodePod, wanted: tuple[int, CpuMax, int]) -> None:
    assert limits(first_values(given, WORK, FirstValueFacts(), USUAL)) == wanted, what


@pytest.mark.parametrize("ratio", [1000, 1300])
@pytest.mark.parametrize("config", [BatchResourcesConfig(), BatchResourcesConfig(period_us=50_000, memory=False)])
def test_leases_take_over_without_a_step(ratio: int, config: BatchResourcesConfig) -> None:
    given = pod("BE", spec=batch("1234", "100000001"))
    values = first_values(given, WORK, FirstValueFacts(cpu_ratio_milli=ratio), replace(USUAL, batch=config))
    at = f"{GROUP}/4f2a"
    later = replace(given, containers=(replace(given.containers[0], group=at),))
    leases = {wish.target.knob: wish.value for wish in desired(later, config, ratio) if wish.target.group == at}
    first = {Knob.CPU_WEIGHT: values.weight, Knob.CPU_MAX: values.quota, Knob.MEMORY_MAX: values.memory_bytes}
    assert {knob: str(value) for knob, value in first.items() if value is not None} == leases


def test_containers_of_a_pod_have_values_of_their_own() -> None:
    given = pod("BE", spec=batch(), containers=("work", "helper"))
    assert limits(first_values(given, StartingContainer("helper"), FirstValueFacts(), USUAL)) == (1, None, None)
    assert limits(first_values(given, WORK, FirstValueFacts(), USUAL)) == (150, CpuMax(150_000), 64 << 20)


def test_what_is_switched_off() -> None:
    off = replace(USUAL, best_effort=False, batch=None)
    assert first_values(pod("BE", spec=batch()), WORK, FirstValueFacts(), off) == NOTHING


@pytest.mark.parametrize(
    ("cpu", "memory", "ceiling", "wanted", "cause"),
    [
        ("1500", "64Mi", None, (150, CpuMax(150_000), 64 << 20), None),
        ("1500", "64Mi", 800, (150, CpuMax(80_000), 64 << 20), None),  # v1 refuses more than the groups above have
        ("1500", "64Mi", 2000, (150, CpuMax(150_000), 64 << 20), None),
        ("1500", "64Mi", 0, (150, None, 64 << 20), FirstValueRefusal.OUTSIDE),
        (
            "99",
            "64Mi",
            None,
            (10, None, 64 << 20),
            FirstValueRefusal.TOO_SMALL,
        ),  # the runtime's own start would take seconds
        ("1500", "8Mi", None, (150, CpuMax(150_000), None), FirstValueRefusal.TOO_SMALL),
    ],
)
def test_a_start_is_not_made_slow_or_refused(
    cpu: str, memory: str, ceiling: int | None, wanted: tuple[int, CpuMax, int], cause: FirstValueRefusal | None
) -> None:
    values = first_values(
        pod("BE", spec=batch(cpu, memory)), replace(WORK, ceiling_m=ceiling), FirstValueFacts(), USUAL
    )
    assert limits(values) == wanted
    assert [left_out.cause for left_out in values.left_out] == ([] if cause is None else [cause])


def test_an_update_keeps_batch_amounts_and_leaves_native_ones_to_the_kubelet() -> None:
    assert updated_values(pod("BE"), WORK, FirstValueFacts(), USUAL) == NOTHING
    everything = replace(BELIEVING, names=True, cache_class="BE")
    small = updated_values(pod("BE", spec=batch("50")), WORK, FirstValueFacts(cpu_manager="none"), everything)
    assert limits(small) == (5, CpuMax(5_000), 64 << 20)  # it has started: nothing is too small
    assert replace(small, weight=None, quota=None, memory_bytes=None, reasons=()) == NOTHING


@pytest.mark.parametrize(
    ("settings", "manager", "allowed", "cpus", "cause"),
    [
        (BELIEVING, "none", (0, 1, 2, 3), (2, 3), None),
        (USUAL, "none", (0, 1, 2, 3), (), None),
        (replace(BELIEVING, believed=frozenset({"*"})), "none", (2, 3), (2, 3), None),
        (replace(BELIEVING, believed=frozenset({"other"})), "none", (0, 1, 2, 3), (), FirstValueRefusal.UNTRUSTED),
        (BELIEVING, "static", (0, 1, 2, 3), (), FirstValueRefusal.OTHER_OWNER),
        (BELIEVING, "", (0, 1, 2, 3), (), FirstValueRefusal.OTHER_OWNER),
        (BELIEVING, "none", (0, 1, 2), (), FirstValueRefusal.OUTSIDE),
        (BELIEVING, "none", None, (), FirstValueRefusal.OUTSIDE),
    ],
)
def test_cpus_that_a_scheduler_assigned(
    settings: FirstValueSettings,
    manager: str,
    allowed: tuple[int, ...] | None,
    cpus: tuple[int, ...],
    cause: FirstValueRefusal | None,
) -> None:
    given = pod("LSR", annotations={"scheduling.koordinator.sh/resource-status": OWN})
    values = first_values(given, replace(WORK, allowed_cpus=allowed), FirstValueFacts(cpu_manager=manager), settings)
    assert values.cpus == cpus
    assert [left_out.cause for left_out in values.left_out] == ([] if cause is None else [cause])


def allocated(*minors: int) -> str:
    return json.dumps({"gpu": [{"minor": minor, "resources": {"koordinator.sh/gpu-core": "100"}} for minor in minors]})


@pytest.mark.parametrize(
    ("written", "gpus", "settings", "visible", "cause"),
    [
        (allocated(1, 0), GPUS, BELIEVING, "GPU-0,GPU-1", None),
        (allocated(1), GPUS, USUAL, None, None),
        (allocated(1), GPUS, replace(BELIEVING, believed=frozenset({"other"})), None, FirstValueRefusal.UNTRUSTED),
        (allocated(0, 2), GPUS, BELIEVING, None, FirstValueRefusal.ILL_DEVICE),
        (allocated(0, 7), GPUS, BELIEVING, None, FirstValueRefusal.UNKNOWN_DEVICE),
        (allocated(0), None, BELIEVING, None, FirstValueRefusal.UNKNOWN_DEVICE),
        (allocated(0), (), BELIEVING, None, FirstValueRefusal.UNKNOWN_DEVICE),
        ('{"gpu": [{"minor": -1}]}', GPUS, BELIEVING, None, FirstValueRefusal.MALFORMED),
        ("no JSON", GPUS, BELIEVING, None, FirstValueRefusal.MALFORMED),
        ('{"rdma": [{"minor": 0, "resources": {}}]}', GPUS, BELIEVING, None, None),
    ],
)
def test_gpus_that_a_scheduler_chose(
    written: str,
    gpus: tuple[GpuCounters, ...] | None,
    settings: FirstValueSettings,
    visible: str | None,
    cause: FirstValueRefusal | None,
) -> None:
    given = pod("LS", annotations={"scheduling.koordinator.sh/device-allocated": written})
    node = FirstValueFacts(gpus=gpus)
    # An image of CUDA sets the variable itself, to all GPUs: what was allocated replaces it.
    container = replace(WORK, variables=frozenset({"NVIDIA_VISIBLE_DEVICES"}))
    values = first_values(given, container, node, replace(settings, cdi_kind="nvidia.com/gpu"))
    assert dict(values.environment).get("NVIDIA_VISIBLE_DEVICES") == visible
    assert len(values.devices) == (0 if visible is None else len(visible.split(",")))
    assert [left_out.cause for left_out in values.left_out] == ([] if cause is None else [cause])


def test_cdi_names_are_by_index() -> None:
    given = pod("LS", annotations={"scheduling.koordinator.sh/device-allocated": allocated(1)})
    both = replace(BELIEVING, cdi_kind="nvidia.com/gpu")
    assert first_values(given, WORK, FirstValueFacts(gpus=GPUS), both).devices == ("nvidia.com/gpu=1",)
    assert first_values(given, WORK, FirstValueFacts(gpus=GPUS), BELIEVING).devices == ()


def test_a_class_of_the_cache_that_exists() -> None:
    settings = replace(USUAL, cache_class="BE")
    assert first_values(pod("BE"), WORK, FirstValueFacts(cache_classes=frozenset({"BE"})), settings).cache_class == "BE"
    assert first_values(pod("LS"), WORK, FirstValueFacts(cache_classes=frozenset({"BE"})), settings).cache_class == ""
    missing = first_values(pod("BE"), WORK, FirstValueFacts(), settings)
    assert (missing.cache_class, [left_out.cause for left_out in missing.left_out]) == (
        "",
        [FirstValueRefusal.NO_CLASS],
    )


def test_names_by_which_measurements_and_spans_meet() -> None:
    settings = replace(USUAL, names=True, otlp_endpoint="http://traces:4318")
    values = dict(first_values(pod("LS"), WORK, FirstValueFacts("node a"), settings).environment)
    assert values == {
        "COTENANT_GUID": "cart-4f2a9c00",
        "OTEL_SERVICE_NAME": "cart-1",
        "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=cart-4f2a9c00,k8s.namespace.name=shop,k8s.pod.name=cart-1,"
        "k8s.pod.uid=u1,k8s.container.name=work,k8s.node.name=node%20a",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://traces:4318",
    }
    own = replace(WORK, variables=frozenset({"OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_ENDPOINT"}))
    assert dict(first_values(pod("LS"), own, FirstValueFacts("node a"), settings).environment).keys() == {
        "COTENANT_GUID",
        "OTEL_RESOURCE_ATTRIBUTES",
    }


@pytest.mark.parametrize(
    ("image", "guid"),
    [
        ("registry.example:5000/team/cart", "cart-4f2a9c00"),
        ("busybox:1", "busybox-4f2a9c00"),
        ("sha256:0011", "pay-4f2a9c00"),
        ("", "pay-4f2a9c00"),
    ],
)
def test_a_guid_is_the_image_or_the_workload(image: str, guid: str) -> None:
    given = pod("LS", labels={"app": "pay"})
    values = first_values(given, replace(WORK, image=image), FirstValueFacts(), replace(USUAL, names=True))
    assert dict(values.environment)["COTENANT_GUID"] == guid


@pytest.mark.parametrize(
    ("labels", "name", "workload"),
    [
        ({"app.kubernetes.io/name": "cart", "app": "other"}, "cart-5d8f7c-x2", "cart"),
        ({"pod-template-hash": "5d8f7c"}, "big-cart-5d8f7c-x2b4k", "big-cart"),
        ({"controller-revision-hash": "77c4"}, "agent-77c4-abcde", "agent"),
        ({"controller-revision-hash": "77c4"}, "agent-abcde", "agent-abcde"),
        ({"statefulset.kubernetes.io/pod-name": "db-0", "controller-revision-hash": "db-7f"}, "db-0", "db"),
        ({"batch.kubernetes.io/job-name": "nightly"}, "nightly-q8x2z", "nightly"),
        ({}, "lonely-0", "lonely-0"),
    ],
)
def test_the_name_of_a_workload(labels: dict[str, str], name: str, workload: str) -> None:
    assert workload_of(Labels.of(labels), name) == workload


def test_a_log_has_a_sentence_for_each_decision_and_for_each_that_was_left_out() -> None:
    made = FirstValues(
        reasons=(Reason("first-values", "one"), Reason("first-values", "two")),
        left_out=(LeftOut(FirstValueRefusal.OUTSIDE, Reason("first-values", "three")),),
    )
    assert list(sentences(made)) == ["one", "two", "left out: three"]
    assert list(sentences(FirstValues())) == []
