"""What users write in a Pod, as the model sees it."""

from __future__ import annotations

from math import inf, isnan
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.cache.sharing import PodSharing
from cotenant.drivers.kube.kinds.namespace import Namespace, read_namespace
from cotenant.drivers.kube.kinds.node import NodeObject, read_node
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.kube.kinds.pod_disruption_budget import PodDisruptionBudget, read_budget
from cotenant.model.cluster.affinity import NodeInclusionPolicy, WhenUnsatisfiable
from cotenant.model.cluster.labels import Labels, SelectorOperator
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import HostPort
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cluster.taints import Match, TaintEffect, Toleration
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.gangs.spec import gang_key


def parse(form: type[Any], manifest: dict[str, Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(manifest), type=form)


def read(spec: dict[str, Any] | None = None, status: Any = None, **meta: Any) -> ObservedPod:
    whole = {"name": "p", "namespace": "d", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"} | meta
    return PodReader().pod(parse(PodObject, {"metadata": whole, "spec": spec, "status": status}))


def container(cpu: str = "", memory: str = "", **more: Any) -> dict[str, Any]:
    requests = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    return {"name": "c", "resources": {"requests": requests}} | more


@pytest.mark.parametrize(
    ("asks", "written", "grace_s"), [("lent-gpu", 45, 45), ("lent-gpu", None, 30), ("lent-gpu", 0, 0), ("other", 45, 0)]
)
def test_how_long_it_takes_to_end_counts_where_it_borrows_a_gpu(asks: str, written: int | None, grace_s: int) -> None:
    one = {"name": "c", "resources": {"requests": {f"cotenant.io/{asks}": 20}}}
    spec = {"containers": [one]} | ({} if written is None else {"terminationGracePeriodSeconds": written})
    assert read(spec).demands.lent_gpu_grace_s == grace_s


def test_who_it_is() -> None:
    pod = read(
        {"schedulerName": "cotenant", "nodeName": "n1", "priority": 9100, "schedulingGates": [{"name": "g"}]},
        {"phase": "Running", "startTime": "2026-01-01T00:00:10Z", "nominatedNodeName": "n2"},
        labels={"b": "2", "a": "1"},
        deletionTimestamp="2026-01-01T00:01:00Z",
        deletionGracePeriodSeconds=45,
    )
    assert pod.grace_s == 45
    assert (pod.pod.key, pod.uid, pod.scheduler, pod.node) == ("d/p", "u", "cotenant", "n1")
    assert pod.created_s == 1767225600.0
    assert pod.started_s == pod.created_s + 10
    assert pod.ends_s == pod.created_s + 60
    assert pod.gates == ("g",)
    assert pod.nominated_node == "n2"
    assert pod.phase is PodPhase.RUNNING
    assert pod.pod.labels == Labels.of({"a": "1", "b": "2"})
    assert pod.pod.priority_class is PriorityClass.PROD
    assert pod.unsupported == ()


def test_nulls_mean_absent() -> None:
    spec = dict.fromkeys(("nodeName", "affinity", "tolerations", "containers", "volumes", "nodeSelector", "priority"))
    pod = read(spec, None, labels=None, annotations=None, creationTimestamp=None)
    assert pod.pod.requests.items == ()
    assert pod.pod.priority == 0
    assert pod.node == ""
    assert pod.phase is PodPhase.PENDING
    assert isnan(pod.created_s)
    assert read(None).unsupported == ()


def test_requests_with_init_containers_sidecars_and_overhead() -> None:
    spec = {
        "containers": [container("500m", "1Gi"), container("250m")],
        "initContainers": [
            container("100m", restartPolicy="Always"),
            container("2"),
            container("100m", restartPolicy="Always"),
        ],
        "overhead": {"cpu": "10m", "memory": "1Mi"},
    }
    requests = read(spec).pod.requests
    assert requests.get("cpu") == 2100 + 10  # the init container beside the first sidecar
    assert requests.get("memory") == 2**30 + 2**20


def test_pod_level_requests_replace_the_sum_and_limits_stand_in() -> None:
    spec = {"containers": [container("4", "1Gi")], "resources": {"requests": {"cpu": "2"}}}
    assert read(spec).pod.requests.items == (("cpu", 2000), ("memory", 2**30))
    limited = {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1.5, "nvidia.com/gpu": 1}}}]}
    assert read(limited).pod.requests.items == (("cpu", 1500), ("nvidia.com/gpu", 1))


