"""Colocation profiles: what differs from upstream, and what the conformance cases leave open."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.model.cluster.colocation_profile import PROFILES_APPLIED, ColocationProfile, PriorityClassValue
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.policy.admission.profiles import Mutation, mutate_pod, note_profiles, workload_draw
from cotenant.policy.admission.translation import translate

BATCH = PriorityClassValue("koord-batch", 5500, "PreemptLowerPriority")
CLASSES = {"koord-batch": BATCH}


def pod(**more: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": "2"}}}
    return {"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {"containers": [container]} | more}


def mutated(profiles: list[ColocationProfile], given: dict[str, Any] | None = None, drawn: int = 0) -> Mutation:
    return mutate_pod(
        given or pod(), profiles, Labels.of({}), CLASSES, lambda name: drawn, lambda document, patch: document
    )


def test_the_submitted_pod_is_not_changed_and_each_step_has_a_reason() -> None:
    given = pod()
    done = mutated([ColocationProfile("spark", qos=QoSClass.BE, priority_class="koord-batch")], given)
    assert given == pod()
    assert done.applied == ("spark",)
    assert done.reasons == (
        "profile spark: QoS BE, priority 5500 (koord-batch)",
        "resources translated: the pod's class is batch",
    )
    resources = done.document["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "1Gi"}
    assert resources["limits"] == {"kubernetes.io/batch-cpu": "2000"}


def test_a_limit_without_a_request_becomes_the_request() -> None:
    given = pod(containers=[{"name": "main", "resources": {"limits": {"cpu": 2, "memory": "1G"}}}], priority=5500)
    resources = mutated([ColocationProfile("a")], given).document["spec"]["containers"][0]["resources"]
    assert (
        resources["requests"]
        == resources["limits"]
        == {
            "kubernetes.io/batch-cpu": "2000",
            "kubernetes.io/batch-memory": "1G",
        }
    )


def test_resources_of_the_pod_as_a_whole_are_refused() -> None:
    done = mutated([ColocationProfile("a")], pod(priority=5500, resources={"requests": {"cpu": "1"}}))
    assert done.refusal is not None
    assert (done.refusal.rule, done.refusal.field) == ("pod-level-resources", "spec.resources.requests")
    assert mutated([ColocationProfile("a")], pod(priority=9500, resources={"requests": {"cpu": "1"}})).refusal is None


def test_a_pod_that_no_profile_matches_is_left_alone() -> None:
    profile = ColocationProfile("a", pods=LabelSelector.of({"app": "other"}), qos=QoSClass.BE)
    assert mutated([profile], pod(priority=5500)).document == pod(priority=5500)


def test_mappings_read_the_keys_as_they_were() -> None:
    profile = ColocationProfile("a", label_keys=(("app", "b"), ("b", "c")))
    assert mutated([profile]).document["metadata"]["labels"] == {"app": "x", "b": "x"}


def test_two_profiles_with_different_classes_are_a_warning() -> None:
    first, second = ColocationProfile("a", qos=QoSClass.BE), ColocationProfile("b", qos=QoSClass.LS)
    done = mutated([second, first])
    assert done.warnings == ("profiles a and b set different QoS classes: LS of the second is used",)


@pytest.mark.parametrize(("share", "acts"), [(0, False), (9, False), (10, True), (100, True), (None, True)])
def test_a_share_acts_on_draws_up_to_it(share: int | None, acts: bool) -> None:
    done = mutated([ColocationProfile("a", probability=share, labels=(("l", "1"),))], drawn=10)
    assert ("l" in done.document["metadata"]["labels"]) is acts


def test_pods_of_one_workload_draw_alike_and_shares_grow() -> None:
    def owned(replica_set: str, revision: str) -> dict[str, Any]:
        owner = {"kind": "ReplicaSet", "name": f"{replica_set}-{revision}", "controller": True}
        return {"metadata": {"ownerReferences": [owner], "labels": {"pod-template-hash": revision}}}

    draws = [workload_draw("ns", owned("web", revision))("a") for revision in ("aaa", "bbb")]
    assert len(set(draws)) == 1
    many = {workload_draw("ns", owned(f"web-{i}", "r"))("a") for i in range(500)}
    assert many <= set(range(100))
    assert len(many) > 90


def test_the_profiles_are_named_in_an_annotation() -> None:
    document: dict[str, Any] = {}
    note_profiles(document, ())
    assert document == {}
    note_profiles(document, ("a", "b"))
    assert document["metadata"]["annotations"] == {PROFILES_APPLIED: "a,b"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": {}}, "spec.containers"),
        ({"containers": ["x"]}, "spec.containers[0]"),
        ({"containers": [{"resources": {"requests": {"cpu": "x"}}}]}, "spec.containers[0].resources.requests.cpu"),
    ],
)
def test_what_cannot_be_read_names_its_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        translate({"spec": spec | {"priority": 5500}})
    assert field in str(raised.value)
