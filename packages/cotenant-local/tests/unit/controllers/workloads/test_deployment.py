from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.processes.plain_cluster import PlainCluster, template
from tests.property.few import examples

from cotenant_local.controllers.runtime.actions import DEPLOYMENTS, PODS, REPLICA_SETS, Plan
from cotenant_local.controllers.workloads import replicaset
from cotenant_local.controllers.workloads.deployment import reconcile
from cotenant_local.controllers.workloads.deployment_sets import REVISION
from cotenant_local.controllers.workloads.rounding import fenceposts

NOW = 1_800_000_000.0


class Rollout:
    """A Deployment, its ReplicaSets' controller, and kubelets driven by the test."""

    def __init__(self, replicas: int = 4, **spec: Any) -> None:
        self.c = PlainCluster(NOW)
        body = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec}
        self.c.put(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": body})

    def plan(self) -> Plan:
        sets = self.c.views(REPLICA_SETS)
        names = {rs.metadata.name for rs in sets}

        def old_pods(old: Any) -> int:
            owners = {rs.metadata.uid for rs in old}
            return sum(not p.finished and p.metadata.controller.uid in owners for p in self.c.views(PODS))

        return reconcile(self.c.view(DEPLOYMENTS, "web"), sets, self.c.now_s, lambda n: n in names, old_pods)

    def step(self) -> bool:
        """Reconcile every controller once. Returns whether any had something to do."""
        plans = self.plan().actions
        self.c.execute(plans)
        busy = bool(plans)
        for rs in self.c.views(REPLICA_SETS):
            mine = [p for p in self.c.views(PODS) if p.metadata.controller.uid == rs.metadata.uid]
            actions = replicaset.reconcile(rs, mine, self.c.now_s).actions
            self.c.execute(actions)
            busy = busy or bool(actions)
        return busy

    def kubelets(self, unhealthy: str = "") -> bool:
        busy = bool(self.c.end_terminating())
        for pod in self.c.views(PODS):
            image = self.c.objects[(PODS, "default", pod.metadata.name)]["spec"]["containers"][0]["image"]
            if pod.status.phase == "" and image != unhealthy:
                self.c.kubelet(pod.metadata.name)
                busy = True
        return busy

    def settle(self, unhealthy: str = "", most: int = 200) -> int:
        for count in range(most):
            busy = self.step()
            if not (self.kubelets(unhealthy) or busy):
                return count
        raise AssertionError("did not settle")

    def update(self, image: str) -> None:
        self.c.edit(DEPLOYMENTS, "web", {"spec": {"template": template(image=image)}})

    def sizes(self) -> dict[str, int]:
        return {
            rs.spec.template["spec"]["containers"][0]["image"]: rs.spec.replicas for rs in self.c.views(REPLICA_SETS)
        }

    def condition(self, kind: str) -> tuple[str, str]:
        found = next(c for c in self.c.view(DEPLOYMENTS, "web").status.conditions if c.type == kind)
        return found.status, found.reason


def test_a_new_deployment_becomes_available_and_complete() -> None:
    web = Rollout(3)
    web.settle()
    status = web.c.view(DEPLOYMENTS, "web").status
    assert (status.replicas, status.updated_replicas, status.available_replicas, status.unavailable_replicas) == (
        3,
        3,
        3,
        0,
    )
    assert status.observed_generation == 1
    assert web.condition("Available") == ("True", "MinimumReplicasAvailable")
    assert web.condition("Progressing") == ("True", "NewReplicaSetAvailable")
    assert web.c.view(DEPLOYMENTS, "web").metadata.annotations[REVISION] == "1"


def test_the_new_set_has_the_hash_in_its_selector_and_its_pods() -> None:
    web = Rollout(1)
    web.settle()
    rs = web.c.views(REPLICA_SETS)[0]
    digest = rs.metadata.labels["pod-template-hash"]
    assert rs.metadata.name == f"web-{digest}"
    assert rs.spec.selector.match_labels == {"app": "web", "pod-template-hash": digest}
    assert web.c.views(PODS)[0].metadata.labels["pod-template-hash"] == digest


def test_a_rollout_moves_all_pods_and_keeps_the_empty_old_set() -> None:
    web = Rollout(4)
    web.settle()
    web.update("image:2")
    web.settle()
    assert web.sizes() == {"image:1": 0, "image:2": 4}
    assert {rs.metadata.annotations[REVISION] for rs in web.c.views(REPLICA_SETS)} == {"1", "2"}


def test_a_rollback_reuses_the_old_set_as_the_newest_revision() -> None:
    web = Rollout(2)
    web.settle()
    first = web.c.views(REPLICA_SETS)[0].metadata.name
    web.update("image:2")
    web.settle()
    web.update("image:1")
    web.settle()
    again = web.c.view(REPLICA_SETS, first)
    assert again.spec.replicas == 2
    assert again.metadata.annotations[REVISION] == "3"
    assert again.metadata.annotations["deployment.kubernetes.io/revision-history"] == "1"
    assert len(web.c.views(REPLICA_SETS)) == 2


def test_a_broken_rollout_stops_at_max_unavailable_and_reports_it() -> None:
    web = Rollout(4, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}, progressDeadlineSeconds=60)
    web.settle()
    web.update("image:broken")
    web.settle(unhealthy="image:broken")
    assert web.sizes() == {"image:1": 3, "image:broken": 2}
    assert web.condition("Available")[0] == "True"
    asked = web.plan()
    assert asked.requeue_at_s is not None
    assert asked.requeue_at_s <= NOW + 60
    web.c.now_s += 61
    web.settle(unhealthy="image:broken")
    assert web.condition("Progressing") == ("False", "ProgressDeadlineExceeded")
    web.update("image:3")
    web.settle()
    assert web.sizes() == {"image:1": 0, "image:broken": 0, "image:3": 4}
    assert web.condition("Progressing") == ("True", "NewReplicaSetAvailable")