@pytest.mark.parametrize(("reason", "cpu"), [("Deferred", 3000), ("Infeasible", 1000)])
def test_a_resize_counts_unless_it_is_in_vain(reason: str, cpu: int) -> None:
    status = {
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "500m"}}}
        ],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason, "message": "m"}],
    }
    pod = read({"containers": [container("3")]}, status)
    assert (pod.pod.requests.get("cpu"), pod.awaits_resize) == (cpu, reason == "Deferred")


def test_shrinking_holds_what_is_still_in_place() -> None:
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}
    assert read({"containers": [container("1")]}, status).pod.requests.get("cpu") == 2000


@pytest.mark.parametrize(
    ("asked", "reason", "counts"),
    [
        ("1", "", 2000 + 10),  # lowered, and still in place
        ("3", "Deferred", 3000 + 10),
        ("9", "Infeasible", 2000 + 10),
    ],
)
def test_a_resize_of_the_pod_as_a_whole_counts_like_one_of_a_container(asked: str, reason: str, counts: int) -> None:
    """What a kubelet says of a whole pod has the overhead in it."""
    status: dict[str, Any] = {
        "allocatedResources": {"cpu": "1010m", "memory": "3Gi"},
        "resources": {"requests": {"cpu": "2010m", "memory": "3Gi"}},
        "containerStatuses": [{"name": "c", "resources": {"requests": {"memory": "1Gi"}}}],
    }
    if reason:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    spec = {
        "containers": [container(memory="1Gi")],
        "resources": {"requests": {"cpu": asked}},
        "overhead": {"cpu": "10m"},
    }
    pod = read(spec, status).pod
    assert pod.requests.items == (("cpu", counts), ("memory", 2**30))  # memory is not asked for the pod as a whole


def test_what_a_kubelet_says_of_a_whole_pod_is_not_taken_for_another_pods() -> None:
    reader, share = PodReader(), PodSharing()
    for cpu in ("2", "4"):
        written = {
            "metadata": {"name": f"p{cpu}", "namespace": "d", "uid": cpu},
            "spec": {"containers": [container()], "resources": {"requests": {"cpu": "1"}}},
            "status": {"resources": {"requests": {"cpu": cpu}}},
        }
        found = reader.pod(share(parse(PodObject, written)))
        assert found.pod.requests.get("cpu") == 1000 * int(cpu)


def test_node_affinity() -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}],
                        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
                    },
                    {},
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 7, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}},
                {"weight": 1, "preference": {}},
            ],
        }
    }
    pod = read({"affinity": affinity, "nodeSelector": {"zone": "a"}}).pod
    assert pod.node_affinity is not None
    assert pod.node_affinity.required is not None
    assert pod.node_affinity.required.matches("n1", Labels.of({"gen": "4"}))
    assert not pod.node_affinity.required.matches("n2", Labels.of({"gen": "4"}))
    assert [p.weight for p in pod.node_affinity.preferred] == [7]  # an empty wish is worth nothing
    assert pod.node_selector == Labels.of({"zone": "a"})


def test_pod_affinity_with_namespaces_and_label_keys() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {},
        "matchLabelKeys": ["pod-template-hash", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }
    spec = {
        "affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "podAffinityTerm": {"topologyKey": "host", "namespaces": ["x"]}}
                ]
            },
        }
    }
    pod = read(spec, labels={"app": "web", "pod-template-hash": "h1", "tenant": "t1"}).pod
    (near,), (away,) = pod.affinity, pod.anti_affinity
    assert near.selector is not None
    assert [(r.key, r.operator, r.values) for r in near.selector.requirements] == [
        ("app", SelectorOperator.IN, ("web",)),
        ("pod-template-hash", SelectorOperator.IN, ("h1",)),
        ("tenant", SelectorOperator.NOT_IN, ("t1",)),
    ]
    assert near.namespace_selector is not None
    assert near.namespaces == ()
    assert (away.topology_key, away.weight, away.selector, away.namespaces) == ("host", 5, None, ("x",))


