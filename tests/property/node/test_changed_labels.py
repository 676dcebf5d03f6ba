"""A pod's class, quota and tenant are those of its bind, whatever its owner writes on it later, for the scheduler
and for the node's agent.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.seal_keys import KEYS_SINCE_S, SCHEDULER, keys, strict

from cotenant.drivers.kube.kinds.pod.on_node import NodePodObject, declared_pods
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.kubelet.declared import Belief, DeclaredPod, join, merged
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.model.cluster.annotations import EXTENDED_SPEC, TENANT
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS, Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cluster.seal import SETTLED, SETTLED_ANNOTATIONS, SETTLED_LABELS, settled_values
from cotenant.model.groups import quota
from cotenant.model.machine.node_pod import NOT_EXTENDED, NodeContainer, NodePod

NODE, UID = "a", "u-web"
SEALER, LENIENT = keys()
STRICT = strict()
AMOUNTS = json.dumps({"containers": {"main": {"requests": {"kubernetes.io/batch-cpu": 500}}}})
MORE = json.dumps({"containers": {"main": {"requests": {"kubernetes.io/batch-cpu": 64_000}}}})


def values(*labels: str) -> st.SearchStrategy[dict[str, str]]:
    """Class, quota and tenant, some of them."""
    text = {name: st.sampled_from(["LSR", "LS", "BE", "koord-prod", "gold", "false", "9999"]) for name in labels}
    return st.fixed_dictionaries(
        {},
        optional={**text, TENANT: st.sampled_from(["rich", "poor"]), EXTENDED_SPEC: st.sampled_from([AMOUNTS, MORE])},
    )


VALUES = values(*SETTLED_LABELS)


def manifest(found: dict[str, str], statement: str | None, scheduler: str = SCHEDULER) -> dict[str, Any]:
    notes = {name: text for name, text in found.items() if name in SETTLED_ANNOTATIONS}
    notes |= {} if statement is None else {SETTLED: statement}
    labels = {"app": "web"} | {name: text for name, text in found.items() if name in SETTLED_LABELS}
    meta = {"name": "web", "namespace": "shop", "uid": UID, "labels": labels, "annotations": notes}
    meta["creationTimestamp"] = "2026-01-02T00:00:00Z"
    spec = {"nodeName": NODE, "schedulerName": scheduler, "containers": [{"name": "main"}]}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", "qosClass": "BestEffort"}}


def seen(pod: dict[str, Any], seals: Seals) -> ObservedPod:
    return PodReader(seals=seals).pod(msgspec.convert(pod, PodObject))


def on_node(pod: dict[str, Any], seals: Seals) -> NodePod:
    group = NodePod(UID, "", "", "top/web", containers=(NodeContainer("main", "top/web/main"),))
    (found,) = join([group], declared_pods([msgspec.convert(pod, NodePodObject)]), Belief(seals, NODE))
    return found


def facts(pod: dict[str, Any], seals: Seals) -> tuple[object, ...]:
    """What both judge by, but for the notes about the change itself."""
    agent, scheduler = on_node(pod, seals), seen(pod, seals)
    without = agent.annotations.items
    kept = Labels.of([pair for pair in without if pair[0] != SETTLED])
    return replace(agent, annotations=kept, relabelled=()), replace(scheduler, written=(), relabelled=())


def stated(found: dict[str, str]) -> str | None:
    """As the scheduler binds it."""
    settled = settled_values(found, found)
    return SEALER.statement(UID, NODE, settled) if settled else None


@given(VALUES, VALUES, st.booleans())
def test_what_an_owner_changes_after_the_bind_has_no_effect_and_is_named(
    before: dict[str, str], after: dict[str, str], removes: bool
) -> None:
    """With the statement removed, the pod has none of it."""
    if removes:
        before = {}
    honest = manifest(before, stated(before))
    changed = manifest(after, stated(before))
    assert facts(changed, STRICT) == facts(honest, STRICT)
    names = [name for name in sorted({**before, **after}) if (before.get(name) or "") != (after.get(name) or "")]
    assert list(seen(changed, STRICT).relabelled) == list(on_node(changed, STRICT).relabelled) == names
    assert not seen(honest, STRICT).relabelled


FORGED = [
    None,
    "",
    "x",
    "{} ",
    "[] AAAA",
    json.dumps({QOS_CLASS: "LSR"}),
    json.dumps({QOS_CLASS: "LSR"}) + " AAAA",
    keys(2)[0].statement(UID, NODE, {QOS_CLASS: "LSR"}),
    SEALER.statement("u-other", NODE, {QOS_CLASS: "LSR"}),
    SEALER.statement(UID, "b", {QOS_CLASS: "LSR"}),
    SEALER.statement(UID, NODE, {QOS_CLASS: "LS"}).replace("LS", "LSR", 1),
]


@pytest.mark.parametrize("statement", FORGED)
def test_where_the_scheduler_states_every_pod_a_wrong_statement_counts_as_none(statement: str | None) -> None:
    written = {QOS_CLASS: "LSR", quota.NAME: "gold", TENANT: "rich", EXTENDED_SPEC: MORE}
    forged = manifest(written, statement)
    agent, scheduler = on_node(forged, STRICT), seen(forged, STRICT)
    assert (agent.qos, agent.tenant, agent.extended) == (QoSClass.BE, "shop", NOT_EXTENDED)
    assert (scheduler.pod.qos, scheduler.pod.labels.get(quota.NAME)) == (QoSClass.NONE, None)
    assert scheduler.pod.owner == "shop"
    assert list(scheduler.relabelled) == sorted(written)
    # of a scheduler that promised nothing, from before the key, and without any, labels are all there is
    for other, seals in ((manifest(written, statement, "other"), STRICT), (forged, LENIENT), (forged, NO_SEALS)):
        assert (seen(other, seals).pod.qos, on_node(other, seals).qos) == (QoSClass.LSR, QoSClass.LSR)
        assert not seen(other, seals).relabelled
    old = msgspec.convert(forged, PodObject)
    since = PodReader(seals=strict(KEYS_SINCE_S + 1e9)).pod(old)
    assert since.pod.qos is QoSClass.LSR


def test_a_statement_counts_without_a_promise_too() -> None:
    pod = manifest({QOS_CLASS: "LSR"}, SEALER.statement(UID, NODE, {QOS_CLASS: "BE"}), "other")
    assert (seen(pod, LENIENT).pod.qos, on_node(pod, LENIENT).qos) == (QoSClass.BE, QoSClass.BE)


def test_a_pod_without_a_node_is_judged_by_what_stands_on_it_and_loses_the_statement_that_it_brought() -> None:
    pod = manifest({QOS_CLASS: "LS", PRIORITY_CLASS: "koord-prod"}, SEALER.statement(UID, NODE, {QOS_CLASS: "LSR"}))
    del pod["spec"]["nodeName"]
    found = seen(pod, STRICT)
    assert (found.pod.qos, found.relabelled, found.written) == (QoSClass.LS, (), (SETTLED,))
    assert dict(found.settled) == {QOS_CLASS: "LS", PRIORITY_CLASS: "koord-prod"}


def test_a_runtime_that_knows_no_scheduler_believes_what_is_stated() -> None:
    notes = Labels.of({SETTLED: SEALER.statement(UID, NODE, {QOS_CLASS: "BE"})})
    found = merged(
        NodePod(UID, "", "", "top/web"),
        DeclaredPod(UID, labels=Labels.of({QOS_CLASS: "LSR"}), annotations=notes),
        Belief(STRICT, NODE),
    )
    assert (found.qos, found.relabelled) == (QoSClass.BE, (QOS_CLASS,))
