"""Profiles of a class select each workload's own pods, as the webhook reads them."""

from __future__ import annotations

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.colocation_profile import ColocationProfileObject, read_colocation_profile
from cotenant.model.apps.objects import apply_order, ref_of
from cotenant.model.apps.release import ReleaseName
from cotenant.model.cluster.class_names import CLASSES, check_class
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.services.apps.classes import has_class, profiles_of

RELEASE = ReleaseName("shop", "web")


def workload(kind: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


TEMPLATE = {"template": {"metadata": {"labels": {"app": "x"}}}}


@pytest.mark.parametrize(
    "document",
    [
        workload("Deployment", {"selector": {"matchLabels": {"app": "x"}}}),
        workload("Job", TEMPLATE),
        workload("CronJob", {"jobTemplate": {"spec": TEMPLATE}}),
    ],
)
def test_a_workload_s_pods_and_no_others_are_selected(document: JsonObject) -> None:
    (made,) = profiles_of([document, workload("Service", {})], RELEASE, "batch")
    profile = read_colocation_profile(msgspec.convert(made, ColocationProfileObject))
    assert profile.pods is not None
    assert profile.namespaces is not None
    assert profile.pods.matches({"app": "x", "more": "y"})
    assert not profile.pods.matches({"app": "y"})
    assert not profile.namespaces.matches({"kubernetes.io/metadata.name": "other"})
    assert (profile.qos.value, profile.priority_class) == CLASSES["batch"]
    assert apply_order(ref_of(made)) < apply_order(ref_of(document))


def test_a_profile_s_name_is_no_other_release_s() -> None:
    document = workload("Deployment", {"selector": {"matchLabels": {"app": "x"}}})
    names = {
        profiles_of([document], ReleaseName(*release), "mid")[0]["metadata"]["name"]
        for release in (("a", "b-c"), ("a-b", "c"), ("a", "b"))
    }
    assert len(names) == 3


def test_what_nothing_selects_is_refused_and_an_unknown_class_too() -> None:
    with pytest.raises(InvalidInput, match="pod template"):
        profiles_of([workload("Job", {"template": {}})], RELEASE, "batch")
    with pytest.raises(InvalidInput, match="--class"):
        check_class("fast")
    assert profiles_of([workload("Job", {"template": {}})], RELEASE, "") == []


def test_a_pod_has_its_class_by_label_and_priority() -> None:
    pod = {"metadata": {"labels": {"koordinator.sh/qosClass": "BE"}}, "spec": {"priorityClassName": "koord-batch"}}
    assert has_class(pod, "batch")
    assert not has_class(pod, "prod")