def test_label_keys_of_pods_with_the_same_spec_do_not_mix() -> None:
    reader = PodReader()
    spec = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {},
                "matchLabelKeys": ["hash"],
            }
        ]
    }
    selected = []
    for value in ("h1", "h2"):
        pod = parse(PodObject, {"metadata": {"name": "p", "labels": {"hash": value}}, "spec": spec})
        selected.append(reader.pod(pod).pod.spread[0].selects(Labels.of({"hash": "h1"})))
    assert selected == [True, False]


def test_spread_defaults_and_choices() -> None:
    first = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    second = first | {
        "whenUnsatisfiable": "ScheduleAnyway",
        "minDomains": 3,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]},
    }
    one, two = read({"topologySpreadConstraints": [first, second]}).pod.spread
    assert (one.max_skew, one.min_domains, one.selector) == (2, 1, None)
    assert (one.node_affinity_policy, one.node_taints_policy) == (NodeInclusionPolicy.HONOR, NodeInclusionPolicy.IGNORE)
    assert two.when_unsatisfiable is WhenUnsatisfiable.SCHEDULE_ANYWAY
    assert (two.min_domains, two.node_affinity_policy, two.node_taints_policy) == (
        3,
        NodeInclusionPolicy.IGNORE,
        NodeInclusionPolicy.HONOR,
    )


def test_tolerations_by_number() -> None:
    (one,) = read({"tolerations": [{"key": "level", "operator": "Gt", "value": "5"}]}).pod.tolerations
    assert one == Toleration("level", Match.GT, "5")


def test_tolerations() -> None:
    spec = {"tolerations": [{"key": "a", "value": "b"}, {"operator": "Exists", "effect": "NoExecute"}]}
    one, two = read(spec).pod.tolerations
    assert (one.key, one.operator, one.value, one.effect) == ("a", Match.EQUAL, "b", None)
    assert (two.key, two.operator, two.effect) == ("", Match.EXISTS, TaintEffect.NO_EXECUTE)


def test_host_ports() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 53, "protocol": "UDP"}]
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "ports": ports}],
        "initContainers": [
            {
                "name": "s",
                "restartPolicy": "Always",
                "ports": [{"containerPort": 9, "hostPort": 9, "hostIP": "10.0.0.1"}],
            },
            {"name": "i", "ports": [{"containerPort": 10, "hostPort": 10}]},
        ],
    }
    assert read(spec).pod.host_ports == (HostPort(8080), HostPort(9, "TCP", "10.0.0.1"))
    assert HostPort(53, "UDP") in read(spec | {"hostNetwork": True}).pod.host_ports


