"""What a cluster tells, in the mirror."""

from typing import Any

import msgspec
import pytest
from tests.fakes.servers import extender_forms as forms

from cotenant.drivers.kube.cache.cache import Changed, Malformed
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.kinds.node import NodeObject
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.model.arrays import CPU
from cotenant.services.extender.mirror import Mirror
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


def test_a_node_that_cannot_be_read_is_not_known(
    watches: MirrorWatches, mirror: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    watches.take_nodes([Changed("Node", "a", None, node("a"))])
    watches.take_nodes([Changed("Node", "a", node("a"), node("a", cpu="much")), Malformed("Node", "b", "no JSON")])
    assert "a" not in mirror.rows
    assert "allocatable" in caplog.text
    assert "no JSON" in caplog.text
