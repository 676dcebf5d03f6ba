"""CustomResourceDefinitions: serving, validation, and removal."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Widgets(NamedTuple):
    group: str
    crd: str
    path: str


@pytest.fixture
def widgets(kube: Any, namespace: str) -> Iterator[Widgets]:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "replicas": {"type": "integer", "default": 1},
                    "note": {"type": "string"},
                    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}, "replicas": {"type": "integer"}}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1},
        ],
    }
    names = {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
        "categories": ["all"],
    }
    crd = {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    kube.create(_CRDS, crd)
    where = f"{_CRDS}/widgets.{group}"
    kube.eventually(
        where,
        lambda obj: any(
            one["type"] == "Established" and one["status"] == "True"
            for one in obj.get("status", {}).get("conditions") or ()
        ),
    )
    path = f"/apis/{group}/v1/namespaces/{namespace}/widgets"
    kube.eventually(path, lambda page: page.get("kind") == "WidgetList")
    yield Widgets(group, where, path)
    kube.request("DELETE", where)


def widget(of: Widgets, name: str = "w", **spec: Any) -> dict[str, Any]:
    return {"kind": "Widget", "apiVersion": f"{of.group}/v1", "metadata": {"name": name}, "spec": {"size": 3, **spec}}


def test_a_custom_object_is_defaulted_and_stored(kube: Any, widgets: Widgets) -> None:
    made = kube.create(widgets.path, widget(widgets))
    assert (made["kind"], made["apiVersion"]) == ("Widget", f"{widgets.group}/v1")
    assert made["spec"] == {"size": 3, "replicas": 1}
    assert made["metadata"]["generation"] == 1
    assert kube.get(f"{widgets.path}/w")["spec"] == made["spec"]


@pytest.mark.parametrize("spec", [{"size": 0}, {"size": "big"}, {"size": None}, {"note": 1}])
def test_schema_violations_are_refused(kube: Any, widgets: Widgets, spec: dict[str, Any]) -> None:
    answer = kube.request("POST", widgets.path, widget(widgets, **spec))
    assert (answer.code, answer.reason) == (422, "Invalid")
    field = "spec." + next(iter(spec))
    assert any(cause["field"] == field for cause in answer.json["details"]["causes"])


def test_unknown_fields_are_pruned_unless_preserved_or_strict(kube: Any, widgets: Widgets) -> None:
    made = kube.create(widgets.path, widget(widgets, nope=1, open={"any": {"thing": 1}}))
    assert "nope" not in made["spec"]
    assert made["spec"]["open"] == {"any": {"thing": 1}}
    answer = kube.request("POST", widgets.path, widget(widgets, "x", nope=1), fieldValidation="Strict")
    assert answer.code == 400
    assert 'unknown field "spec.nope"' in answer.message


def test_status_is_written_through_its_subresource(kube: Any, widgets: Widgets) -> None:
    kube.create(widgets.path, {**widget(widgets), "status": {"ready": True}})
    assert "status" not in kube.get(f"{widgets.path}/w")
    kube.patch(f"{widgets.path}/w/status", {"status": {"ready": True}, "spec": {"size": 9}})
    read = kube.get(f"{widgets.path}/w")
    assert (read["status"], read["spec"]["size"]) == ({"ready": True}, 3)


def test_scale(kube: Any, widgets: Widgets) -> None:
    kube.create(widgets.path, widget(widgets))
    kube.patch(f"{widgets.path}/w/scale", {"spec": {"replicas": 5}})
    assert kube.get(f"{widgets.path}/w")["spec"]["replicas"] == 5
    assert kube.get(f"{widgets.path}/w/scale")["spec"]["replicas"] == 5


def test_columns(kube: Any, widgets: Widgets) -> None:
    kube.create(widgets.path, widget(widgets, note="hello"))
    table = kube.ok("GET", widgets.path, headers={"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
    assert [(one["name"], one["type"], one["priority"]) for one in table["columnDefinitions"]] == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Note", "string", 1),
    ]
    assert [row["cells"] for row in table["rows"]] == [["w", 3, "hello"]]


def test_strategic_patches_of_custom_kinds_are_refused(kube: Any, widgets: Widgets) -> None:
    kube.create(widgets.path, widget(widgets))
    answer = kube.request(
        "PATCH", f"{widgets.path}/w", {"spec": {"size": 4}}, content_type="application/strategic-merge-patch+json"
    )
    assert answer.code == 415
    assert kube.patch(f"{widgets.path}/w", {"spec": {"size": 4}})["spec"]["size"] == 4


def test_custom_objects_are_applied(kube: Any, widgets: Widgets) -> None:
    body = widget(widgets)
    apply = "application/apply-patch+yaml"
    kube.patch(f"{widgets.path}/w", body, apply, fieldManager="one")
    answer = kube.request(
        "PATCH", f"{widgets.path}/w", {**body, "spec": {"size": 7}}, content_type=apply, fieldManager="two"
    )
    assert answer.code == 409


def test_watches_see_custom_objects(kube: Any, widgets: Widgets) -> None:
    version = kube.get(widgets.path)["metadata"]["resourceVersion"]
    with kube.watch(widgets.path, resourceVersion=version) as watch:
        kube.create(widgets.path, widget(widgets))
        (added,) = watch.until("ADDED")
    assert added["object"]["kind"] == "Widget"


def test_custom_kinds_are_in_discovery_and_openapi(kube: Any, widgets: Widgets) -> None:
    found = {one["name"]: one for one in kube.get(f"/apis/{widgets.group}/v1")["resources"]}
    assert found["widgets"]["shortNames"] == ["wd"]
    assert set(found) == {"widgets", "widgets/status", "widgets/scale"}
    name = ".".join(reversed(widgets.group.split("."))) + ".v1.Widget"
    index = f"apis/{widgets.group}/v1"
    kube.eventually("/openapi/v3", lambda document: index in document["paths"])
    document = kube.eventually(
        f"/openapi/v3/{index}", lambda document: name in document.get("components", {}).get("schemas", {})
    )
    assert document["components"]["schemas"][name]["properties"]["spec"]["properties"]["size"]["type"] == "integer"


def test_custom_kinds_are_removed_with_their_definition(kube: Any, widgets: Widgets) -> None:
    kube.create(widgets.path, widget(widgets))
    kube.delete(widgets.crd)
    kube.eventually(widgets.path, lambda document: document.get("code") == 404)
    kube.eventually("/apis", lambda document: widgets.group not in {group["name"] for group in document["groups"]})