def test_classes_and_hints() -> None:
    pod = read(
        {"preemptionPolicy": "Never"},
        labels={
            "koordinator.sh/qosClass": "BE",
            "koordinator.sh/priority-class": "koord-batch",
            "koordinator.sh/priority": "-3",
        },
        annotations={
            "cotenant.io/tenant": "team",
            "cotenant.io/objective-p99-ms": "12.5",
            "cotenant.io/estimate": '{"use_cpu_cores": 1.5, "use_memory_bytes": 1024, "duration_s": 60}',
            "cotenant.io/deadline": "2026-01-01T00:00:00Z",
            "cotenant.io/group": "g",
            "cotenant.io/group-limit": "2",
            "cotenant.io/load-limit": "0.8",
            "kubectl.kubernetes.io/last-applied-configuration": "x" * 1000,
        },
    )
    assert not pod.preempts
    assert (pod.pod.qos, pod.pod.priority_class, pod.pod.sub_priority) == (QoSClass.BE, PriorityClass.BATCH, -3)
    assert (pod.pod.owner, pod.pod.objective_p99_ms, pod.pod.group, pod.pod.group_limit) == ("team", 12.5, "g", 2)
    assert pod.pod.load_limit == 0.8
    assert pod.pod.deadline_s == 1767225600.0
    assert pod.pod.estimate is not None
    assert (pod.pod.estimate.use_cpu_cores, pod.pod.estimate.duration_s, pod.pod.estimate.allowance) == (1.5, 60, inf)
    assert pod.unsupported == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("objective-p99-ms", "fast"),
        ("objective-p99-ms", "-1"),
        ("objective-p99-ms", "nan"),
        ("objective-p99-ms", "1e999"),
        ("estimate", "{"),
        ("estimate", '{"use_cpu_cores": -1, "use_memory_bytes": 0}'),
        ("deadline", "tomorrow"),
        ("deadline", "2026-01-01T00:00:00"),
        ("group-limit", "1.5"),
        ("group-limit", "0"),
        ("load-limit", "inf"),
    ],
)
def test_wrong_hints_are_named(name: str, value: str) -> None:
    pod = read({"containers": [container("1")]}, annotations={f"cotenant.io/{name}": value})
    (why,) = pod.unsupported
    assert f"cotenant.io/{name}" in why
    assert pod.pod.requests.get("cpu") == 1000


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"containers": [container("lots")]}, "spec.containers[0].resources.requests.cpu"),
        ({"containers": [container("-1")]}, "spec.containers[0].resources.requests.cpu"),
        ({"tolerations": [{"key": "a", "operator": "Near", "value": "5"}]}, "spec.tolerations[0].operator"),
        ({"tolerations": [{"key": "a", "operator": "Lt", "value": "five"}]}, "toleration"),
        ({"tolerations": [{"operator": "Equal"}]}, "toleration"),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            "maxSkew",
        ),
        ({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z"}]}, "whenUnsatisfiable"),
        ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}}, "topologyKey"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
                        }
                    }
                }
            },
            "nodeSelectorTerms[0].matchExpressions[0].operator",
        ),
        (
            {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 70000}, {"hostPort": 81}]}]},
            "hostPort",
        ),
        ({"workloadRef": {"name": "w", "podGroup": "g"}}, "workloadRef"),
        ({"schedulingGroup": {}}, "podGroupName is missing"),
    ],
)
def test_what_cannot_be_judged_is_a_reason(spec: dict[str, Any], named: str) -> None:
    pod = read({"containers": [container("250m")]} | spec)
    assert any(named in why for why in pod.unsupported), pod.unsupported


def test_a_scheduling_group_names_the_gang() -> None:
    spec = {"containers": [container("250m")], "schedulingGroup": {"podGroupName": "g"}}
    pod = read(spec)
    assert not pod.unsupported
    assert pod.demands.gang is not None
    assert pod.demands.gang.name == "g"
    assert gang_key(pod.pod, pod.demands.gang) == "d/g"


def test_bad_sub_priority_is_a_reason() -> None:
    assert "koordinator.sh/priority" in read({}, labels={"koordinator.sh/priority": "high"}).unsupported[0]


def test_pods_of_one_controller_share_what_is_equal() -> None:
    reader = PodReader()
    one, two = (
        reader.pod(
            parse(
                PodObject,
                {
                    "metadata": {"name": name, "labels": {"app": "a"}},
                    "spec": {"containers": [container("1")], "nodeName": name, "nodeSelector": {"a": "b"}},
                },
            )
        )
        for name in ("x", "y")
    )
    assert one.pod.requests is two.pod.requests
    assert one.pod.labels is two.pod.labels
    assert one.pod.name != two.pod.name


