"""Single objects of a copy: read whatever their form, and changed only where a what-if asks for it."""

from __future__ import annotations

import pytest

from cotenant.services.assess.what_ifs.objects import (
    Obj,
    amounts_of,
    is_daemon,
    is_final,
    is_static,
    key_of,
    labels_of,
    name_of,
    node_of,
    owner_of,
    resized,
    shape_matches,
    size_of,
    uid_of,
    unlent,
    unplaced,
    zone_of,
)


def pod(*containers: Obj, **spec: object) -> Obj:
    return {
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "u-1"},
        "spec": {"containers": list(containers), **spec},  # type: ignore[dict-item]
    }


def container(requests: Obj | None = None, limits: Obj | None = None) -> Obj:
    resources: Obj = {}
    if requests is not None:
        resources["requests"] = requests
    if limits is not None:
        resources["limits"] = limits
    return {"name": "c", "resources": resources}


def resources(found: Obj) -> list[object]:
    spec = found["spec"]
    assert isinstance(spec, dict)
    containers = spec["containers"]
    assert isinstance(containers, list)
    return [one["resources"] for one in containers if isinstance(one, dict)]


@pytest.mark.parametrize("broken", [{}, {"metadata": "x"}, {"metadata": {"name": 5, "labels": [], "uid": None}}])
def test_what_has_no_readable_name_has_none(broken: Obj) -> None:
    assert (name_of(broken), uid_of(broken), key_of(broken), labels_of(broken)) == ("", "", "default/", {})
    assert (zone_of(broken), node_of(broken), owner_of(broken), amounts_of(broken)) == ("", "", None, set())
    assert (is_daemon(broken), is_static(broken), is_final(broken)) == (False, False, False)
    assert resized(broken, 1000, None) == broken
    assert unlent(broken) == broken


def test_names_labels_and_zones() -> None:
    one = pod()
    assert (name_of(one), uid_of(one), key_of(one)) == ("web-1", "u-1", "shop/web-1")
    assert key_of({"metadata": {"name": "a", "namespace": ""}}) == "default/a"
    labels: Obj = {"topology.kubernetes.io/zone": "z1", "failure-domain.beta.kubernetes.io/zone": "old", "n": 5}
    assert zone_of({"metadata": {"labels": labels}}) == "z1"
    del labels["topology.kubernetes.io/zone"]
    assert zone_of({"metadata": {"labels": labels}}) == "old"
    assert labels_of({"metadata": {"labels": labels}}) == {"failure-domain.beta.kubernetes.io/zone": "old"}
    assert node_of(pod(nodeName="n1")) == "n1"


def owned(kind: str, controller: bool = True) -> Obj:
    owners: list[Obj] = [
        {"kind": "Other", "name": "o", "uid": "1"},
        {"kind": kind, "name": "k", "uid": "2", "controller": controller},
    ]
    return {"metadata": {"name": "a", "ownerReferences": list(owners)}}


def test_a_pod_is_its_controllers() -> None:
    assert owner_of(owned("ReplicaSet")) == ("ReplicaSet", "k", "2")
    assert owner_of(owned("ReplicaSet", controller=False)) is None
    assert [is_daemon(owned(kind)) for kind in ("DaemonSet", "ReplicaSet")] == [True, False]
    assert [is_static(owned(kind)) for kind in ("Node", "DaemonSet")] == [True, False]
    assert is_static({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})
    phases = ("Pending", "Running", "Succeeded", "Failed")
    assert [is_final({"status": {"phase": phase}}) for phase in phases] == [False, False, True, True]


def test_what_a_pod_requests() -> None:
    assert amounts_of(pod(container({"cpu": "1"}), container({"memory": "1Gi"}, {"nvidia.com/gpu": "1"}))) == {
        "cpu",
        "memory",
    }


