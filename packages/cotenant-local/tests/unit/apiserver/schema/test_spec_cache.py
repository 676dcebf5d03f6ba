"""The spec cache does not change the results of decoding and validation."""

from __future__ import annotations

import pytest

from cotenant.drivers.kube.manifests.document import copied
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.schema.builtin import builtin_schema
from cotenant_local.apiserver.schema.spec_cache import MAX_BYTES, MAX_SPECS, SpecCache

POD = builtin_schema("", "v1", "Pod")


def pod(**spec: object) -> Manifest:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "known", "image": "i"}], **spec}}


def seen(obj: Manifest) -> tuple[Manifest, list[str]]:
    mine = copied(obj)
    unknown = POD.decode(mine)
    POD.default(mine)
    return mine, [*unknown, *(cause.field for cause in POD.validate(mine, None))]


def test_a_cached_spec_gives_the_same_result() -> None:
    for obj in (
        pod(),
        pod(nodeName="n1"),
        pod(nodeName="N1"),
        pod(bogus=1),
        pod(nodeName=""),
        pod(priority=None),
        pod(restartPolicy="No"),
    ):
        first = seen(obj)
        assert seen(obj) == first
        assert seen(copied(obj)) == first


def test_the_rest_of_the_object_is_checked_each_time() -> None:
    seen(pod())
    obj = {**pod(), "bogus": 1, "status": {"phase": "Running", "x": 1}}
    obj["metadata"] = {"name": "p", "labels": {}, "y": 1}
    assert sorted(POD.decode(obj)) == ["bogus", "metadata.y", "status.x"]
    assert obj["metadata"] == {"name": "p"}
    assert obj["status"] == {"phase": "Running"}
    assert "bogus" not in obj
    with pytest.raises(ApiError):
        POD.decode({**pod(), "status": {"phase": 1}})
    with pytest.raises(ApiError):
        POD.decode(pod(nodeName=5))


def test_the_cache_is_bounded() -> None:
    known = SpecCache()
    for at in range(MAX_SPECS + 1):
        known.add(str(at).encode())
    assert b"0" not in known
    assert b"1" in known
    assert known.key({"spec": {"x": "y" * MAX_BYTES}}) is None
    assert known.key({"spec": [1]}) is None