def test_node() -> None:
    manifest = {
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoExecute"}]},
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "15Gi", "pods": "64", "nvidia.com/gpu": "2"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "images": [{"names": ["x"], "sizeBytes": 5}],
        },
    }
    node = read_node(parse(NodeObject, manifest))
    assert (node.allocatable.get("cpu"), node.allocatable.get("pods"), node.allocatable.get("nvidia.com/gpu")) == (
        3920,
        64,
        2,
    )
    assert node.unschedulable
    assert node.ready
    assert node.taints[0].effect is TaintEffect.NO_EXECUTE
    for status in ("Unknown", "False"):
        manifest["status"]["conditions"][1]["status"] = status  # type: ignore[index]
        assert not read_node(parse(NodeObject, manifest)).ready


@pytest.mark.parametrize(
    "change",
    [
        {"status": {}},
        {"status": {"allocatable": {"cpu": "many", "memory": "1Gi"}}},
        {"spec": {"taints": [{"key": "k", "effect": "Sometimes"}]}},
    ],
)
def test_bad_node_names_the_field(change: dict[str, Any]) -> None:
    good = {"metadata": {"name": "n9"}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}}
    with pytest.raises(InvalidInput, match="n9"):
        read_node(parse(NodeObject, good | change))


def test_budget() -> None:
    manifest = {
        "metadata": {"name": "b", "namespace": "d", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1, "disruptedPods": {"x": "2026-01-01T00:00:00Z"}, "observedGeneration": 2},
    }
    budget = read_budget(parse(PodDisruptionBudget, manifest))
    assert (budget.allowed, budget.disrupted) == (1, frozenset({"x"}))
    assert budget.covers(read({}, labels={"app": "web"}).pod)
    manifest["metadata"]["generation"] = 3  # type: ignore[index]
    assert read_budget(parse(PodDisruptionBudget, manifest)).allowed == 0


@pytest.mark.parametrize(
    ("policy", "healthy", "desired", "spares"),
    [
        (None, 3, 3, True),
        ("IfHealthyBudget", 2, 3, False),
        (None, 0, 0, False),
        (None, None, None, False),
        ("AlwaysAllow", 0, 3, True),
    ],
)
def test_whether_a_budget_spares_pods_that_are_not_ready(
    policy: str | None, healthy: int | None, desired: int | None, spares: bool
) -> None:
    manifest = {
        "metadata": {"name": "b", "namespace": "d"},
        "spec": {"unhealthyPodEvictionPolicy": policy},
        "status": {"currentHealthy": healthy, "desiredHealthy": desired},
    }
    assert read_budget(parse(PodDisruptionBudget, manifest)).spares_unready is spares


def test_namespace() -> None:
    facts = read_namespace(parse(Namespace, {"metadata": {"name": "d", "labels": {"team": "x"}}}))
    assert (facts.name, facts.labels) == ("d", Labels.of({"team": "x"}))


def test_a_daemonsets_pod_is_marked() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    manifest: dict[str, Any] = {"metadata": {"name": "p", "ownerReferences": [owner]}, "spec": {}}
    assert PodReader().pod(parse(PodObject, manifest)).pod.is_daemon
    owner["kind"] = "ReplicaSet"
    assert not PodReader().pod(parse(PodObject, manifest)).pod.is_daemon


def limited(cpu: str, memory: str = "1Gi", **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"limits": {"cpu": cpu, "memory": memory}}} | more


@pytest.mark.parametrize(
    ("spec", "is_whole"),
    [
        ({"containers": [limited("2"), limited("1000m")]}, True),
        ({"containers": [limited("2"), limited("500m")]}, False),
        ({"containers": [limited("2"), container("1", "1Gi")]}, False),  # Burstable
        ({"containers": [container("2", "1Gi")]}, False),
        ({"containers": [limited("2")], "initContainers": [limited("100m")]}, True),  # it ends before
        ({"containers": [limited("2")], "initContainers": [limited("100m", restartPolicy="Always")]}, False),
        ({"containers": [limited("2"), {"name": "none"}]}, False),
        ({}, False),
    ],
)
def test_whole_cpus_are_those_of_guaranteed_pods(spec: dict[str, Any], is_whole: bool) -> None:
    assert read(spec).pod.has_whole_cpus is is_whole