def test_recreate_waits_for_all_old_pods_to_finish() -> None:
    web = Rollout(3, strategy={"type": "Recreate"})
    web.settle()
    web.update("image:2")
    for _ in range(5):
        web.step()
    assert web.sizes() == {"image:1": 0}  # its pods are still terminating
    web.settle()
    assert web.sizes() == {"image:1": 0, "image:2": 3}


def test_a_paused_deployment_is_scaled_but_not_updated() -> None:
    web = Rollout(2)
    web.settle()
    web.c.edit(DEPLOYMENTS, "web", {"spec": {"paused": True, "replicas": 5}})
    web.update("image:2")
    web.settle()
    assert web.sizes() == {"image:1": 5}
    assert web.condition("Progressing") == ("Unknown", "DeploymentPaused")
    web.c.edit(DEPLOYMENTS, "web", {"spec": {"paused": False}})
    web.settle()
    assert web.sizes() == {"image:1": 0, "image:2": 5}


def test_scaling_during_a_rollout_is_proportional() -> None:
    web = Rollout(10, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}})
    web.settle()
    web.update("image:broken")
    web.settle(unhealthy="image:broken")
    assert web.sizes() == {"image:1": 8, "image:broken": 5}
    web.c.edit(DEPLOYMENTS, "web", {"spec": {"replicas": 15}})
    web.step()
    assert web.sizes() == {"image:1": 11, "image:broken": 7}  # 18 = 15 + 3, in the proportion 8 : 5


def test_old_sets_beyond_the_history_limit_are_deleted() -> None:
    web = Rollout(1, revisionHistoryLimit=2)
    for number in range(1, 6):
        web.update(f"image:{number}")
        web.settle()
    assert set(web.sizes()) == {"image:3", "image:4", "image:5"}


def test_a_name_in_use_counts_as_a_collision() -> None:
    web = Rollout(1)
    probe = Rollout(1)
    probe.settle()
    name = probe.c.views(REPLICA_SETS)[0].metadata.name
    other = {"replicas": 0, "selector": {"matchLabels": {"app": "else"}}, "template": template("else")}
    web.c.put(REPLICA_SETS, {"metadata": {"name": name}, "spec": other})
    web.settle()
    assert web.c.view(DEPLOYMENTS, "web").status.collision_count == 1
    assert len(web.c.views(REPLICA_SETS)) == 2


def test_sets_that_match_are_adopted() -> None:
    web = Rollout(2)
    web.settle()
    key = next(k for k in web.c.objects if k[0] == REPLICA_SETS)
    del web.c.objects[key]["metadata"]["ownerReferences"]
    web.settle()
    assert web.c.views(REPLICA_SETS)[0].metadata.controller.name == "web"
    assert len(web.c.views(REPLICA_SETS)) == 1


amounts = st.one_of(st.integers(0, 5), st.integers(0, 100).map(lambda n: f"{n}%"))


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(replicas=st.integers(1, 9), surge=amounts, unavailable=amounts, start=st.lists(st.booleans(), max_size=40))
def test_a_rollout_completes_within_its_limits(
    replicas: int, surge: int | str, unavailable: int | str, start: list[bool]
) -> None:
    web = Rollout(replicas, strategy={"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
    web.settle()
    web.update("image:2")
    extra, missing = fenceposts(surge, unavailable, replicas)
    ticks = iter(start)
    for _ in range(400):
        busy = web.step()
        active = [p for p in web.c.views(PODS) if p.active]
        assert len(active) <= replicas + extra
        assert sum(p.ready for p in active) >= replicas - missing
        if next(ticks, True) and not web.kubelets() and not busy:
            break
    assert web.sizes() == {"image:1": 0, "image:2": replicas}


@pytest.mark.parametrize("replicas", [0, 1])
def test_zero_replicas_are_complete(replicas: int) -> None:
    web = Rollout(replicas)
    web.settle()
    assert web.condition("Progressing") == ("True", "NewReplicaSetAvailable")
