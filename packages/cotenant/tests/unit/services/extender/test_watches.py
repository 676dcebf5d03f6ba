"""What a cluster tells, in the mirror."""

from typing import Any

import msgspec
import pytest
from tests.fakes.servers import extender_forms as forms

from cotenant.drivers.kube.cache.cache import Changed, MalformedObject
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.kinds.node import NodeObject
from cotenant.drivers.kube.kinds.pod.schema import PodAnnotations, PodObject
from cotenant.engine.state.namespace_tenants import MAX_TENANTS
from cotenant.model.arrays import CPU
from cotenant.services.extender.founding_judge import FoundingJudge
from cotenant.services.extender.mirror import Mirror
from cotenant.services.extender.protocol import ExtenderProtocol
from cotenant.services.extender.watches import MirrorWatches


@pytest.fixture
def mirror() -> Mirror:
    return Mirror()


@pytest.fixture
def watches(mirror: Mirror) -> MirrorWatches:
    access = Access("http://127.0.0.1:1", FixedCredential(Credential("", None)), "default")
    return MirrorWatches(Client(access, qps=1.0, burst=1, in_flight=1), mirror)


def node(name: str, **changes: str) -> NodeObject:
    return msgspec.convert(forms.node(name, **changes), NodeObject)


def bound(name: str, on: str, phase: str = "Running", cpu: str = "2") -> PodObject:
    written: dict[str, Any] = forms.pod(cpu, name=name, nodeName=on)
    written["status"]["phase"] = phase
    return msgspec.convert(written, PodObject, strict=False)


def test_nodes_and_pods_come_and_go(watches: MirrorWatches, mirror: Mirror) -> None:
    watches.take_nodes([Changed("Node", "a", None, node("a"))])
    watches.take_pods([Changed("Pod", "shop/web", None, bound("web", "a"))])
    mirror.sync()
    mirror.apply()
    assert mirror.nodes.requested[mirror.rows["a"], CPU] == 2000
    watches.take_pods([Changed("Pod", "shop/web", bound("web", "a"), bound("web", "a", cpu="3"))])
    mirror.apply()
    assert mirror.nodes.requested[mirror.rows["a"], CPU] == 3000
    watches.take_pods([Changed("Pod", "shop/web", bound("web", "a"), bound("web", "a", "Succeeded"))])
    mirror.apply()
    assert mirror.nodes.requested[mirror.rows["a"], CPU] == 0
    watches.take_pods(
        [Changed("Pod", "shop/web", None, bound("web", "a")), Changed("Pod", "shop/web", bound("web", "a"), None)]
    )
    assert mirror.residents == 0
    watches.take_nodes([Changed("Node", "a", node("a"), None)])
    assert "a" not in mirror.rows


def test_a_node_that_can_hold_no_pod_is_refused_with_its_reason(watches: MirrorWatches, mirror: Mirror) -> None:
    extender = ExtenderProtocol(mirror, FoundingJudge(mirror))
    body = msgspec.json.encode({"Pod": forms.pod("2"), "NodeNames": ["a", "none", "new"]})
    watches.take_nodes([Changed("Node", name, None, node(name)) for name in ("a", "none")])
    mirror.sync()
    assert msgspec.json.decode(extender.filter(body, 1.0))["NodeNames"] == ["a", "none", "new"]
    watches.take_nodes([Changed("Node", "none", node("none"), node("none", cpu="0"))])
    answer = msgspec.json.decode(extender.filter(body, 1.0))
    why = "node none: allocatable.cpu: 0: expected more than 0; it can hold no pod"
    assert (answer["NodeNames"], answer["FailedNodes"]) == (["a", "new"], {})
    assert answer["FailedAndUnresolvableNodes"] == {"none": why}
    assert (extender.tally.refused, extender.tally.unknown) == (1, 2)  # `new`, twice
    too_large = msgspec.json.encode({"Pod": forms.pod("200"), "NodeNames": ["a", "none"]})
    never = msgspec.json.decode(extender.filter(too_large, 1.0))["FailedAndUnresolvableNodes"]
    assert never.keys() == {"a", "none"}
    assert never["none"] == why
    mirror.report_received(forms.report("none"))  # its agent's report does not make it usable
    assert msgspec.json.decode(extender.filter(body, 1.0))["NodeNames"] == ["a", "new"]
    watches.take_nodes([Changed("Node", "none", node("none", cpu="0"), node("none"))])
    assert msgspec.json.decode(extender.filter(body, 1.0))["NodeNames"] == ["a", "none", "new"]
    watches.take_nodes([Changed("Node", "none", None, node("none", cpu="0"))])
    watches.take_nodes([Changed("Node", "none", node("none", cpu="0"), None)])
    assert mirror.unusable == {}


def test_a_node_of_a_request_that_can_hold_no_pod_is_refused_with_its_reason(mirror: Mirror) -> None:
    extender = ExtenderProtocol(mirror, FoundingJudge(mirror))
    items = [forms.node("a"), forms.node("none", cpu="0"), {"metadata": {"name": "bare"}}]
    body = msgspec.json.encode({"Pod": forms.pod("2"), "Nodes": {"items": items}})
    for _ in range(2):  # the second time it is known by its version
        answer = msgspec.json.decode(extender.filter(body, 1.0))
        assert [item["metadata"]["name"] for item in answer["Nodes"]["items"]] == ["a"]
        assert all("it can hold no pod" in answer["FailedAndUnresolvableNodes"][name] for name in ("none", "bare"))


def test_a_node_that_cannot_be_read_is_not_known(
    watches: MirrorWatches, mirror: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    watches.take_nodes([Changed("Node", "a", None, node("a"))])
    watches.take_nodes(
        [Changed("Node", "a", node("a"), node("a", cpu="much")), MalformedObject("Node", "b", "no JSON")]
    )
    assert "a" not in mirror.rows
    assert mirror.unusable == {}
    assert "allocatable" in caplog.text
    assert "no JSON" in caplog.text


def test_a_namespace_names_so_many_tenants_at_once(watches: MirrorWatches, mirror: Mirror) -> None:
    watches.take_nodes([Changed("Node", "a", None, node("a"))])
    for i in range(2 * MAX_TENANTS):
        obj = bound(f"p{i}", "a")
        meta = msgspec.structs.replace(obj.metadata, uid=f"u{i}", annotations=PodAnnotations(tenant=f"t{i}"))
        watches.take_pods([Changed("Pod", f"shop/p{i}", None, msgspec.structs.replace(obj, metadata=meta))])
    owners = {resident.shape.tenant for resident in mirror._residents.values()}
    assert len(owners) == MAX_TENANTS + 1
    assert "shop" in owners
