"""What an agent reads of its own node and of its pods."""

from __future__ import annotations

import msgspec
import pytest

from cotenant.drivers.kube.kinds.node import NodeObject, allocatable_of
from cotenant.drivers.kube.kinds.pod.on_node import NodePodObject, declared
from cotenant.drivers.kubelet.declared import merged
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import Allocatable


def node(text: str) -> NodeObject:
    return msgspec.json.decode(text.encode(), type=NodeObject)


def test_what_a_node_has_to_give() -> None:
    told = node(
        '{"status": {"allocatable": {"cpu": "3920m", "memory": "8Gi", "kubernetes.io/batch-cpu": "1500", '
        '"kubernetes.io/batch-memory": "2Gi", "kubernetes.io/mid-cpu": "nonsense"}}}'
    )
    assert allocatable_of(told) == Allocatable(
        cpu_m=3920, batch_cpu_m=1500, memory_bytes=8 << 30, batch_memory_bytes=2 << 30
    )
    assert allocatable_of(node("{}")) is None


@pytest.mark.parametrize(
    ("text", "milli"),
    [("1.25", 1250), ("1", 1000), ("1.0004", 1000), ("5", 5000), ("5.1", 1000), ("0.5", 1000), ("fast", 1000)],
)
def test_how_fast_its_cpus_are(text: str, milli: int) -> None:
    key = "node.koordinator.sh/cpu-normalization-ratio"
    told = node(
        f'{{"metadata": {{"annotations": {{"{key}": "{text}"}}}}, "status": {{"allocatable": {{"cpu": "1"}}}}}}'
    )
    assert allocatable_of(told) == Allocatable(cpu_m=1000, cpu_ratio_milli=milli)


@pytest.mark.parametrize(
    ("spec", "addresses"),
    [("{}", ("10.0.0.7", "fd00::7")), ('{"hostNetwork": true}', ()), ("null", ("10.0.0.7", "fd00::7"))],
)
def test_addresses_of_its_own(spec: str, addresses: tuple[str, ...]) -> None:
    text = f'{{"spec": {spec}, "status": {{"podIPs": [{{"ip": "10.0.0.7"}}, {{"ip": "fd00::7"}}]}}}}'
    assert declared(msgspec.json.decode(text.encode(), type=NodePodObject)).addresses == addresses


@pytest.mark.parametrize(
    ("states", "has_started"),
    [
        ("", False),
        ('{"name": "a", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}', False),
        ('{"name": "a", "state": {"running": {}}}, {"name": "b", "state": {"waiting": {"reason": "x"}}}', False),
        ('{"name": "a", "state": {"running": {}}}, {"name": "b", "state": {"terminated": {"exitCode": 0}}}', True),
        ('{"name": "a", "state": {"running": {}}}, {"name": "b"}', False),
    ],
    ids=["no status", "one of two", "one waits", "one is over", "no state"],
)
def test_whether_its_containers_were_started(states: str, has_started: bool) -> None:
    spec = '{"containers": [{"name": "a"}, {"name": "b"}]}'
    text = f'{{"spec": {spec}, "status": {{"containerStatuses": [{states}]}}}}'
    found = declared(msgspec.json.decode(text.encode(), type=NodePodObject))
    assert found.has_started is has_started
    assert merged(NodePod("u", "ns", "n", "pods/u"), found).has_started is has_started
