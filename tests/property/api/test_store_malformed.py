"""Any request of a client is stored or refused with a Status: no exception, no half-written object."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.contract import ApiAnswer, ListOptions
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api

TERMS = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
                "ports": [{"containerPort": 80}],
            }
        ],
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "nodeSelector": {"a": "b"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}},
        "schedulingGates": [{"name": "a.b/c"}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "activeDeadlineSeconds": 10,
        "priorityClassName": "system-node-critical",
    },
}
SERVICE = {
    **TEMPLATE,
    "spec": {k: v for k, v in TEMPLATE["spec"].items() if k not in ("restartPolicy", "activeDeadlineSeconds")},
}
LABELS = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}
METADATA = {
    "name": "x",
    "labels": {"app": "a"},
    "annotations": {"a": "b"},
    "finalizers": ["a.b/c"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
}
KINDS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("", "pods", "", {"spec": TEMPLATE["spec"]}),
    (
        "",
        "nodes",
        "",
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24"}, "status": {}},
    ),
    ("", "namespaces", "", {"spec": {"finalizers": ["kubernetes"]}}),
    ("", "services", "", {"spec": {"ports": [{"port": 80}], "clusterIP": "None", "type": "ClusterIP"}}),
    ("", "secrets", "", {"stringData": {"a": "b"}, "type": "Opaque"}),
    ("", "configmaps", "", {"data": {"a": "b"}, "immutable": True}),
    ("", "events", "", {"involvedObject": {"kind": "Pod", "namespace": "default"}, "source": {"component": "c"}}),
    (
        "",
        "persistentvolumeclaims",
        "",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    ("apps", "deployments", "", {"spec": {"selector": LABELS, "template": SERVICE, "replicas": 1}}),
    ("apps", "statefulsets", "", {"spec": {"selector": LABELS, "template": SERVICE, "serviceName": "s"}}),
    ("batch", "jobs", "", {"spec": {"template": TEMPLATE, "completions": 1, "suspend": True}}),
    ("policy", "poddisruptionbudgets", "", {"spec": {"selector": LABELS, "minAvailable": "50%"}}),
    ("scheduling.k8s.io", "priorityclasses", "", {"value": 5, "globalDefault": False, "preemptionPolicy": "Never"}),
    ("coordination.k8s.io", "leases", "", {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 5}}),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "", {"spec": {"resourceAttributes": {"verb": "get"}}}),
    ("", "pods", "binding", {"target": {"kind": "Node", "name": "n"}}),
    ("", "pods", "eviction", {"deleteOptions": {"gracePeriodSeconds": 5, "preconditions": {"uid": "u"}}}),
    ("", "bindings", "", {"target": {"kind": "Node", "name": "n"}}),
]
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.lists(
        st.one_of(
            st.none(), st.integers(), st.text(max_size=3), st.dictionaries(st.text(max_size=3), st.none(), max_size=1)
        ),
        max_size=2,
    ),
    st.dictionaries(
        st.text(max_size=4), st.one_of(st.none(), st.integers(), st.text(max_size=3), st.just({})), max_size=2
    ),
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every replaceable place in a document: its container and key."""
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from places(value[key])
    elif isinstance(value, list):
        for at in range(len(value)):
            yield value, at
            yield from places(value[at])


@st.composite
def damaged(draw: st.DrawFn) -> tuple[tuple[str, str, str], dict[str, Any], dict[str, Any]]:
    """A kind, a valid document of it, and the same with one or two places replaced by junk."""
    group, plural, sub, body = draw(st.sampled_from(KINDS))
    good = copy.deepcopy({"metadata": METADATA, **body})
    bad = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 2))):
        container, key = draw(st.sampled_from(list(places(bad))))
        container[key] = draw(JUNK)
    return (group, plural, sub), good, bad


async def outcome(call: Awaitable[ApiAnswer]) -> tuple[ApiAnswer | None, ApiError | None]:
    """The answer of a call, or its refusal."""
    try:
        return await call, None
    except ApiError as error:
        return None, error


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(
    given_=damaged(),
    path=st.sampled_from(["create", "update", "status", "scale", "resize", "ephemeralcontainers", "finalize"]),
)
def test_a_malformed_object_is_refused_and_nothing_else_happens(
    given_: tuple[tuple[str, str, str], dict[str, Any], dict[str, Any]], path: str
) -> None:
    (group, plural, sub), good, bad = given_

    async def case(api: Api) -> None:
        await api.bootstrap()
        resource = api.target(group, plural).resource
        namespace = "" if resource.scope == "Cluster" else "default"
        whole = api.target(group, plural, namespace)
        one = api.target(group, plural, namespace, "x")
        if sub:
            await api.create(whole, copy.deepcopy({"metadata": METADATA, "spec": TEMPLATE["spec"]}))
            call = api.create(api.target(group, plural, namespace, "x", sub), bad)
        elif path == "create" or resource.verbs == {"create"}:
            call = api.create(whole, bad)
        else:
            await api.create(whole, good)
            part = "" if path == "update" else path
            if part and part not in resource.subresources:
                return
            call = api.update(api.target(group, plural, namespace, "x", part), bad)
        before = api.store.revision
        answer, refusal = await outcome(call)
        if answer is None:
            assert refusal is not None
            assert refusal.code < 500 or "resourceVersion should not be set" in refusal.message
            msgspec.json.encode(refusal.status())
            assert api.store.revision == before
            return
        msgspec.json.decode(answer.raw)
        if resource.verbs != {"create"}:
            await api.list(whole, ListOptions(labels="app=a"))
            await api.delete(one)

    asyncio.run(case(assemble(Store())))


test_first_cases = first_cases(
    test_a_malformed_object_is_refused_and_nothing_else_happens,
    most=3,
)
