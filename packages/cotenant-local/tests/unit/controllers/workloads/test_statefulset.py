from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.processes.plain_cluster import PlainCluster, template

from cotenant_local.controllers.runtime.actions import CLAIMS, PODS, REVISIONS, STATEFUL_SETS, Create, Plan
from cotenant_local.controllers.workloads.statefulset import reconcile

NOW = 1_800_000_000.0


class Set:
    def __init__(self, replicas: int = 3, **spec: Any) -> None:
        self.c = PlainCluster(NOW)
        body = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            "serviceName": "web",
            **spec,
        }
        self.c.put(STATEFUL_SETS, {"metadata": {"name": "db"}, "spec": body})

    def plan(self) -> Plan:
        claims = {c.metadata.name for c in self.c.views(CLAIMS)}
        sts = self.c.view(STATEFUL_SETS, "db")
        return reconcile(sts, self.c.views(PODS), self.c.views(REVISIONS), self.c.now_s, lambda n: n in claims)

    def look(self) -> None:
        self.c.converge(self.plan, limit=20)

    def names(self) -> list[str]:
        return sorted(p.metadata.name for p in self.c.views(PODS) if not p.metadata.terminating)

    def settle(self, unhealthy: str = "") -> None:
        for _ in range(100):
            self.look()
            moved = self.c.end_terminating()
            for pod in self.c.views(PODS):
                image = self.c.objects[(PODS, "default", pod.metadata.name)]["spec"]["containers"][0]["image"]
                if not pod.status.phase and image != unhealthy:
                    self.c.kubelet(pod.metadata.name)
                    moved += 1
            if not moved:
                return
        raise AssertionError("did not settle")

    def image(self, n: int) -> str:
        return str(self.c.objects[(PODS, "default", f"db-{n}")]["spec"]["containers"][0]["image"])


def test_pods_are_created_in_order() -> None:
    db = Set()
    for expected in (["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]):
        db.look()
        assert db.names() == expected
        db.look()
        assert db.names() == expected  # no further pod until the last one is ready
        db.c.kubelet(expected[-1])


def test_a_parallel_set_creates_all_pods_at_once() -> None:
    db = Set(podManagementPolicy="Parallel")
    db.look()
    assert db.names() == ["db-0", "db-1", "db-2"]


def test_pods_are_deleted_in_reverse_order() -> None:
    db = Set()
    db.settle()
    db.c.edit(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    db.look()
    assert db.names() == ["db-0", "db-1"]
    db.look()
    assert db.names() == ["db-0", "db-1"]  # db-2 is still terminating
    db.settle()
    assert db.names() == ["db-0"]


def test_every_pod_has_its_name_index_and_claims() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    db = Set(2, volumeClaimTemplates=[claim])
    db.settle()
    assert sorted(c.metadata.name for c in db.c.views(CLAIMS)) == ["data-db-0", "data-db-1"]
    pod = db.c.objects[(PODS, "default", "db-1")]
    assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}]
    assert pod["spec"]["hostname"] == "db-1"
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    db.c.edit(STATEFUL_SETS, "db", {"spec": {"replicas": 0}})
    db.settle()
    db.c.edit(STATEFUL_SETS, "db", {"spec": {"replicas": 2}})
    db.settle()  # the claims are kept and reused
    assert len(db.c.views(CLAIMS)) == 2


def test_a_failed_pod_is_recreated_with_its_name() -> None:
    db = Set(2)
    db.settle()
    db.c.kubelet("db-0", "Failed")
    db.look()
    assert db.names() == ["db-1"]
    db.settle()
    assert db.names() == ["db-0", "db-1"]


def test_updates_proceed_from_the_highest_ordinal_one_at_a_time() -> None:
    db = Set()
    db.settle()
    db.c.edit(STATEFUL_SETS, "db", {"spec": {"template": template(image="image:2")}})
    db.look()
    assert db.names() == ["db-0", "db-1"]
    db.settle()
    assert [db.image(n) for n in range(3)] == ["image:2"] * 3
    status = db.c.view(STATEFUL_SETS, "db").status
    assert status.current_revision == status.update_revision
    assert (status.updated_replicas, status.current_replicas, status.ready_replicas) == (3, 3, 3)


def test_pods_below_the_partition_keep_their_revision_when_recreated() -> None:
    db = Set(3, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    db.settle()
    db.c.edit(STATEFUL_SETS, "db", {"spec": {"template": template(image="image:2")}})
    db.settle()
    assert [db.image(n) for n in range(3)] == ["image:1", "image:1", "image:2"]
    db.c.kubelet("db-0", "Failed")
    db.settle()
    assert db.image(0) == "image:1"


def test_on_delete_updates_only_pods_deleted_by_the_user() -> None:
    db = Set(2, updateStrategy={"type": "OnDelete"})
    db.settle()
    db.c.edit(STATEFUL_SETS, "db", {"spec": {"template": template(image="image:2")}})
    db.settle()
    assert [db.image(n) for n in range(2)] == ["image:1", "image:1"]
    del db.c.objects[(PODS, "default", "db-0")]
    db.settle()
    assert [db.image(n) for n in range(2)] == ["image:2", "image:1"]


def test_a_broken_update_stops_at_one_pod_and_a_corrected_one_proceeds() -> None:
    db = Set(3)
    db.settle()
    db.c.edit(STATEFUL_SETS, "db", {"spec": {"template": template(image="broken")}})
    db.settle(unhealthy="broken")
    assert [db.image(n) for n in range(3)] == ["image:1", "image:1", "broken"]
    db.c.edit(STATEFUL_SETS, "db", {"spec": {"template": template(image="image:3")}})
    db.settle(unhealthy="broken")
    assert [db.image(n) for n in range(3)] == ["image:3"] * 3


def test_a_rollback_reuses_the_old_revision() -> None:
    db = Set(1)
    db.settle()
    for image in ("image:2", "image:1"):
        db.c.edit(STATEFUL_SETS, "db", {"spec": {"template": template(image=image)}})
        db.settle()
    assert sorted(r.revision for r in db.c.views(REVISIONS)) == [2, 3]


def test_ordinals_may_have_another_start() -> None:
    db = Set(2, ordinals={"start": 5})
    db.settle()
    assert db.names() == ["db-5", "db-6"]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    present=st.sets(st.integers(0, 6)),
    ready=st.sets(st.integers(0, 6)),
    replicas=st.integers(0, 5),
    parallel=st.booleans(),
)
def test_converges_from_any_state_and_ordered_sets_create_one_pod_at_a_time(
    present: set[int], ready: set[int], replicas: int, parallel: bool
) -> None:
    db = Set(replicas, podManagementPolicy="Parallel" if parallel else "OrderedReady")
    uid = db.c.view(STATEFUL_SETS, "db").metadata.uid
    reference = {"kind": "StatefulSet", "name": "db", "uid": uid, "apiVersion": "apps/v1", "controller": True}
    for n in sorted(present):
        meta = {"name": f"db-{n}", "labels": {"app": "web"}, "ownerReferences": [reference]}
        db.c.put(PODS, {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "old"}]}})
        if n in ready:
            db.c.kubelet(f"db-{n}")
    creates = [a for a in db.plan().actions if isinstance(a, Create) and a.resource == PODS]
    assert parallel or len(creates) <= 1
    db.settle()
    assert db.names() == [f"db-{n}" for n in range(replicas)]
