"""Webhooks in the write path, and the effect of their failures on a write."""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.fakes.waiting import patience

_GROUP = "/apis/admissionregistration.k8s.io/v1"
Register = Callable[..., str]


@pytest.fixture
def register(kube: Any, namespace: str, configs: str, hook: Any) -> Iterator[Register]:
    """Register the hook for ConfigMaps of this case's namespace, and wait until it is called."""
    made: list[str] = []

    def do(kind: str = "Mutating", **fields: Any) -> str:
        name = f"case-{uuid.uuid4().hex[:8]}"
        webhook = {
            "name": f"{name}.example.com",
            "clientConfig": {"url": hook.url, "caBundle": hook.ca_bundle},
            "rules": [
                {
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["configmaps"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,  # no case waits for it, unless it says so
            **fields,
        }
        path = f"{_GROUP}/{kind.lower()}webhookconfigurations"
        kube.create(path, {"metadata": {"name": name}, "webhooks": [webhook]})
        made.append(f"{path}/{name}")
        if not kube.is_local:
            time.sleep(1.5)  # a real server reads configurations from a cache, without a signal when it is updated
        return name

    yield do
    for path in made:
        kube.request("DELETE", path)


def patch(*operations: dict[str, Any]) -> dict[str, str]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def config(name: str = "c", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": {"a": "b"}}


def test_a_mutating_webhook_changes_what_is_stored(kube: Any, configs: str, hook: Any, register: Register) -> None:
    hook.answer = lambda review: hook.allow(review, **patch({"op": "add", "path": "/data/x", "value": "y"}))
    register()
    made = kube.create(configs, config())
    assert made["data"] == {"a": "b", "x": "y"}
    (review,) = hook.asked
    assert (review["kind"], review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    request = review["request"]
    assert request["operation"] == "CREATE"
    assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (request["name"], request["dryRun"]) == ("c", False)
    assert request["object"]["data"] == {"a": "b"}
    assert request["oldObject"] is None
    assert request["userInfo"]["username"]


def test_what_a_webhook_adds_is_pruned_like_what_a_client_writes(
    kube: Any, configs: str, hook: Any, register: Register
) -> None:
    added = {"op": "add", "path": "/noSuchField", "value": "y"}
    hook.answer = lambda review: hook.allow(review, **patch(added, {"op": "add", "path": "/immutable", "value": False}))
    register()
    made = kube.create(configs, config())
    assert made["immutable"] is False
    assert "noSuchField" not in made


def test_updates_and_deletions_show_the_old_object(kube: Any, configs: str, hook: Any, register: Register) -> None:
    kube.create(configs, config())
    register()
    kube.patch(f"{configs}/c", {"data": {"a": "z"}})
    kube.delete(f"{configs}/c")
    update, deletion = (review["request"] for review in hook.asked)
    assert (update["operation"], update["oldObject"]["data"], update["object"]["data"]) == (
        "UPDATE",
        {"a": "b"},
        {"a": "z"},
    )
    assert (deletion["operation"], deletion["oldObject"]["data"], deletion["object"]) == ("DELETE", {"a": "z"}, None)


def test_a_denial_is_returned_with_its_reason(kube: Any, configs: str, hook: Any, register: Register) -> None:
    hook.answer = lambda review: hook.allow(review, allowed=False, status={"code": 403, "message": "not today"})
    name = register("Validating", failurePolicy="Ignore")  # a denial also applies under Ignore
    answer = kube.request("POST", configs, config())
    assert answer.code == 403
    assert answer.message == f'admission webhook "{name}.example.com" denied the request: not today'
    assert kube.request("GET", f"{configs}/c").code == 404


def test_a_denial_without_explanation(kube: Any, configs: str, hook: Any, register: Register) -> None:
    hook.answer = lambda review: hook.allow(review, allowed=False)
    name = register("Validating")
    answer = kube.request("POST", configs, config())
    assert answer.code == 400
    assert answer.message == f'admission webhook "{name}.example.com" denied the request without explanation'


def test_warnings_reach_the_user(kube: Any, configs: str, hook: Any, register: Register) -> None:
    hook.answer = lambda review: hook.allow(review, warnings=["mind the step"])
    register()
    answer = kube.request("POST", configs, config())
    assert answer.code == 201
    assert '299 - "mind the step"' in answer.header("warning")


def wrong_uid(review: dict[str, Any]) -> Any:
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "response": {"uid": "other", "allowed": True},
    }


def no_kind(review: dict[str, Any]) -> Any:
    return {"response": {"uid": review["request"]["uid"], "allowed": True}}


def no_patch_type(review: dict[str, Any]) -> Any:
    response = {"uid": review["request"]["uid"], "allowed": True, "patch": patch()["patch"]}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}


_BAD = {
    "wrong uid": wrong_uid,
    "no kind": no_kind,
    "no patch type": no_patch_type,
    "nonsense": lambda review: b"nonsense",
    "an error": lambda review: 500,
}


@pytest.mark.parametrize("answer", _BAD.values(), ids=_BAD.keys())
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_malformed_response_is_a_failed_call(
    kube: Any, configs: str, hook: Any, register: Register, answer: Any, policy: str
) -> None:
    hook.answer = answer
    name = register(failurePolicy=policy)
    told = kube.request("POST", configs, config())
    if policy == "Ignore":
        assert told.code == 201
    else:
        assert (told.code, told.reason) == (500, "InternalError")
        assert f'failed calling webhook "{name}.example.com"' in told.message


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_patch_that_does_not_apply_refuses_under_any_policy(
    kube: Any, configs: str, hook: Any, register: Register, policy: str
) -> None:
    hook.answer = lambda review: hook.allow(
        review, **patch({"op": "add", "path": "/metadata/annotations/x", "value": "y"})
    )
    register(failurePolicy=policy)
    assert kube.request("POST", configs, config()).code == 500
    assert kube.request("GET", f"{configs}/c").code == 404


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_an_unreachable_webhook(kube: Any, configs: str, hook: Any, register: Register, policy: str) -> None:
    hook.stop()
    name = register(failurePolicy=policy)
    answer = kube.request("POST", configs, config())
    if policy == "Ignore":
        assert answer.code == 201
    else:
        assert answer.code == 500
        assert (
            f'Internal error occurred: failed calling webhook "{name}.example.com": failed to call webhook: Post '
            f'"{hook.url}' in answer.message
        )


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_slow_webhook_times_out(kube: Any, configs: str, hook: Any, register: Register, policy: str) -> None:
    timed_out = threading.Event()

    def slow(review: dict[str, Any]) -> Any:
        timed_out.wait(patience(10))
        return hook.allow(review)

    hook.answer = slow
    register(failurePolicy=policy, timeoutSeconds=1)
    try:
        answer = kube.request("POST", configs, config())
    finally:
        timed_out.set()
    assert answer.code == (201 if policy == "Ignore" else 500)
    if policy == "Fail":
        assert "deadline exceeded" in answer.message


def test_selectors_exclude_objects(kube: Any, configs: str, hook: Any, register: Register) -> None:
    hook.answer = lambda review: hook.allow(review, allowed=False)
    register("Validating", objectSelector={"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]})
    kube.create(configs, config("free", labels={"skip": "yes"}))
    assert kube.request("POST", configs, config("caught")).code == 400
    assert len(hook.asked) == 1


def test_a_dry_run_is_marked_in_the_review(kube: Any, configs: str, hook: Any, register: Register) -> None:
    register()
    kube.create(configs, config(), dryRun="All")
    assert [review["request"]["dryRun"] for review in hook.asked] == [True]


def test_webhook_changes_are_validated(kube: Any, configs: str, hook: Any, register: Register) -> None:
    hook.answer = lambda review: hook.allow(
        review, **patch({"op": "add", "path": "/metadata/labels", "value": {"a b": "c"}})
    )
    register()
    assert kube.request("POST", configs, config()).code == 422


def test_a_webhook_behind_a_service(kube: Any, namespace: str, configs: str, hook: Any, register: Register) -> None:
    if not kube.is_local:
        pytest.skip("a real server resolves services through its cluster's network")
    reference = {"namespace": namespace, "name": "hook", "path": "/hook", "port": 443}
    name = register(clientConfig={"service": reference, "caBundle": ""}, failurePolicy="Fail")
    answer = kube.request("POST", configs, config())
    assert answer.code == 500
    assert 'service "hook" not found' in answer.message
    kube.create(
        f"/api/v1/namespaces/{namespace}/services", {"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}}
    )
    assert 'no endpoints available for service "hook"' in kube.request("POST", configs, config()).message
    assert name


@pytest.mark.parametrize(
    "fields",
    [
        {"clientConfig": {"url": "http://127.0.0.1/"}},
        {"clientConfig": {}},
        {"timeoutSeconds": 31},
        {"sideEffects": "Some"},
        {"admissionReviewVersions": ["v9"]},
        {"failurePolicy": "Perhaps"},
    ],
)
def test_configurations_are_checked(register: Register, fields: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="422"):
        register(**fields)


@pytest.mark.parametrize(
    ("expression", "calls"),
    [
        ("true", 1),
        ("request.operation == 'CREATE' && object.metadata.name.startsWith('c')", 1),
        ("request.userInfo.username == 'nobody'", 0),
        ("!has(object.metadata.labels) || object.metadata.labels['a'] == 'b'", 1),
        ("oldObject != null", 0),
    ],
)
def test_a_webhook_is_called_where_its_conditions_hold(
    expression: str, calls: int, kube: Any, configs: str, hook: Any, register: Register
) -> None:
    register(matchConditions=[{"name": "a", "expression": "true"}, {"name": "b", "expression": expression}])
    kube.create(configs, config())
    assert len(hook.asked) == calls


@pytest.mark.parametrize(("policy", "code"), [("Fail", 403), ("Ignore", 201)])
def test_a_condition_without_a_value_decides_by_the_failure_policy(
    policy: str, code: int, kube: Any, configs: str, hook: Any, register: Register
) -> None:
    register(matchConditions=[{"name": "a", "expression": "object.data.missing == 'x'"}], failurePolicy=policy)
    assert kube.request("POST", configs, config()).code == code
    assert not hook.asked


def test_a_false_condition_counts_before_one_without_a_value(
    kube: Any, configs: str, hook: Any, register: Register
) -> None:
    failing = {"name": "a", "expression": "object.data.missing == 'x'"}
    register(matchConditions=[failing, {"name": "b", "expression": "false"}])
    assert kube.request("POST", configs, config()).code == 201
    assert not hook.asked


@pytest.mark.parametrize("expression", ["object.", "", "1 +"])
def test_a_condition_that_is_no_cel_is_refused(expression: str, register: Register) -> None:
    with pytest.raises(AssertionError, match="422"):
        register(matchConditions=[{"name": "c", "expression": expression}])
