"""Names, tokens and the registry."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import Resource, ResourceScope
from cotenant_local.apiserver.registry import ResourceRegistry
from cotenant_local.apiserver.verbs import continuation, names


@pytest.mark.parametrize(
    ("name", "form", "is_legal"),
    [
        ("a", names.SUBDOMAIN, True),
        ("a.b-c.d", names.SUBDOMAIN, True),
        ("a" * 253, names.SUBDOMAIN, True),
        ("a" * 254, names.SUBDOMAIN, False),
        ("A", names.SUBDOMAIN, False),
        ("-a", names.SUBDOMAIN, False),
        ("a..b", names.SUBDOMAIN, False),
        ("a\n", names.SUBDOMAIN, False),
        ("a.b", names.LABEL, False),
        ("a" * 63, names.LABEL, True),
        ("a" * 64, names.LABEL, False),
        ("A:b", names.PATH, True),
        ("a/b", names.PATH, False),
    ],
)
def test_legal_names(name: str, form: str, is_legal: bool) -> None:
    assert (names.problem(name, form) == "") is is_legal


def test_a_name_or_generate_name_is_required() -> None:
    assert [cause.field for cause in names.check("", "", names.SUBDOMAIN)] == ["metadata.name"]
    assert names.check("p-x", "p-", names.SUBDOMAIN) == []
    assert [cause.field for cause in names.check("p.x", "p.", names.SUBDOMAIN)] == ["metadata.generateName"]


def test_generated_names_fit_a_label() -> None:
    choose = random.Random(1).choice
    made = names.generate("x" * 80, choose)
    assert len(made) == 63
    assert set(made[58:]) <= set(names.ALPHABET)
    assert len({names.generate("p-", choose) for _ in range(200)}) > 190


def test_continue_tokens_round_trip() -> None:
    token = continuation.Token(7, ("ns", "näme"))
    assert continuation.decode(continuation.encode(token)) == token
    for bad in ("abc", "", "e30", continuation.encode(token)[:-3]):
        with pytest.raises(ApiError, match="continue key is not valid"):
            continuation.decode(bad)


def a_resource(version: str, kind: str = "Thing", plural: str = "things") -> Resource:
    return Resource(
        "example.com", version, kind, plural, kind.lower(), ResourceScope.NAMESPACED, frozenset({"get"}), is_custom=True
    )


def test_the_first_version_is_the_hub_until_it_is_removed() -> None:
    registry = ResourceRegistry()
    old, new = a_resource("v1beta1"), a_resource("v1")
    registry.add(old)
    registry.add(new)
    assert registry.find("example.com", "v1", "things") is new
    assert registry.hub(new) is old
    assert registry.stored("example.com", "things") is old
    registry.add(new, is_hub=True)
    assert registry.hub(old) is new
    assert registry.by_kind("example.com", "Thing") is new
    assert registry.by_kind("example.com", "Thing", "v1beta1") is old
    before = registry.revision
    registry.remove("example.com", "v1", "things")
    assert registry.revision > before
    assert registry.hub(old) is old
    assert registry.by_kind("example.com", "Thing") is old
    registry.remove("example.com", "v1beta1", "things")
    assert registry.resources() == ()
    assert registry.stored("example.com", "things") is None


def test_a_resource_is_replaced_at_its_url() -> None:
    registry = ResourceRegistry([a_resource("v1")])
    changed = replace(a_resource("v1"), short_names=("t",))
    registry.add(changed)
    assert registry.resources() == (changed,)
    assert registry.hub(changed) is changed