def test_a_pod_that_is_created_again_has_lost_its_node_and_what_it_was_given_with_it() -> None:
    volumes: list[Obj] = [{"name": "a", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": "c"}}]
    one: Obj = {
        "metadata": {
            "name": "a",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"scheduling.koordinator.sh/resource-status": "{}", "cotenant.io/seal": "x", "mine": "y"},
        },
        "spec": {"nodeName": "n1", "schedulerName": "s", "volumes": list(volumes)},
        "status": {"phase": "Running", "qosClass": "Burstable", "resourceClaimStatuses": [], "podIP": "10.0.0.1"},
    }
    found = unplaced(one)
    assert found["metadata"] == {"name": "a", "annotations": {"mine": "y"}}
    assert found["spec"] == {"schedulerName": "s", "volumes": volumes}
    assert found["status"] == {"phase": "Pending", "qosClass": "Burstable", "resourceClaimStatuses": []}
    new = unplaced(one, keeps_claims=False)
    assert new["spec"] == {"schedulerName": "s", "volumes": volumes[:1]}
    assert new["status"] == {"phase": "Pending", "qosClass": "Burstable"}
    assert one["spec"] == {"nodeName": "n1", "schedulerName": "s", "volumes": volumes}  # the copy is as it was


def test_a_new_size_is_shared_by_the_containers_as_the_old_one_was() -> None:
    found = resized(pod(container({"cpu": "1"}), container({"cpu": "2"}), container({})), 1000, None)
    assert resources(found) == [
        {"requests": {"cpu": "333m"}},
        {"requests": {"cpu": "666m"}},
        {"requests": {"cpu": "1m"}},
    ]
    found = resized(pod(container({"cpu": "1"}), container({"cpu": "3"})), 400, None)
    assert resources(found) == [{"requests": {"cpu": "100m"}}, {"requests": {"cpu": "300m"}}]
    found = resized(pod(container({"memory": "1Gi"}), container({"memory": "1Gi"})), None, 3 << 20)
    assert resources(found) == [{"requests": {"memory": str(3 << 19)}}] * 2


def test_the_first_container_has_all_where_none_requested_any() -> None:
    assert resources(resized(pod(container(), container()), 500, None)) == [{"requests": {"cpu": "500m"}}, {}]


def test_a_pod_of_the_wanted_size_is_left_alone() -> None:
    one = pod(container({"cpu": "1", "memory": "1Gi"}), resources={"requests": {"cpu": "1"}})
    assert resized(one, 1000, 1 << 30) is one
    assert resized(one, None, None) is one


def test_amounts_of_the_whole_pod_go_where_its_containers_are_changed() -> None:
    found = resized(pod(container({"cpu": "1"}), resources={"requests": {"cpu": "1"}}), 2000, None)
    assert found["spec"] == {"containers": [container({"cpu": "2000m"})]}


def test_limits_are_raised_but_never_lowered_unless_they_were_the_request() -> None:
    def limit(before: str, to_m: int) -> object:
        (found,) = resources(resized(pod(container({"cpu": "1"}, {"cpu": before, "memory": "1Gi"})), to_m, None))
        assert isinstance(found, dict)
        limits = found["limits"]
        assert isinstance(limits, dict)
        assert limits["memory"] == "1Gi"
        return limits["cpu"]

    assert (limit("2", 3000), limit("2", 1500), limit("2", 500), limit("1", 500)) == ("3000m", "2", "2", "500m")
    limited = resized(pod(container(None, {"memory": "1Gi"})), None, 2 << 30)  # requests are the limits by default
    assert resources(limited) == [{"requests": {"memory": str(2 << 30)}, "limits": {"memory": str(2 << 30)}}]


def test_an_amount_that_cannot_be_read_counts_as_none() -> None:
    found = resized(pod(container({"cpu": "many"}), container({"cpu": "1"})), 500, None)
    assert resources(found) == [{"requests": {"cpu": "many"}}, {"requests": {"cpu": "500m"}}]


def test_a_node_that_lends_nothing_has_no_batch_and_mid_resources() -> None:
    amounts: Obj = {"cpu": "8", "kubernetes.io/batch-cpu": "4", "kubernetes.io/mid-memory": "1"}
    assert unlent({"status": {"allocatable": amounts, "capacity": {"cpu": "8"}, "phase": "x"}}) == {
        "status": {"allocatable": {"cpu": "8"}, "capacity": {"cpu": "8"}, "phase": "x"}
    }
    plain: Obj = {"status": {"allocatable": {"cpu": "8"}}}
    assert unlent(plain) is plain


def test_sizes_are_cpu_and_memory() -> None:
    assert size_of("16x64Gi") == (16000, 64 << 30)
    assert size_of("1500mx2Gi") == (1500, 2 << 30)
    for other in ("m5.large", "0x1Gi", "1x0", "x", "1x1Zi", "1.2.3x1Gi"):
        assert size_of(other) is None, other


def test_a_shape_is_a_name_an_instance_type_or_about_a_size() -> None:
    def node(cpu: str, memory: str, where: str = "capacity") -> Obj:
        labels: Obj = {"node.kubernetes.io/instance-type": "m5.large"}
        return {"metadata": {"name": "n1", "labels": labels}, "status": {where: {"cpu": cpu, "memory": memory}}}

    one = node("16", "62Gi")
    assert [shape_matches(one, shape) for shape in ("n1", "m5.large", "16x64Gi", "n2", "8x64Gi", "16x32Gi")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    assert [shape_matches(node(cpu, "10Gi"), "10x10Gi") for cpu in ("9", "11", "8900m", "11100m", "many")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert shape_matches(node("16", "64Gi", "allocatable"), "16x64Gi")
