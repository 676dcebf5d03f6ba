"""A kind that nobody knows, in an assessment: gangs, what moves, and whose pods are whose are by its declaration, from
a copy that has nothing of the objects but their numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.cluster.assessed import NOW_S, node, pod, replica_set, snapshot

from cotenant.drivers.kube.kinds.workload.declarations import packaged, read_kind
from cotenant.drivers.kube.snapshot.anonymise import Words, anonymised
from cotenant.drivers.kube.snapshot.archive import read_archive, write_archive
from cotenant.drivers.kube.snapshot.exported import read_exported
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot
from cotenant.engine.framework.instructions import Bind
from cotenant.services.assess.columns import pod_columns
from cotenant.services.assess.copying import copied
from cotenant.services.assess.moving import consolidation

OVEN = read_kind(
    """
    kind: Oven
    api: bake.example.com/v1
    plural: ovens
    name: bake.example.com/oven
    role: bake.example.com/role
    replicas: spec.trays|1 * spec.loaves|1
    minimum: $replicas
    paused: spec.cold|0
    """,
    "oven.yaml",
)
SECRET = "a recipe"


def oven(loaves: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "bake.example.com/v1",
        "kind": "Oven",
        "metadata": {"name": "o", "namespace": "shop", "uid": "u-o"},
        "spec": {"trays": 1, "loaves": loaves, "recipe": SECRET, **spec},
    }


def of_oven(name: str, on: str = "") -> dict[str, Any]:
    made = pod(name, on)
    made["metadata"]["labels"] = {"bake.example.com/oven": "o", "bake.example.com/role": "crust"}
    owner = {"apiVersion": "bake.example.com/v1", "kind": "Oven", "name": "o", "uid": "u-o", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def archived(given: ClusterSnapshot, folder: Path) -> ClusterSnapshot:
    write_archive(folder / "copy.zip", given)
    return read_archive(folder / "copy.zip")[0]


COPIES: list[Callable[[ClusterSnapshot, Path], ClusterSnapshot]] = [
    lambda given, folder: given,
    archived,
    lambda given, folder: anonymised(given, Words(b"secret")),
    lambda given, folder: archived(anonymised(given, Words(b"secret")), folder),
]


@pytest.mark.parametrize("copy_of", COPIES)
def test_its_pods_are_gangs_of_one_workload(
    copy_of: Callable[[ClusterSnapshot, Path], ClusterSnapshot], tmp_path: Path
) -> None:
    objects = [node("a"), oven(3), of_oven("p0"), of_oven("p1")]
    copy = copied(copy_of(snapshot(objects, [OVEN]), tmp_path))
    assert not any(isinstance(told, Bind) for told in copy.engine.decide(NOW_S))
    whole = copied(copy_of(snapshot([*objects, of_oven("p2")], [OVEN]), tmp_path))
    assert sum(isinstance(told, Bind) for told in whole.engine.decide(NOW_S)) == 3
    assert list(whole.workloads.values()) == [3]
    running = copied(copy_of(snapshot([node("a"), oven(2), of_oven("p0", "a"), of_oven("p1", "a")], [OVEN]), tmp_path))
    assert len(set(pod_columns(running).workload)) == 1


def test_without_the_declaration_they_go_one_by_one() -> None:
    copy = copied(snapshot([node("a"), of_oven("p0", "a"), of_oven("p1")]))
    assert sum(isinstance(told, Bind) for told in copy.engine.decide(NOW_S)) == 1


@pytest.mark.parametrize(("cold", "why"), [(0, ""), (1, "in a later round: Oven o is paused")])
def test_what_is_paused_is_not_moved(cold: int, why: str) -> None:
    objects = [node("a"), node("b"), oven(2, cold=cold), of_oven("p0", "a"), of_oven("p1", "b")]
    found = consolidation(copied(snapshot(objects, [OVEN])))
    assert bool(found.emptied) is not bool(why)
    assert {refused.why for refused in found.refused} == ({why} if why else set())


def test_of_its_objects_numbers_are_kept_and_nothing_else(tmp_path: Path) -> None:
    given = snapshot([node("a"), oven(3)], [OVEN])
    (line,) = given.objects["bake.example.com/v1/ovens"]
    assert json.loads(line)["status"] == {"replicas": 3, "minimum": 3, "paused": 0}
    assert "spec" not in json.loads(line)
    hidden = archived(anonymised(given, Words(b"secret")), tmp_path)
    assert archived(given, tmp_path).objects["bake.example.com/v1/ovens"] == [line]
    content = (tmp_path / "copy.zip").read_bytes()
    assert SECRET.encode() not in content
    (own,) = (kind for kind in hidden.workloads if kind.api not in {found.api for found in packaged()})
    for text in ("oven", "bake", "Oven"):
        assert text not in f"{own} {list(hidden.objects)} {hidden.kinds}"


def test_a_file_of_kubectl_has_them_too(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"kind": "List", "items": [node("a"), oven(3), of_oven("p0")]}))
    assert copied(read_exported([path], [OVEN])).workloads == {"u-o": 3}
    assert copied(read_exported([path])).workloads == {}


def test_a_replica_set_between_is_counted_with_the_workload_above() -> None:
    rollout = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "web", "namespace": "shop", "uid": "d"},
        "spec": {"replicas": 2},
    }
    owned = replica_set(2)
    owned["metadata"]["ownerReferences"][0] |= {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    copy = copied(snapshot([node("a"), rollout, owned, pod("p", "a")]))
    assert pod_columns(copy).workload == ("shop/Rollout/web",)
    (info,) = copy.engine.every_pod()
    assert info.seen.workload is not None
    assert info.seen.workload.through == ("ReplicaSet web-rs",)
