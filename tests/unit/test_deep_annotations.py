"""Annotations nested a thousand levels deep, which any owner of a pod or node can write, are malformed like others.

Decoders of JSON raise `RecursionError` for them, also within a field that is skipped: a reader that expects decoding
errors alone would fail for the whole node, or the whole cluster.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from tools.tree import PACKAGES

from cotenant.drivers.kube.kinds.node import NodeObject, read_node
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.kubelet.declared import DeclaredPod, merged
from cotenant.drivers.kubelet.podinfo import parse_pod_info
from cotenant.engine.manager.gpu_nodes import written_names
from cotenant.model.cluster.labels import Labels
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodePod
from cotenant.policy.nodeqos.burst import config as burst
from cotenant.policy.nodeqos.io import disk_limits
from cotenant.policy.nodeqos.memory.protection import MemoryQosConfig, class_memory
from cotenant.services.fleet.rpc import decode

_NAME = re.compile(r'"((?:[a-z0-9-]+\.)+[a-z]{2,}/[A-Za-z0-9._-]+)"')
NAMES = sorted({name for path in PACKAGES["cotenant"].rglob("*.py") for name in _NAME.findall(Path(path).read_text())})
_DEPTH = 20_000  # beyond the limit of recursion, also where a test raised it
DEEP = ("[" * _DEPTH, '{"x":' + "[" * _DEPTH, '{"x":' * _DEPTH, '{"x":' + "[" * _DEPTH + "]" * _DEPTH + "}")
FOUND = NodePod("u", "", "u", "kubepods/burstable/podu")


def test_annotations_are_found_in_the_sources() -> None:
    assert len(NAMES) > 100


@pytest.mark.parametrize("text", DEEP, ids=["list", "field", "object", "whole"])
def test_a_pod_or_node_with_a_deep_annotation_is_read(text: str) -> None:
    for name in NAMES:
        metadata = {"name": "a", "namespace": "b", "uid": "u", "annotations": {name: text}}
        spec = {"containers": [{"name": "main"}], "schedulerName": "cotenant"}
        seen = PodReader().pod(msgspec.convert({"metadata": metadata, "spec": spec}, PodObject, strict=False))
        assert seen.pod.key == "b/a"
        assert merged(FOUND, DeclaredPod("u", "b", "a", annotations=Labels.of({name: text}))).key == "b/a"
        given = {"metadata": metadata, "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}}
        with suppress(InvalidInput):  # a node without what it states would be another node
            assert read_node(msgspec.convert(given, NodeObject, strict=False)).name == "a"


@pytest.mark.parametrize("text", DEEP, ids=["list", "field", "object", "whole"])
def test_what_is_read_alone_refuses_or_ignores_a_deep_text(text: str) -> None:
    pod = NodePod("u", "", "u", "g", annotations=Labels.of({"koordinator.sh/memoryQOS": text}))
    assert class_memory(pod, MemoryQosConfig())[0] == MemoryQosConfig().ls
    assert not disk_limits.read_annotation(text, ()).limits
    assert written_names(text) == frozenset()
    for read in (burst.read_annotation, lambda given: parse_pod_info(f'{{"x":{given}'), _request):
        with pytest.raises(InvalidInput):
            read(text)


class _Request(msgspec.Struct):
    guid: str = ""


def _request(text: str) -> _Request:
    return decode(_Request, text.encode(), "request")
