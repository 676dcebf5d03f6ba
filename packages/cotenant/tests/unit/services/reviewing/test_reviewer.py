"""Reviews in and answers out, without a server."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from jsonpatch import JsonPatch

from cotenant.model.cluster.colocation_profile import ColocationProfile, PriorityClassValue
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.observed import NamespaceFacts
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import Quota
from cotenant.model.resources import Amounts
from cotenant.services.reviewing.facts import PROVISIONAL_S, KnownQuota, QuotaCountedPod, WebhookFacts
from cotenant.services.reviewing.quotas import check_written
from cotenant.services.reviewing.review import read_review, write_review
from cotenant.services.reviewing.reviewer import Reviewer
from cotenant.services.reviewing.rules import ReviewRules

PREFIX = "quota.scheduling.koordinator.sh/"


class World:
    """A reviewer with what it knows; `now` is its clock, `holding` the quotas that have pods."""

    def __init__(self, **rules: Any) -> None:
        self.now = 0.0
        self.holding: set[str] = set()
        self.facts = WebhookFacts(lambda: self.now)
        self.facts.namespace_seen(NamespaceFacts("n", Labels.of({})))
        self.facts.class_seen(PriorityClassValue("koord-batch", 5500, "PreemptLowerPriority"))
        self.nodes: dict[str, str] = {}  # by pod's name
        self.reviewer = Reviewer(self.facts, ReviewRules(**rules), self._has_pods, Random(1), self._node_of)

    async def _has_pods(self, quota: Quota) -> bool:
        return quota.name in self.holding

    async def _node_of(self, namespace: str, name: str) -> str | None:
        return self.nodes.get(name)

    def ask(
        self,
        path: str,
        obj: Any,
        operation: str = "CREATE",
        old: Any = None,
        resource: str = "pods",
        group: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        """The response to a review, by its bytes."""
        request = {
            "uid": "u-1",
            "operation": operation,
            "resource": {"group": group, "version": "v1", "resource": resource},
            "namespace": "n",
            "object": obj,
            "oldObject": old,
            "dryRun": False,
        } | more
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        read = read_review(body.encode())
        answer = json.loads(write_review(read.uid, asyncio.run(self.reviewer.review(path, read))))
        assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        response: dict[str, Any] = answer["response"]
        assert response["uid"] == "u-1"
        return response

    def quota(self, operation: str, obj: Any, old: Any = None, group: str = "scheduling.sigs.k8s.io") -> Any:
        """Default a quota, apply the patch, validate it; (stored document, refusal)."""
        if operation != "DELETE":
            defaulted = self.ask("/mutate-quota", obj, operation, old, "elasticquotas", group)
            if not defaulted["allowed"]:
                return obj, defaulted["status"]["message"]
            obj = patched(obj, defaulted)
        answer = self.ask(
            "/validate-quota", None if operation == "DELETE" else obj, operation, old, "elasticquotas", group
        )
        return obj, "" if answer["allowed"] else answer["status"]["message"]


def patched(obj: Any, response: dict[str, Any]) -> Any:
    if "patch" not in response:
        assert "patchType" not in response
        return obj
    assert response["patchType"] == "JSONPatch"
    return JsonPatch(json.loads(base64.b64decode(response["patch"]))).apply(obj)


def pod(labels: dict[str, str] | None = None, cpu: str = "1", **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": "p", "labels": labels or {}} | metadata, "spec": {"containers": [container]}}


def quota(name: str, most: dict[str, str], least: dict[str, str] | None = None, **labels: str) -> dict[str, Any]:
    named = {PREFIX + key.replace("_", "-"): value for key, value in labels.items()}
    return {"metadata": {"name": name, "namespace": "n", "labels": named}, "spec": {"max": most, "min": least or {}}}


def test_a_new_pod_gets_its_profile_and_is_then_valid() -> None:
    world = World()
    world.facts.profile_seen(ColocationProfile("batch", qos=QoSClass.BE, priority_class="koord-batch"))
    made = patched(pod(), world.ask("/mutate-pod", pod()))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"kubernetes.io/batch-cpu": "1000"}
    assert made["metadata"]["annotations"]["cotenant.io/colocation-profiles"] == "batch"
    assert world.ask("/validate-pod", made)["allowed"]


def test_a_container_that_another_webhook_adds_is_translated_in_the_second_call() -> None:
    world = World()
    suffixed = ColocationProfile(
        "batch", qos=QoSClass.BE, priority_class="koord-batch", label_suffixes=(("app", "-be"),)
    )
    world.facts.profile_seen(suffixed)
    given = pod({"app": "etl"})
    made = patched(given, world.ask("/mutate-pod", given))
    made["spec"]["containers"].append(
        {"name": "proxy", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}}
    )
    (warning,) = world.ask("/validate-pod", made)["warnings"]
    assert "beside others with lent resources: proxy" in warning
    again = patched(made, world.ask("/mutate-pod", made))
    assert again["spec"]["containers"][1]["resources"]["requests"] == {"kubernetes.io/batch-cpu": "100"}
    assert again["metadata"]["labels"]["app"] == "etl-be"
    assert "warnings" not in world.ask("/validate-pod", again)


def test_pods_with_whole_cpus_keep_them_when_they_are_resized() -> None:
    labels = {"koordinator.sh/qosClass": "LSR"}
    response = World().ask(
        "/validate-pod", pod(labels, cpu="2500m"), "UPDATE", pod(labels, cpu="2"), subResource="resize"
    )
    assert not response["allowed"]
    assert "integer" in response["status"]["message"] or "whole" in response["status"]["message"]


def test_a_resize_of_a_pod_that_holds_cpus_says_that_it_keeps_them() -> None:
    labels = {"koordinator.sh/qosClass": "LSR", "koordinator.sh/priority-class": "koord-prod"}
    held = {"annotations": {"scheduling.koordinator.sh/resource-status": '{"cpuset": "0-1"}'}}
    world = World()

    def resized(to: str, **metadata: Any) -> list[str]:
        old, made = pod(labels, cpu="2", **metadata), pod(labels, cpu=to, **metadata)
        answer = world.ask("/validate-pod", made, "UPDATE", old, subResource="resize")
        assert answer["allowed"]
        found: list[str] = answer.get("warnings", [])
        return found

    (warning,) = resized("3", **held)
    assert "keeps the CPUs of its own" in warning
    assert resized("2", **held) == resized("3") == []
    assert resized("3", annotations={"scheduling.koordinator.sh/resource-status": "?"}) == []


def test_what_a_pod_asks_for_and_does_not_get_is_a_warning() -> None:
    world = World()
    given = pod({PREFIX + "name": "nowhere", "koordinator.sh/gpu-isolation-provider": "HAMi-core"})
    answer = world.ask("/validate-pod", given)
    assert answer["allowed"]
    quota_words, label_words = answer["warnings"]
    assert "there is no quota nowhere" in quota_words
    assert "on nodes only whose label cotenant.io/gpu-isolation-provider is HAMi-core" in label_words


def test_what_is_not_asked_for_is_allowed_as_it_is() -> None:
    world = World()
    world.facts.profile_seen(ColocationProfile("all", labels=(("l", "1"),)))
    for more in (
        {"operation": "UPDATE"},
        {"resource": "configmaps"},
        {"subResource": "status"},
        {"namespace": "kube-system"},
    ):
        assert world.ask("/mutate-pod", pod(), **more) == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize(("obj", "text"), [(None, "no pods object"), ("x", "no pods object")])
def test_a_request_without_an_object_is_refused(obj: Any, text: str) -> None:
    response = World().ask("/mutate-pod", obj)
    assert (response["allowed"], response["status"]["code"]) == (False, 400)
    assert text in response["status"]["message"]


def test_all_broken_rules_are_in_the_message() -> None:
    bad = pod({"koordinator.sh/qosClass": "LSR", PREFIX + "name": "par"}, cpu="500m")
    world = World()
    world.quota("CREATE", quota("par", {"cpu": "4"}, is_parent="true"))
    message = world.ask("/validate-pod", bad)["status"]["message"]
    assert "needs priority prod" in message
    assert "whole CPUs" in message
    assert "is a parent" in message


def test_a_pod_that_cannot_be_read_names_the_field() -> None:
    response = World().ask("/validate-pod", pod(cpu="much"))
    assert response["status"]["code"] == 400
    assert "spec.containers[0].resources.requests.cpu" in response["status"]["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"kind":"Pod"}', b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}']
)
def test_a_body_that_is_no_review(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        read_review(body)


def test_profiles_of_other_namespaces_and_unknown_namespaces() -> None:
    world = World()
    only = LabelSelector.of({"team": "a"})
    world.facts.profile_seen(ColocationProfile("a", namespaces=only, labels=(("l", "1"),)))
    assert "patch" not in world.ask("/mutate-pod", pod())
    response = world.ask("/mutate-pod", pod(), namespace="new")
    assert response["warnings"] == ["profile a does not act: the labels of the pod's namespace are not known"]
    world.facts.namespace_seen(NamespaceFacts("n", Labels.of({"team": "a"})))
    assert patched(pod(), world.ask("/mutate-pod", pod()))["metadata"]["labels"] == {"l": "1"}


def test_quotas_get_defaults_and_see_each_other_before_they_are_stored() -> None:
    world = World()
    made, refusal = world.quota("CREATE", quota("par", {"cpu": "8"}, {"cpu": "4"}, is_parent="true", tree_id="t"))
    assert refusal == ""
    assert made["metadata"]["labels"][PREFIX + "parent"] == "koordinator-root-quota"
    assert json.loads(made["metadata"]["annotations"][PREFIX + "shared-weight"]) == {"cpu": "8"}
    child, refusal = world.quota("CREATE", quota("kid", {"cpu": "8"}, {"cpu": "3"}, parent="par"))
    assert (refusal, child["metadata"]["labels"][PREFIX + "tree-id"]) == ("", "t")
    _, refusal = world.quota("CREATE", quota("more", {"cpu": "8"}, {"cpu": "2"}, parent="par"))
    assert "add up to 5 of cpu, its own is 4" in refusal
    _, refusal = world.quota("CREATE", quota("x", {"cpu": "8"}, parent="ghost"))
    assert refusal == "there is no quota ghost"
    world.now = PROVISIONAL_S + 1  # none of them was stored
    _, refusal = world.quota("CREATE", quota("more", {"cpu": "8"}, {"cpu": "2"}, parent="par"))
    assert refusal == "there is no quota par"


def test_an_update_gives_weight_to_a_resource_that_was_added() -> None:
    world = World()
    old, _ = world.quota("CREATE", quota("a", {"cpu": "8"}))
    new = json.loads(json.dumps(old))
    new["spec"]["max"]["memory"] = "1Gi"
    made, refusal = world.quota("UPDATE", new, old)
    assert refusal == ""
    assert json.loads(made["metadata"]["annotations"][PREFIX + "shared-weight"]) == {"cpu": "8", "memory": "1Gi"}


def test_a_quota_with_pods_is_not_deleted_and_becomes_no_parent() -> None:
    world = World()
    stored, _ = world.quota("CREATE", quota("a", {"cpu": "8"}))
    world.holding = {"a"}
    assert "has pods" in world.quota("DELETE", None, stored)[1]
    parent = json.loads(json.dumps(stored))
    parent["metadata"]["labels"][PREFIX + "is-parent"] = "true"
    assert "pods" in world.quota("UPDATE", parent, stored)[1]
    world.holding = set()
    assert world.quota("UPDATE", parent, stored)[1] == world.quota("DELETE", None, stored)[1] == ""


def test_a_quota_of_scheduler_plugins_keeps_its_labels() -> None:
    world = World()
    given = quota("a", {"cpu": "1"}, {"cpu": "2"})
    made, refusal = world.quota("CREATE", given, group="scheduling.x-k8s.io")
    assert made == given
    assert "exceeds the maximum" in refusal


def test_a_quota_that_cannot_be_read_is_refused() -> None:
    _, refusal = World().quota("CREATE", quota("a", {"cpu": "-1"}))
    assert "spec.max.cpu" in refusal


def test_pods_beyond_a_quota_are_refused_while_earlier_ones_are_not_yet_seen() -> None:
    world = World(limits_quotas=True)
    world.quota("CREATE", quota("team", {"cpu": "2"}))
    labels = {PREFIX + "name": "team"}
    assert world.ask("/validate-pod", pod(labels, uid="1"), dryRun=True)["allowed"]
    assert world.ask("/validate-pod", pod(labels, uid="1"))["allowed"]
    assert world.ask("/validate-pod", pod(labels, uid="2"))["allowed"]
    response = world.ask("/validate-pod", pod(labels, uid="3"))
    assert response["status"]["message"] == "quota team has no room for 1 of cpu: 2 of 2 are requested"
    world.facts.member_gone("1")
    assert world.ask("/validate-pod", pod(labels, uid="3"))["allowed"]


def test_a_pod_that_names_no_quota_there_is_is_refused_under_admission_alone() -> None:
    made = pod({PREFIX + "name": "team"}, uid="1")
    warned = World().ask("/validate-pod", made)
    assert warned["allowed"]
    assert "there is no quota team" in warned["warnings"][0]
    world = World(limits_quotas=True)
    refused = world.ask("/validate-pod", made)
    assert refused["status"]["message"].startswith("there is no quota team (label ")
    assert world.ask("/validate-pod", pod({PREFIX + "name": "koordinator-default-quota"}, uid="2"))["allowed"]
    assert world.ask("/validate-pod", pod({}, uid="3"))["allowed"]
    world.quota("CREATE", quota("team", {"cpu": "2"}))
    assert world.ask("/validate-pod", made)["allowed"]


@pytest.mark.parametrize("sub", ["", "resize"])
def test_a_pod_that_grows_is_held_to_its_quota_as_a_new_one_is(sub: str) -> None:
    world = World(limits_quotas=True)
    world.quota("CREATE", quota("team", {"cpu": "4"}))
    labels = {PREFIX + "name": "team"}
    for uid in "12":
        world.facts.member_seen(QuotaCountedPod(uid, "n", "team", Amounts.parse({"cpu": "1"})))

    def resized(uid: str, cpu: str, before: str = "1", **more: Any) -> dict[str, Any]:
        made, old = pod(labels, cpu, uid=uid), pod(labels, before, uid=uid)
        return world.ask("/validate-pod", made, "UPDATE", old, subResource=sub, **more)

    refused = resized("1", "3500m")
    assert refused["status"]["message"] == "quota team has no room for 3500m of cpu: 1 of 4 are requested"
    assert resized("1", "3", dryRun=True)["allowed"]
    assert resized("1", "3")["allowed"]
    assert not resized("2", "2")["allowed"]  # the first is not seen yet as it was changed
    world.facts.member_seen(QuotaCountedPod("1", "n", "team", Amounts.parse({"cpu": "2"})))  # it was changed to less
    assert resized("2", "2")["allowed"]
    world.quota("UPDATE", quota("team", {"cpu": "1"}), quota("team", {"cpu": "4"}))
    assert resized("2", "500m")["allowed"]  # less than before fits always


def test_a_waiting_pod_that_changes_its_quota_is_judged_by_the_new_one() -> None:
    world = World(limits_quotas=True)
    for name, most in (("full", "1"), ("team", "4")):
        world.quota("CREATE", quota(name, {"cpu": most}))
    world.facts.member_seen(QuotaCountedPod("2", "n", "full", Amounts.parse({"cpu": "1"})))

    def relabelled(name: str) -> dict[str, Any]:
        old = pod({PREFIX + "name": "team"}, uid="1")
        return world.ask("/validate-pod", pod({PREFIX + "name": name}, uid="1"), "UPDATE", old)

    assert relabelled("full")["status"]["message"] == "quota full has no room for 1 of cpu: 1 of 1 are requested"
    assert relabelled("nowhere")["status"]["message"].startswith("there is no quota nowhere (label ")
    world.facts.member_gone("2")
    assert relabelled("full")["allowed"]


def test_what_is_new_of_a_pod_that_is_changed_is_a_warning_and_the_rest_is_not() -> None:
    world = World()
    isolation = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
    old = pod({PREFIX + "name": "nowhere"})
    again = world.ask("/validate-pod", pod({PREFIX + "name": "nowhere"}, x="y"), "UPDATE", old)
    assert "warnings" not in again
    answer = world.ask("/validate-pod", pod({PREFIX + "name": "elsewhere", **isolation}), "UPDATE", old)
    quota_words, isolation_words = answer["warnings"]
    assert "there is no quota elsewhere" in quota_words
    assert "cotenant.io/gpu-isolation-provider is HAMi-core" in isolation_words
    assert "warnings" not in world.ask("/validate-pod", pod({PREFIX + "name": "koordinator-default-quota"}))


def test_reservations_and_nodes_are_reviewed_only_where_asked_for() -> None:
    assert set(World().reviewer.paths) == {"/mutate-pod", "/validate-pod", "/mutate-quota", "/validate-quota"}
    world = World(reservations=True, amplifies_nodes=True)
    world.facts.profile_seen(ColocationProfile("a", scheduler_name="cotenant"))
    given = {"metadata": {"name": "r"}, "spec": {"template": {"spec": {}}}}
    made = patched(
        given,
        world.ask(
            "/mutate-reservation", given, resource="reservations", group="scheduling.koordinator.sh", namespace=None
        ),
    )
    assert made["spec"]["template"]["spec"] == {"schedulerName": "cotenant"}
    node = {
        "metadata": {"name": "n1", "annotations": {"node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.5}'}},
        "status": {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}},
    }
    more = {"resource": "nodes", "subResource": "status", "namespace": None}
    made = patched(node, world.ask("/mutate-node-status", node, "UPDATE", node, **more))
    assert made["status"]["allocatable"] == {"cpu": "6"}


@pytest.mark.parametrize(
    ("path", "part"), [("/mutate-pod", "labels"), ("/validate-pod", "labels"), ("/validate-pod", "annotations")]
)
def test_a_label_or_annotation_that_is_no_text_is_refused(path: str, part: str) -> None:
    response = World().ask(path, {"metadata": {"name": "p", part: {"a": {"b": 1}}}, "spec": {}})
    assert response["status"]["code"] == 400
    assert f"metadata.{part}[a]" in response["status"]["message"]


def test_a_quotas_shared_weight_that_is_no_text_is_refused() -> None:
    given = {"metadata": {"name": "q", "annotations": {PREFIX + "shared-weight": {"cpu": 1}}}, "spec": {}}
    response = World().ask("/mutate-quota", given, resource="elasticquotas", group="scheduling.sigs.k8s.io")
    assert response["status"]["code"] == 400
    assert "shared-weight" in response["status"]["message"]


def test_an_amount_that_is_a_map_is_refused_with_its_field() -> None:
    container = {"name": "a", "resources": {"requests": {"cpu": {}}}}
    given = {
        "metadata": {"labels": {"koordinator.sh/qosClass": "BE"}},
        "spec": {"priority": 5500, "containers": [container]},
    }
    world = World()
    world.facts.profile_seen(ColocationProfile("a"))
    response = world.ask("/mutate-pod", given)
    assert response["status"]["code"] == 400
    assert "spec.containers[0].resources.requests.cpu" in response["status"]["message"]


AGENTS = "system:serviceaccount:cotenant-node:cotenant-node"


@pytest.mark.parametrize(
    ("user", "pod", "nodes", "allowed"),
    [
        (AGENTS, "here", ["n1"], True),
        (AGENTS, "there", ["n1"], False),
        (AGENTS, "there", [], False),
        (AGENTS, "waiting", ["n1"], False),
        (AGENTS, "gone", ["n1"], True),  # 404 is the API server's to say
        ("alice", "there", [], True),
    ],
)
@pytest.mark.parametrize("namespace", ["n", "kube-system"])
def test_an_agent_evicts_pods_of_its_own_node(
    user: str, pod: str, nodes: list[str], allowed: bool, namespace: str
) -> None:
    w = World(agents=AGENTS)
    w.nodes = {"here": "n1", "there": "n2", "waiting": ""}
    info = {"username": user, "extra": {"authentication.kubernetes.io/node-name": nodes} if nodes else {}}
    eviction = {"metadata": {"name": pod, "namespace": namespace}}
    more = {"subResource": "eviction", "name": pod, "namespace": namespace, "userInfo": info}
    assert w.ask("/validate-eviction", eviction, **more)["allowed"] is allowed


@pytest.mark.parametrize(
    "name",
    ["scheduling.koordinator.sh/resource-status", "scheduling.koordinator.sh/device-allocated", "cotenant.io/seal"],
)
def test_what_a_pod_holds_is_the_schedulers_to_write(name: str) -> None:
    w = World(holders=frozenset({"scheduler"}))
    plain, noted, other = ({"metadata": {"annotations": entry}} for entry in ({}, {name: "{}"}, {name: "x"}))

    def allowed(obj: Any, old: Any = None, user: str = "alice", *groups: str) -> bool:
        operation = "CREATE" if old is None else "UPDATE"
        answer = w.ask("/validate-pod", obj, operation, old, userInfo={"username": user, "groups": list(groups)})
        return bool(answer["allowed"])

    assert [allowed(plain), allowed(noted), allowed(plain, plain), allowed(noted, noted)] == [True, False, True, True]
    assert [allowed(noted, plain), allowed(other, noted), allowed(plain, noted)] == [False] * 3
    assert allowed(noted, plain, "scheduler")
    assert allowed(noted, None, "root", "system:masters")


def test_a_quota_that_lists_namespaces_is_theirs_and_a_pod_that_runs_stays_in_its_own() -> None:
    w = World()
    w.facts.quota_seen(KnownQuota("home/closed", Quota("closed", is_parent=True, namespaces=("m",))))
    w.facts.quota_seen(KnownQuota("home/below", Quota("below", parent="closed")))
    w.facts.quota_seen(KnownQuota("home/open", Quota("open")))

    def allowed(label: str, namespace: str, old: str = "", node: str = "") -> bool:
        def pod(name: str) -> Any:
            return {"metadata": {"labels": {f"{PREFIX}name": name} if name else {}}, "spec": {"nodeName": node}}

        operation = "UPDATE" if old else "CREATE"
        return bool(
            w.ask("/validate-pod", pod(label), operation, pod(old) if old else None, namespace=namespace)["allowed"]
        )

    assert [allowed("below", entry) for entry in ("m", "home", "n")] == [True, True, False]
    assert allowed("open", "n")
    assert [allowed("open", "m", "below", node) for node in ("", "a")] == [True, False]
    assert [allowed("below", "n", "open", node) for node in ("", "a")] == [False, False]


def test_a_quota_without_a_namespace_is_of_the_reviews() -> None:
    world = World()
    document = quota("a", {"cpu": "8"})
    document["metadata"].pop("namespace", None)
    assert world.quota("CREATE", document)[1] == ""
    assert world.facts.home_of("a") == "n"
    document["metadata"] |= {"name": "b", "namespace": "own"}
    assert world.quota("CREATE", {**document})[1] == ""
    assert world.facts.home_of("b") == "own"


def test_a_pod_of_a_class_that_is_gone_gets_no_priority_of_it() -> None:
    world = World()
    world.facts.profile_seen(ColocationProfile("a", priority_class="koord-batch"))
    assert patched(pod(), world.ask("/mutate-pod", pod()))["spec"]["priority"] == 5500
    world.facts.class_gone("koord-batch")
    response = world.ask("/mutate-pod", pod())
    assert "priority" not in patched(pod(), response).get("spec", {})
    world.facts.class_seen(PriorityClassValue("koord-batch", 5000, "PreemptLowerPriority"))
    assert patched(pod(), world.ask("/mutate-pod", pod()))["spec"]["priority"] == 5000


def test_whether_quotas_have_pods_is_asked_only_where_a_rule_depends_on_it() -> None:
    """A quota that starts to be a parent, moves, or gets its first child below another one."""
    a, b, c = (Quota(name, Amounts.of({"cpu": 9000})) for name in "abc")
    below_a = replace(c, parent="a")
    parent_a, parent_b = replace(a, is_parent=True), replace(b, is_parent=True)
    for made, old, others, asked in (
        (a, None, [b], set()),
        (parent_a, None, [b], {"a"}),
        (replace(a, shared_weight=Amounts.of({"cpu": 1})), a, [b], set()),
        (parent_a, a, [b], {"a"}),
        (a, parent_a, [b], {"a"}),
        (below_a, None, [parent_a, b], {"a"}),
        (below_a, c, [parent_a, b], {"a", "c"}),
        (replace(c, parent="b"), below_a, [parent_a, parent_b], {"b", "c"}),
        (replace(below_a, shared_weight=Amounts.of({"cpu": 1})), below_a, [parent_a, b], set()),
        (a, a, [b], set()),
    ):
        looked: set[str] = set()

        async def has_pods(quota: Quota, looked: set[str] = looked) -> bool:
            looked.add(quota.name)
            return False

        asyncio.run(check_written(made, old, others, has_pods))
        assert looked == asked, (made, old)
