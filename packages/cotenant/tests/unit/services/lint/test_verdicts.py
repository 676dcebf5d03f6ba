"""What a lint says of manifests as a cluster with the webhook would take them: shares of a workload, reservations,
namespaces that are left alone, quotas with their defaults, and a scheduler's configuration.
"""

from __future__ import annotations

import json
from typing import Any

from cotenant.policy.admission.profiles import workload_draw
from cotenant.services.lint.manifest_reading import read_manifests
from cotenant.services.lint.manifest_verdicts import LintFinding, lint

CONTAINERS = [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]


def findings(*documents: dict[str, Any]) -> list[LintFinding]:
    return lint(read_manifests("f.yaml", "\n---\n".join(json.dumps(one) for one in documents).encode()))


def profile(**spec: Any) -> dict[str, Any]:
    given = {
        "selector": {"matchLabels": {"kind": "batch"}},
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
        **spec,
    }
    kind = {"apiVersion": "config.koordinator.sh/v1alpha1", "kind": "ClusterColocationProfile"}
    return {**kind, "metadata": {"name": "half"}, "spec": given}


def deployment(name: str, namespace: str = "shop", **pod: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"kind": "batch"}}, "spec": {"containers": CONTAINERS, **pod}}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"template": template}}


def test_a_workload_is_in_a_profiles_share_as_its_pods_will_be() -> None:
    """The draw is that of a pod whose controller is the Deployment."""
    drawn = {}
    for name in (f"web-{number}" for number in range(20)):
        owner = {"kind": "Deployment", "name": name, "controller": True}
        drawn[name] = workload_draw("shop", {"metadata": {"ownerReferences": [owner]}})("half")
    found = findings(profile(probability=50), *map(deployment, drawn))
    assert {one.level for one in found} == {"change"}
    assert {one.name for one in found} == {f"shop/{name}" for name, of in drawn.items() if of < 50}
    assert 0 < len(found) < len(drawn)


def test_a_namespace_of_the_system_is_left_alone_and_its_labels_count_elsewhere() -> None:
    selected = profile(namespaceSelector={"matchLabels": {"pool": "batch"}})
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"pool": "batch"}}}
    found = findings(deployment("a"), selected, shop, deployment("b", "bank"))
    assert [(one.name, one.level) for one in found] == [("shop/a", "change"), ("bank/b", "warning")]
    assert "the labels of the pod's namespace are not known" in found[1].message
    wrong = deployment("a", "kube-system")
    wrong["spec"]["template"]["metadata"]["labels"]["koordinator.sh/qosClass"] = "LSX"
    assert findings(wrong) == []


def test_a_reservation_is_changed_by_a_profile_where_the_webhook_looks_at_them() -> None:
    reservation = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "r", "labels": {"kind": "batch"}},
        "spec": {
            "template": {"metadata": {"labels": {"kind": "batch"}}, "spec": {"containers": CONTAINERS}},
            "owners": [{"labelSelector": {"matchLabels": {"kind": "batch"}}}],
            "ttl": "1h",
        },
    }
    assert findings(reservation) == []
    (found,) = findings(profile(), reservation)
    assert (found.level, found.rule, found.name) == ("change", "mutate-reservation", "r")
    assert found.message.endswith("(where the webhook runs with --reservations)")
    assert found.patch


def test_a_pods_class_follows_from_the_priority_class_in_the_files() -> None:
    own = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "mine"}, "value": 5500}
    unknown = findings(deployment("web", priorityClassName="mine"))
    assert [(one.level, one.rule) for one in unknown] == [("warning", "unknown-priority-class")]
    assert not any(
        one.rule == "unknown-priority-class" for one in findings(own, deployment("web", priorityClassName="mine"))
    )
    assert not any(
        one.rule == "unknown-priority-class"
        for one in findings(deployment("web", priorityClassName="system-node-critical"))
    )


def quota(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": "shop", "labels": labels or {}},
        "spec": {"max": {"cpu": "4", "memory": "4Gi"}, "min": {"cpu": "1", "memory": "1Gi"}, **spec},
    }


def test_a_child_quota_gets_the_defaults_of_its_tree_and_is_refused_at_its_field() -> None:
    tree = {"quota.scheduling.koordinator.sh/tree-id": "t", "quota.scheduling.koordinator.sh/is-parent": "true"}
    root = quota("root", tree)
    child = quota("child", {"quota.scheduling.koordinator.sh/parent": "root"})
    assert [(one.name, one.level, one.rule) for one in findings(root, child)] == [
        ("shop/root", "change", "mutate-quota"),
        ("shop/child", "change", "mutate-quota"),
    ]
    greedy = quota("child", {"quota.scheduling.koordinator.sh/parent": "root"}, min={"cpu": "5", "memory": "1Gi"})
    refused = [one for one in findings(root, greedy) if one.level == "refused"]
    assert refused
    assert {one.name for one in refused} == {"shop/child"}


def test_what_a_scheduler_would_not_honour_is_found_in_its_configuration() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "cotenant", "plugins": {"filter": {"enabled": [{"name": "HomeGrown"}]}}},
        ],
    }
    (found,) = findings(config)
    assert (found.level, found.rule) == ("warning", "scheduler-configuration")
    assert "HomeGrown" in found.message
