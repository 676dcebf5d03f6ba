"""Lists of a pod that are too long to be scheduled: refused with a sentence, and what is left of a pod on a node
still counts.
"""

from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.model.cluster.observed import ObservedPod

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _read(spec: dict[str, Any]) -> ObservedPod:
    document = {"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": spec}
    return PodReader().pod(msgspec.json.decode(msgspec.json.encode(document), type=PodObject))


def _away(terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {_REQUIRED: terms}}}


def _term(i: int, **selector: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": selector or {"matchLabels": {"app": f"a{i}"}}}


def _wide(i: int) -> dict[str, Any]:
    return _term(i, matchExpressions=[{"key": f"k{i}", "operator": "DoesNotExist"}])


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            _away([{**_term(i), "topologyKey": f"t{i}"} for i in range(257)]),
            "spec.affinity.podAntiAffinity: 257 topology keys: expected at most 256; each is looked at on every node",
        ),
        (
            _away([_wide(i) for i in range(1025)]),
            "spec.affinity.podAntiAffinity: 1025 terms that name no label: expected at most 1024; each is compared "
            "with every pod; "
            "matchLabels, In and Exists name a label",
        ),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        _PREFERRED: [
                            {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                        ]
                        * 257
                    }
                }
            },
            f"spec.affinity.nodeAffinity.{_PREFERRED}: 257 terms: expected at most 256; each is a bit of every node",
        ),
        (
            {"containers": [{"name": "c", "resources": {"requests": {f"e.io/r{i}": "1" for i in range(129)}}}]},
            "spec.containers[0].resources.requests: 129 names: expected at most 128; each is a column of every node",
        ),
        (
            {
                "containers": [
                    {"name": "c", "resources": {"requests": {f"e.io/r{j}-{i}": "1" for i in range(100)}}}
                    for j in range(2)
                ]
            },
            "resources: 200 names: expected at most 128; each is a column of every node",
        ),
    ],
)
def test_a_list_that_is_too_long_is_named(spec: dict[str, Any], sentence: str) -> None:
    assert [name.replace("'", "") for name in _read(spec).unsupported] == [sentence]


@pytest.mark.parametrize(
    "terms",
    [
        [_wide(i) for i in range(1024)],
        [_term(i) for i in range(3000)],
        [{**_term(0), "topologyKey": f"t{i}"} for i in range(256)],
    ],
)
def test_a_list_that_is_just_short_enough_counts_whole(terms: list[dict[str, Any]]) -> None:
    seen = _read(_away(terms))
    assert seen.unsupported == ()
    assert len(seen.pod.anti_affinity) == len(terms)


def test_cpu_and_memory_of_too_many_resources_still_count() -> None:
    requests = {f"e.io/r{i}": "1" for i in range(200)} | {"cpu": "2", "memory": "1Mi"}
    seen = _read({"containers": [{"name": "c", "resources": {"requests": requests}}], "nodeName": "n"})
    assert dict(seen.pod.requests.items) == {"cpu": 2000, "memory": 1 << 20}
