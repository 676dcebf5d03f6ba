"""Requests: refusals and their messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

_STATUS = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}


def refused(answer: Any, code: int, reason: str | None = None) -> str:
    assert answer.code == code, answer.body[:400]
    document = answer.json
    assert {key: document.get(key) for key in _STATUS} == _STATUS
    assert document["code"] == code
    if reason is not None:
        assert document["reason"] == reason
    return str(document["message"])


def test_no_token_is_unauthorized(kube: Any) -> None:
    answer = kube.request("GET", "/api/v1/namespaces", headers={"authorization": "Bearer wrong"})
    assert refused(answer, 401, "Unauthorized") == "Unauthorized"


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_needs_no_token(kube: Any, path: str) -> None:
    if not kube.is_local:
        pytest.skip("whether a real server lets the unknown in is its operator's choice")
    answer = kube.request("GET", path, headers={"authorization": ""})
    assert (answer.code, answer.body) == (200, b"ok")


def test_the_version_is_a_kubernetes_version(kube: Any) -> None:
    version = kube.get("/version")
    assert version["major"] == "1"
    assert version["gitVersion"].startswith("v1.")


@pytest.mark.parametrize(
    "path", ["/api/v1/nonsense", "/apis/apps/v9/deployments", "/api/v1/namespaces/default/pods/p/nonsense"]
)
def test_unknown_resources_are_not_found(kube: Any, path: str) -> None:
    message = refused(kube.request("GET", path), 404, "NotFound")
    assert message == "the server could not find the requested resource"


def test_a_missing_object_is_named_in_the_404(kube: Any, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/nobody"
    answer = kube.request("GET", path)
    assert refused(answer, 404, "NotFound") == 'deployments.apps "nobody" not found'
    assert answer.json["details"] == {"name": "nobody", "group": "apps", "kind": "deployments"}


def test_unsupported_methods_are_refused(kube: Any, configs: str) -> None:
    for method, path in (("PUT", configs), ("POST", f"{configs}/x"), ("PATCH", configs)):
        refused(kube.request(method, path, {}), 405, "MethodNotAllowed")


@pytest.mark.parametrize(
    "body", [b"", b"{bad", b"[]", b'"x"', b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}']
)
def test_bodies_of_another_kind_are_refused(kube: Any, configs: str, body: bytes) -> None:
    refused(kube.request("POST", configs, body), 400, "BadRequest")


def test_yaml_that_does_not_parse(kube: Any, configs: str) -> None:
    refused(kube.request("POST", configs, b"a: [", content_type="application/yaml"), 400, "BadRequest")


def test_yaml_is_read(kube: Any, configs: str) -> None:
    body = b"metadata: {name: from-yaml}\ndata: {a: b}\n"
    made = kube.ok("POST", configs, body, content_type="application/yaml")
    assert made["data"] == {"a": "b"}


def test_yaml_is_written(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "y"}})
    answer = kube.request("GET", f"{configs}/y", headers={"accept": "application/yaml"})
    assert answer.header("content-type") == "application/yaml"
    assert b"\nkind: ConfigMap\n" in b"\n" + answer.body


@pytest.mark.parametrize("media", ["text/plain", "application/xml", "application/x-www-form-urlencoded"])
def test_other_content_types_are_unsupported(kube: Any, configs: str, media: str) -> None:
    refused(kube.request("POST", configs, b"{}", content_type=media), 415, "UnsupportedMediaType")


def test_patches_need_a_known_content_type(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c"}})
    refused(kube.request("PATCH", f"{configs}/c", {}, content_type="application/json"), 415, "UnsupportedMediaType")


def test_unacceptable_representations_are_refused(kube: Any, configs: str) -> None:
    refused(kube.request("GET", configs, headers={"accept": "text/csv"}), 406, "NotAcceptable")


def test_deep_json_is_refused(kube: Any, configs: str) -> None:
    body = b'{"metadata":{"name":"d"},"data":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001
    refused(kube.request("POST", configs, body), 400)


def test_large_bodies_are_refused(kube: Any, configs: str) -> None:
    body = json.dumps({"metadata": {"name": "big"}, "data": {"x": "a" * (4 << 20)}}).encode()
    try:
        answer = kube.request("POST", configs, body)
    except OSError:
        return  # refused before it was sent completely
    refused(answer, 413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"dryRun": "Some"}, 422),
        ({"fieldValidation": "Perhaps"}, 422),
        ({"fieldManager": "x" * 129}, 422),
    ],
)
def test_write_options_are_checked(kube: Any, configs: str, query: dict[str, str], code: int) -> None:
    refused(kube.request("POST", configs, {"metadata": {"name": "c"}}, **query), code, "Invalid")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"limit": "x"}, 400),
        ({"labelSelector": "a=b=c"}, 400),
        ({"fieldSelector": "spec.nonsense=1"}, 400),
        ({"continue": "nonsense"}, 400),
        ({"resourceVersion": "x"}, 400),
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"watch": "true", "sendInitialEvents": "true", "timeoutSeconds": "1"}, 422),
    ],
)
def test_list_options_are_checked(kube: Any, configs: str, query: dict[str, str], code: int) -> None:
    refused(kube.request("GET", configs, **query), code)


def test_apply_needs_a_manager(kube: Any, configs: str) -> None:
    answer = kube.request(
        "PATCH", f"{configs}/c", {"kind": "ConfigMap", "apiVersion": "v1"}, content_type="application/apply-patch+yaml"
    )
    assert "fieldManager" in refused(answer, 422, "Invalid")


def test_strict_validation_names_unknown_and_duplicate_fields(kube: Any, configs: str) -> None:
    body = b'{"metadata":{"name":"b","nope":1},"data":{"x":"y","x":"z"},"foo":1}'
    message = refused(kube.request("POST", configs, body, fieldValidation="Strict"), 400, "BadRequest")
    assert "strict decoding error: " in message
    for problem in ('unknown field "metadata.nope"', 'duplicate field "data.x"', 'unknown field "foo"'):
        assert problem in message


def test_unknown_and_duplicate_fields_are_warnings_by_default(kube: Any, configs: str) -> None:
    body = b'{"metadata":{"name":"b"},"data":{"x":"y","x":"z"},"foo":1}'
    answer = kube.request("POST", configs, body)
    assert answer.code == 201
    assert '299 - "unknown field \\"foo\\""' in answer.header("warning")
    assert '299 - "duplicate field \\"data.x\\""' in answer.header("warning")
    assert "foo" not in answer.json
    assert answer.json["data"] == {"x": "z"}


def test_unknown_and_duplicate_fields_may_be_ignored(kube: Any, configs: str) -> None:
    answer = kube.request("POST", configs, b'{"metadata":{"name":"b"},"foo":1}', fieldValidation="Ignore")
    assert (answer.code, answer.header("warning")) == (201, "")


def test_a_dry_run_changes_nothing(kube: Any, configs: str) -> None:
    made = kube.create(configs, {"metadata": {"name": "c"}}, dryRun="All")
    assert made["metadata"]["name"] == "c"
    refused(kube.request("GET", f"{configs}/c"), 404)


def test_the_field_manager_comes_from_the_user_agent(kube: Any, configs: str) -> None:
    made = kube.create(configs, {"metadata": {"name": "c"}, "data": {"a": "b"}})
    assert [one["manager"] for one in made["metadata"]["managedFields"]] == ["kube-cases"]
    named = kube.create(configs, {"metadata": {"name": "d"}, "data": {"a": "b"}}, fieldManager="me")
    assert [one["manager"] for one in named["metadata"]["managedFields"]] == ["me"]


def test_large_lists_are_compressed_on_request(kube: Any, configs: str) -> None:
    for name in ("a", "b"):
        kube.create(configs, {"metadata": {"name": name}, "data": {"x": name * 100_000}})
    answer = kube.request("GET", configs, headers={"accept-encoding": "gzip"})
    assert answer.header("content-encoding") == "gzip"
    assert len(answer.body) < 20_000


def test_responses_can_be_indented(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c"}})
    assert b'\n  "kind": "ConfigMap"' in kube.request("GET", f"{configs}/c", pretty="true").body
    assert b"\n " not in kube.request("GET", f"{configs}/c").body


def test_names_in_url_and_object_must_agree(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c"}})
    refused(kube.request("PUT", f"{configs}/c", {"metadata": {"name": "other"}}), 400, "BadRequest")
    refused(kube.request("POST", configs, {"metadata": {"name": "d", "namespace": "other"}}), 400, "BadRequest")


def test_access_reviews_are_answered(kube: Any) -> None:
    spec = {"resourceAttributes": {"verb": "create", "resource": "pods"}}
    review = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": spec}
    answer = kube.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert answer.code == 201
    assert answer.json["status"]["allowed"] is True
