"""What a pod's object says about evicting it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.pod.eviction import EvictionPod, read_eviction_notes
from cotenant.drivers.kube.kinds.workloads import WorkloadObject, replicas_of
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.qos import KubernetesQoS


def notes(annotations: dict[str, str] | None = None, volumes: list[Any] | None = None, **status: Any) -> EvictionNotes:
    obj = {"metadata": {"name": "p", "annotations": annotations}, "spec": {"volumes": volumes}, "status": status}
    return read_eviction_notes(msgspec.convert(obj, EvictionPod))


def test_nothing_is_said() -> None:
    assert read_eviction_notes(EvictionPod()) == EvictionNotes(kubernetes_qos=KubernetesQoS.BURSTABLE)


def test_everything_is_said() -> None:
    found = notes(
        {
            "controller.kubernetes.io/pod-deletion-cost": "-5",
            "scheduling.koordinator.sh/eviction-cost": "2147483647",
            "descheduler.alpha.kubernetes.io/evict": "",
            "kubernetes.io/config.mirror": "hash",
        },
        [{"name": "a", "emptyDir": {}}, {"name": "b", "persistentVolumeClaim": {"claimName": "c"}}],
        qosClass="Guaranteed",
        conditions=[{"type": "Ready", "status": "True"}],
    )
    assert found == EvictionNotes(KubernetesQoS.GUARANTEED, True, True, True, True, -5, 2**31 - 1, True)


@pytest.mark.parametrize("written", ["many", "1.5", "2147483648", ""])
def test_a_cost_that_cannot_be_read_is_named(written: str) -> None:
    found = notes({"scheduling.koordinator.sh/eviction-cost": written})
    assert found.eviction_cost == 0
    assert "scheduling.koordinator.sh/eviction-cost" in found.wrong[0]


@pytest.mark.parametrize(
    ("volume", "local", "claims"),
    [({"hostPath": {"path": "/"}}, True, False), ({"ephemeral": {}}, False, True), ({"configMap": {}}, False, False)],
)
def test_volumes(volume: dict[str, Any], local: bool, claims: bool) -> None:
    found = notes(volumes=[{"name": "v", **volume}])
    assert (found.has_local_storage, found.has_claims) == (local, claims)


@pytest.mark.parametrize(
    ("spec", "wanted"), [({"replicas": 3}, 3), ({"parallelism": 2}, 2), ({}, 1), (None, 1), ({"replicas": 0}, 0)]
)
def test_the_replicas_of_a_workload(spec: dict[str, int] | None, wanted: int) -> None:
    assert replicas_of(msgspec.convert({"metadata": {"name": "w"}, "spec": spec}, WorkloadObject)) == wanted


def pods_that_a_job_keeps(spec: dict[str, int], succeeded: int) -> int:
    """What a Job controller has running after so many successes, started one by one as it would."""
    active, done = 0, 0
    while True:
        more = done < succeeded
        may_start = done + active < spec["completions"] if "completions" in spec else done == 0
        if active < spec["parallelism"] and may_start:
            active += 1
        elif more and active:
            active, done = active - 1, done + 1
        else:
            return active


@pytest.mark.parametrize("parallelism", range(1, 5))
@pytest.mark.parametrize("completions", [None, 1, 2, 3, 7])
def test_a_job_wants_no_more_pods_than_are_left_to_complete(parallelism: int, completions: int | None) -> None:
    spec = {"parallelism": parallelism} | ({} if completions is None else {"completions": completions})
    for succeeded in range((completions or parallelism) + 1):
        active = pods_that_a_job_keeps(spec, succeeded)
        status = {"active": active, "succeeded": succeeded}
        job = msgspec.convert({"metadata": {"name": "j"}, "spec": spec, "status": status}, WorkloadObject)
        assert replicas_of(job) == active
