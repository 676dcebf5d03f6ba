"""What is compared with kube-scheduler, without one: the random worlds have every feature, and differences are seen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.kube.feasible.compare import difference
from tests.kube.feasible.ours import KINDS, Engines, Own
from tests.kube.feasible.pods import pods
from tests.kube.feasible.vocabulary import PER_SERVER, Manifest
from tests.kube.feasible.worlds import World, world

SEEDS = range(8)
FEATURES = (
    "nodeSelector",
    "matchFields",
    "podAffinity",
    "podAntiAffinity",
    "namespaceSelector",
    "matchLabelKeys",
    "mismatchLabelKeys",
    "minDomains",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "tolerationSeconds",
    "hostPort",
    "hostIP",
    "hostNetwork",
    "initContainers",
    "restartPolicy",
    "runtimeClassName",
    "schedulingGates",
    "persistentVolumeClaim",
    "example.com/card",
    "hugepages-2Mi",
    "ephemeral-storage",
    "Gt",
    "Lt",
    "DoesNotExist",
)


def test_equal_seeds_give_equal_worlds_and_pods() -> None:
    assert world(3) == world(3)
    assert pods(3, world(3), 10) == pods(3, world(3), 10)
    assert world(3) != world(4)
    assert pods(3, world(3), 10) != pods(4, world(3), 10)


def test_every_feature_is_drawn() -> None:
    drawn = json.dumps([pods(seed, world(seed), 60) for seed in SEEDS])
    assert [feature for feature in FEATURES if f'"{feature}"' not in drawn] == []
    assert any("resources" in pod["spec"] for seed in SEEDS for pod in pods(seed, world(seed), 60))


@pytest.mark.parametrize(
    ("theirs", "own", "words"),
    [
        ({"a", "b"}, Own(frozenset({"a", "b"}), "b"), ""),
        (set(), Own(frozenset(), ""), ""),
        (None, Own(None, ""), ""),
        ({"a"}, Own(frozenset({"a", "b"}), "a"), "['a'] there, ['a', 'b'] here"),
        ({"a", "b"}, Own(frozenset({"a"}), "a"), "['a', 'b'] there, ['a'] here"),
        ({"a"}, Own(frozenset({"a"}), "b"), "b is chosen here of ['a']"),
        ({"a"}, Own(frozenset({"a"}), ""), "no node is chosen here of ['a']"),
        (set(), Own(frozenset(), "a"), "a is chosen here of []"),
        (None, Own(frozenset(), ""), "judged there: False, here: True"),
        (set(), Own(None, ""), "judged there: True, here: False"),
    ],
)
def test_a_difference_is_seen(theirs: set[str] | None, own: Own, words: str) -> None:
    assert difference(None if theirs is None else frozenset(theirs), own) == words


def served(found: World) -> dict[str, list[Manifest]]:
    """A world's objects, as a server gives them."""
    kinds: dict[str, list[Manifest]] = {plural: [] for plural in KINDS}
    kinds["nodes"] += found.nodes
    kinds["namespaces"] += found.namespaces
    kinds["persistentvolumes"] += found.volumes
    kinds["persistentvolumeclaims"] += found.claims
    kinds["storageclasses"] += [obj for path, obj in PER_SERVER if path.endswith("storageclasses")]
    kinds["pods"] += [as_served(obj) for obj in found.residents]
    return kinds


def as_served(pod: Manifest) -> Manifest:
    made: Manifest = json.loads(json.dumps(pod))
    made["metadata"]["uid"] = f"uid-{pod['metadata']['name']}"
    made["status"] = {"phase": "Pending"}
    return made


def plain(found: World, name: str, **spec: Any) -> Manifest:
    metadata = {"name": name, "namespace": found.namespace_names[0]}
    everywhere = [{"operator": "Exists"}]
    containers = [{"name": "c", "image": "i"}]
    return as_served({"metadata": metadata, "spec": {"containers": containers, "tolerations": everywhere, **spec}})


@pytest.fixture
def engines() -> tuple[World, Engines]:
    found = world(2)
    return found, Engines(served(found))


@pytest.mark.slow
def test_the_engine_says_which_nodes_pass(engines: tuple[World, Engines]) -> None:
    found, ours = engines
    anywhere = ours.judge(plain(found, "a"))
    assert anywhere.nodes is not None
    assert anywhere.chosen in anywhere.nodes
    one = sorted(anywhere.nodes)[0]
    assert ours.judge(plain(found, "b", nodeSelector={"kubernetes.io/hostname": one})) == Own(frozenset({one}), one)
    assert ours.judge(plain(found, "c", nodeSelector={"none": "such"})) == Own(frozenset(), "")
    assert ours.judge(plain(found, "d", schedulingGates=[{"name": "example.com/hold"}])) == Own(None, "")
    assert ours.judge(plain(found, "e")).nodes == anywhere.nodes  # nothing that was judged has stayed
    assert "NodeAffinity" in ours.reasons(plain(found, "f", nodeSelector={"none": "such"}), one)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "values", "is_selected"),
    [("In", ["red"], True), ("NotIn", ["blue"], True), ("NotIn", ["red"], False), ("DoesNotExist", None, False)],
)
def test_a_namespace_is_selected_by_its_labels(
    engines: tuple[World, Engines], operator: str, values: list[str] | None, is_selected: bool
) -> None:
    found, ours = engines
    assert {obj["metadata"]["labels"]["team"] for obj in found.namespaces} == {"red"}
    expression = {"key": "team", "operator": operator, **({"values": values} if values else {})}
    term = {
        "labelSelector": {"matchLabels": {"tier": "front"}},
        "namespaceSelector": {"matchExpressions": [expression]},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    anywhere, away = ours.judge(plain(found, "a")).nodes, ours.judge(plain(found, "b", affinity=affinity)).nodes
    assert anywhere
    assert (away != anywhere) is is_selected
