"""Validation of CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.custom.definition import unenforced_warnings
from cotenant_local.apiserver.schema.builtin import builtin_schema

CRD = builtin_schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def definition(schema: Manifest | None = None, **spec: Any) -> Manifest:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or {"type": "object"}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [version],
            **spec,
        },
    }


def causes(obj: Manifest, old: Manifest | None = None) -> list[str]:
    CRD.prune(obj)
    CRD.default(obj)
    return [f"{cause.field}: {cause.message}" for cause in CRD.validate(obj, old)]


def properties(**entry: Manifest) -> Manifest:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": entry}}}


def test_defaults_of_names_and_conversion() -> None:
    obj = definition()
    assert causes(obj) == []
    assert obj["spec"]["names"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
    }
    assert obj["spec"]["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"scope": "Galaxy"}, 'spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"'),
        (
            {"group": "example.org"},
            'metadata.name: Invalid value: "widgets.example.com": must be spec.names.plural+"."+spec.group',
        ),
        ({"versions": []}, "spec.versions: Required value: must have at least one version"),
        (
            {"conversion": {"strategy": "Webhook"}},
            "spec.conversion.strategy: Forbidden: this server does not convert by webhook: serve versions of one "
            "shape with strategy None",
        ),
        ({"names": {"plural": "widgets"}}, "spec.names.singular: Required value"),
    ],
)
def test_names_group_and_scope_are_validated(spec: Manifest, words: str) -> None:
    assert words in causes(definition(**spec))


def test_exactly_one_version_is_stored() -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    both = [{"name": name, "served": True, "storage": True, "schema": schema} for name in ("v1", "v2")]
    assert causes(definition(versions=both)) == [
        'spec.versions: Invalid value: ["v1","v2"]: must have exactly one version marked as storage version'
    ]


ROOT = "spec.versions[0].schema.openAPIV3Schema"
SPEC = f"{ROOT}.properties[spec]"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"properties": {"a": {"type": "string"}}}, f"{ROOT}.type: Required value: must not be empty at the root"),
        (
            properties(a={"description": "x"}),
            f"{SPEC}.properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (properties(a={"type": "text"}), f"{SPEC}.properties[a].type: Unsupported value"),
        (properties(a={"type": "array"}), f"{SPEC}.properties[a].items: Required value: must be specified"),
        (
            properties(a={"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
            f"{SPEC}.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime "
            "complexity becomes quadratic",
        ),
        (
            properties(a={"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": True}),
            f"{SPEC}.properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual "
            "exclusive",
        ),
        (
            properties(a={"type": "string", "anyOf": [{"type": "string"}]}),
            f"{SPEC}.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (properties(a={"type": "string", "pattern": "("}), f"{SPEC}.properties[a].pattern: Invalid value"),
        (
            properties(a={"type": "integer", "default": "x"}),
            f'{SPEC}.properties[a].default: Invalid value: "x": Invalid value: "string": in body must be of type '
            'integer: "string"',
        ),
        (
            properties(
                a={
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                }
            ),
            f"{SPEC}.properties[a].items.properties[k].default: Required value: this property is in "
            "x-kubernetes-list-map-keys",
        ),
    ],
)
def test_the_schema_must_be_structural(schema: Manifest, words: str) -> None:
    found = causes(definition(schema))
    assert any(name.startswith(words) for name in found), found


def test_schemas_under_items_are_decoded() -> None:
    with pytest.raises(ApiError, match="cannot unmarshal number"):
        causes(definition(properties(a={"type": "array", "items": {"type": 5}})))
    obj = definition(properties(a={"type": "array", "items": {"type": "object", "properties": {"b": {"bogus": 1}}}}))
    assert any("items.properties[b].type: Required value" in cause for cause in causes(obj))


def test_depth_is_bounded() -> None:
    schema: Manifest = {"type": "string"}
    for _ in range(110):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(ApiError, match="exceeded max depth"):
        causes(definition(schema))
    schema = {"type": "string"}
    for _ in range(70):
        schema = {"type": "object", "properties": {"a": schema}}
    assert any("levels are not supported" in cause for cause in causes(definition(schema)))


def test_names_of_an_established_definition_are_immutable() -> None:
    old = definition()
    causes(old)
    old["status"] = {"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v1"]}
    new = definition(scope="Cluster")
    assert 'spec.scope: Invalid value: "Cluster": field is immutable' in causes(new, old)


def test_a_stored_version_cannot_be_removed() -> None:
    obj = definition()
    obj["status"] = {
        "storedVersions": ["v1beta1"],
        "conditions": [],
        "acceptedNames": {"plural": "widgets", "kind": "Widget"},
    }
    assert any(
        cause.startswith('status.storedVersions[0]: Invalid value: "v1beta1": missing from') for cause in causes(obj)
    )


def test_cel_rules_are_accepted_with_a_warning() -> None:
    obj = definition(properties(a={"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}))
    assert causes(obj) == []
    (warning,) = unenforced_warnings(obj)
    assert "not enforced" in warning
    assert unenforced_warnings(definition()) == []


@pytest.mark.parametrize("path", ["spec.x", ".spec[", "..x", ".spec[0:2]", ""])
def test_a_column_needs_a_supported_json_path(path: str) -> None:
    obj = definition()
    obj["spec"]["versions"][0]["additionalPrinterColumns"] = [{"name": "X", "type": "string", "jsonPath": path}]
    assert any("additionalPrinterColumns[0].jsonPath" in cause for cause in causes(obj))
