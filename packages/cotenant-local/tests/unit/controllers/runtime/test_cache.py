from typing import Any

import msgspec

from cotenant_local.controllers.runtime.cache import CachedObjects
from cotenant_local.controllers.views.pods import PodObjectView


def pod(name: str, version: int, uid: str = "u", owner: str = "", node: str = "") -> PodObjectView:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    if owner:
        meta["ownerReferences"] = [{"kind": "ReplicaSet", "name": "rs", "uid": owner, "controller": True}]
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node}}, PodObjectView)


def store() -> CachedObjects[PodObjectView]:
    return CachedObjects({"node": lambda p: (p.spec.node_name,) if p.spec.node_name else ()})


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    held = store()
    assert held.apply(pod("a", 5)) == (True, None)
    news, old = held.apply(pod("a", 4))
    assert not news
    assert old is not None
    assert held.apply(pod("a", 5))[0] is False
    assert held.apply(pod("a", 6))[0] is True


def test_a_late_response_does_not_restore_a_deleted_object() -> None:
    held = store()
    held.apply(pod("a", 5, "first"))
    held.remove(("default", "a"), "first")
    assert held.apply(pod("a", 4, "first")) == (False, None)
    assert held.apply(pod("a", 9, "second"))[0]


def test_removing_another_object_of_the_same_name_changes_nothing() -> None:
    held = store()
    held.apply(pod("a", 9, "second"))
    assert held.remove(("default", "a"), "first") is None
    assert held.get("default", "a") is not None


def test_indexes_follow_changes() -> None:
    held = store()
    held.apply(pod("a", 1))
    assert [p.metadata.name for p in held.by("orphan", "default")] == ["a"]
    held.apply(pod("a", 2, owner="rs", node="n"))
    assert held.by("orphan", "default") == []
    assert len(held.owned("rs", "default")) == 1
    assert held.count("node", "n") == 1
    held.remove(("default", "a"))
    assert held.by("node", "n") == []
    assert len(held) == 0
