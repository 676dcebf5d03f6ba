"""The table of a pod's fields, a server's unknown ones, and pods that set them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.cache.decoding import ListWatchDecoder, WatchEvent
from cotenant.drivers.kube.kinds.pod.coverage import FIELDS, CoverageVerdict, Definition, UnknownField, unknown_fields
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS, Container, PodObject, PodSpec, Volume
from cotenant.drivers.kube.kinds.pod.unknown_form import pods_with, set_fields
from cotenant.drivers.kube.manifests.openapi import document as definitions

CORE = "io.k8s.api.core.v1."
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = ("affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "strength")


def a_document() -> dict[str, Any]:
    """The definitions of the local server, as an OpenAPI document has them."""
    text = json.dumps({name: one for name, one in definitions().items() if name.startswith(CORE)})
    return json.loads(text.replace("#/$defs/", "#/components/schemas/"))  # type: ignore[no-any-return]


def compared(document: dict[str, Any]) -> list[str]:
    found = unknown_fields(msgspec.convert(document, dict[str, Definition], strict=False))
    return [f"{one}{' steers' if one.may_steer else ''}" for one in found]


def test_every_field_of_a_known_server_has_a_verdict() -> None:
    assert compared(a_document()) == []


def test_new_fields_are_found_at_every_depth() -> None:
    document = a_document()
    says = {"podPlan": "How the scheduler places it.", "greeting": "What the kubelet says first."}
    for name, text in says.items():
        document[f"{CORE}PodSpec"]["properties"][name] = {"type": "string", "description": text}
    document[f"{CORE}PodAffinityTerm"]["properties"]["strength"] = {"description": "A topology term's strength."}
    document[f"{CORE}SecurityContext"]["properties"]["node"] = {
        "description": "Below an irrelevant one: not looked at."
    }
    assert sorted(compared(document)) == [
        f"spec.affinity.podAffinity.{PREFERRED}.podAffinityTerm.strength steers",
        f"spec.affinity.podAffinity.{TERM[2]}.strength steers",
        f"spec.affinity.podAntiAffinity.{PREFERRED}.podAffinityTerm.strength steers",
        f"spec.affinity.podAntiAffinity.{TERM[2]}.strength steers",
        "spec.greeting",
        "spec.podPlan steers",
    ]


@pytest.mark.parametrize(("name", "form"), [("PodSpec", PodSpec), ("Container", Container), ("Volume", Volume)])
def test_what_is_honoured_is_read(name: str, form: type[msgspec.Struct]) -> None:
    read = {one.encode_name for one in msgspec.structs.fields(form)}
    verdicts = FIELDS[name]
    assert {one for one, verdict in verdicts.items() if verdict is CoverageVerdict.HONOURED} <= read
    refused = {one for one, verdict in verdicts.items() if verdict is CoverageVerdict.NOT_SUPPORTED}
    assert read - {one for one, verdict in verdicts.items() if verdict is CoverageVerdict.HONOURED} == refused


@pytest.mark.parametrize(
    "field", [one for one, verdict in FIELDS["PodSpec"].items() if verdict is CoverageVerdict.NOT_SUPPORTED]
)
def test_what_is_not_supported_is_named_on_the_pod(field: str) -> None:
    value: Any = [{"name": "c"}] if field == "resourceClaims" else {"name": "w"}
    obj = msgspec.convert({"metadata": {"name": "p"}, "spec": {field: value}}, PodObject)
    assert any(sentence.startswith(f"spec.{field}: ") for sentence in PodReader().pod(obj).unsupported)


def test_pods_are_read_with_unknown_fields() -> None:
    kind = pods_with([("podPlan",), TERM, ("containers", "resources", "tier")])
    spec: dict[str, Any] = {
        "podPlan": {"a": [1]},
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "tier": "gold"}}] * 2,
        "affinity": {"podAffinity": {TERM[2]: [{"topologyKey": "zone", "strength": 3}]}},
    }
    line = {"type": "ADDED", "object": {"metadata": {"name": "p", "uid": "u"}, "spec": spec}}
    event = ListWatchDecoder(kind).line(json.dumps(line).encode())
    assert isinstance(event, WatchEvent)
    found = event.obj.spec
    assert found is not None
    assert set(set_fields(found)) == {"spec.podPlan", "spec." + ".".join(TERM), "spec.containers.resources.tier"}
    pod = PodReader().pod(event.obj)
    assert pod.pod.requests.get("cpu") == 2000
    assert sum("this version does not know the field" in one for one in pod.unsupported) == 3


def test_a_pod_that_sets_none_of_them_is_read_as_before() -> None:
    document = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c"}], "podPlan": None}}
    text = json.dumps(document)
    read = msgspec.json.decode(text, type=pods_with([("podPlan",)]).form)
    assert PodReader().pod(read).unsupported == PodReader().pod(msgspec.json.decode(text, type=PodObject)).unsupported


def test_without_unknown_fields_the_form_is_the_usual_one() -> None:
    assert pods_with([]) is PODS
    assert set_fields(PodSpec()) == ()
    assert str(UnknownField(("a", "b"), True)) == "spec.a.b"
