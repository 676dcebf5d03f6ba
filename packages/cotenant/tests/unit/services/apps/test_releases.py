"""Releases of manifests on a server: installed, upgraded, rolled back and removed, beside objects of others."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import TypeVar

import pytest
from tests.fakes.processes.kept_objects import KeptObjects
from tests.fakes.virtual_time import run_virtually

from cotenant.drivers.kube.client.errors import Forbidden
from cotenant.drivers.kube.client.objects import ServedKind
from cotenant.engine.apps.run import RunPlan
from cotenant.model.apps.release import ReleaseName, Revision, RevisionState
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.services.apps.carrying import Carrier
from cotenant.services.apps.records import MAX_KEPT, ReleaseRecords
from cotenant.services.apps.releases import How, install, roll_back, uninstall, upgrade
from cotenant.services.apps.running import Stopped, finished_of, start, stop

T = TypeVar("T")
HOW = How(60.0)
NOW = How(0.0)  # what is not ready at once has failed


def config(name: str, value: str = "1", namespace: str = "shop") -> JsonObject:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": value}}


def workload(kind: str, name: str, **spec: object) -> JsonObject:
    version = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


class Shop:
    """A server and one release of it."""

    def __init__(self, class_name: str = "") -> None:
        self.objects = KeptObjects()
        self.said: list[str] = []
        self.carrier = Carrier(
            self.objects,
            ReleaseRecords(self.objects, "shop"),
            ReleaseName("shop", "web"),
            self.said.append,
            class_name=class_name,
        )

    def run(self, work: Coroutine[object, object, T]) -> T:
        return run_virtually(work)

    def install(self, *documents: JsonObject, how: How = HOW) -> str:
        return self.run(install(self.carrier, list(documents), how)).failure

    def upgrade(self, *documents: JsonObject, how: How = HOW) -> str:
        return self.run(upgrade(self.carrier, list(documents), how)).failure

    def history(self) -> list[tuple[int, str]]:
        found = self.run(self.carrier.records.history("web"))
        return [(one.number, one.state.value) for one in found]

    def revision(self, number: int) -> Revision:
        return next(one for one in self.run(self.carrier.records.history("web")) if one.number == number)

    def value(self, name: str) -> str:
        return str(self.objects.named("configmaps", name)["data"]["value"])


def test_what_is_installed_says_whose_it_is_and_is_recorded() -> None:
    shop = Shop("batch")
    annotated = config("a")
    annotated["metadata"]["annotations"] = {"team": "x"}
    assert shop.install(annotated) == ""
    assert shop.objects.named("configmaps", "a")["metadata"]["annotations"] == {
        "team": "x",
        "cotenant.io/release": "shop/web",
    }
    assert shop.history() == [(1, "deployed")]
    assert (shop.revision(1).class_name, shop.revision(1).until_s) == ("batch", 0.0)
    with pytest.raises(InvalidInput, match="use upgrade"):
        shop.install(config("a"))


def test_an_upgrade_removes_what_is_no_longer_in_the_release() -> None:
    shop = Shop()
    shop.install(config("a"), config("b"))
    began_s = shop.revision(1).at_s
    assert shop.upgrade(config("a", "2"), config("c")) == ""
    assert (shop.objects.names("configmaps"), shop.value("a")) == (["a", "c"], "2")
    assert shop.history() == [(1, "superseded"), (2, "deployed")]
    assert shop.revision(1).at_s == began_s
    assert shop.said == ["deleted ConfigMap shop/b"]


def test_only_so_many_revisions_are_kept() -> None:
    shop = Shop()
    shop.install(config("a"))
    for number in range(MAX_KEPT + 3):
        shop.upgrade(config("a", str(number)))
    numbers = [number for number, _ in shop.history()]
    assert numbers == [*range(numbers[-1] - MAX_KEPT, numbers[-1] + 1)]
    assert numbers[-1] == MAX_KEPT + 4


def test_objects_of_others_are_refused_or_taken_over_as_they_are_asked_to_be() -> None:
    shop = Shop()
    shop.objects.put(config("a", "theirs"))
    with pytest.raises(Permanent, match="ConfigMap shop/a: it is there already"):
        shop.install(config("a"))
    assert (shop.value("a"), shop.history()) == ("theirs", [])
    assert shop.install(config("a"), how=How(60.0, adopts=True)) == ""
    assert shop.value("a") == "1"


def test_of_many_foreign_objects_five_are_named_and_the_rest_counted() -> None:
    for count, more in ((5, ""), (6, "; and 1 more"), (9, "; and 4 more")):
        shop = Shop()
        documents = [shop.objects.put(config(f"m{i}")) for i in range(count)]
        with pytest.raises(Permanent) as refused:
            shop.install(*documents)
        assert str(refused.value).count("it is there already") == 5
        assert str(refused.value).endswith(f"--adopt takes it over{more}")


def test_a_release_that_another_command_changes_is_left_alone_until_its_time_is_up() -> None:
    shop = Shop()
    pending = Revision(3, RevisionState.PENDING, (config("a"),), 0.0, time.time() + 500.0)
    shop.run(shop.carrier.records.write("web", pending, True))
    for change in (upgrade(shop.carrier, [config("a")], HOW), install(shop.carrier, [config("a")], HOW)):
        with pytest.raises(Permanent, match=r"being changed \(revision 3\).*wait (500|499) s"):
            shop.run(change)
    abandoned = Revision(3, RevisionState.PENDING, (config("a"), config("left")), 0.0, time.time() - 1.0)
    shop.run(shop.carrier.records.write("web", abandoned, False))
    left = config("left")
    left["metadata"]["annotations"] = {"cotenant.io/release": "shop/web"}
    shop.objects.put(left)
    assert shop.install(config("a")) == ""  # nothing was deployed: still a first one
    assert shop.history()[-1] == (4, "deployed")
    assert shop.objects.names("configmaps") == ["a"]  # what the killed command had made is gone


def test_a_failed_upgrade_goes_back_where_that_was_asked_for() -> None:
    shop = Shop()
    shop.install(config("a"))
    how = How(0.0, rolls_back=True)
    finished = shop.run(upgrade(shop.carrier, [config("a", "2"), workload("Deployment", "never")], how))
    assert finished.failure.startswith("not ready within 0 s")
    assert (finished.is_rolled_back, shop.value("a"), shop.objects.names("deployments")) == (True, "1", [])
    assert [state for _, state in shop.history()] == ["superseded", "failed", "deployed"]
    finished = shop.run(upgrade(shop.carrier, [config("a", "3"), workload("Deployment", "never")], NOW))
    assert (finished.is_rolled_back, shop.value("a"), shop.objects.names("deployments")) == (False, "3", ["never"])


def test_a_first_installation_that_fails_leaves_nothing_where_it_rolls_back() -> None:
    shop = Shop()
    shop.install(config("a"), workload("Deployment", "never"), how=How(0.0, rolls_back=True))
    assert (shop.objects.names("configmaps"), shop.objects.names("deployments")) == ([], [])


def test_a_failure_names_why_the_pods_are_not_ready() -> None:
    shop = Shop()
    pod: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": {}}
    finished = shop.run(install(shop.carrier, [pod], NOW))
    (obstacle,) = finished.obstacles
    assert obstacle.why.startswith("0/1 ready; pending: no scheduler")


def test_progress_is_told_when_it_changes() -> None:
    shop = Shop()
    looks = 0

    async def one_more() -> None:
        real = shop.objects.get

        async def get(place: ServedKind, namespace: str, name: str) -> JsonObject | None:
            nonlocal looks
            if place.plural == "deployments" and name in shop.objects.names("deployments"):
                looks += 1
                ready = looks // 3
                shop.objects.named("deployments", name)["status"] = {
                    "replicas": 2, "updatedReplicas": 2, "availableReplicas": ready,
                }  # fmt: skip
            return await real(place, namespace, name)

        shop.objects.get = get  # type: ignore[method-assign]
        await install(shop.carrier, [workload("Deployment", "web", replicas=2), config("a")], HOW)

    shop.run(one_more())
    assert shop.said == [f"Deployment shop/web {ready}/2 ready" for ready in (0, 1, 2)]


def test_a_roll_back_goes_to_the_revision_before_or_the_one_that_is_named() -> None:
    shop = Shop()
    shop.install(config("a", "1"))
    shop.upgrade(config("a", "2"))
    shop.upgrade(config("a", "3"))
    assert shop.run(roll_back(shop.carrier, 0, HOW)).failure == ""
    assert shop.value("a") == "2"
    assert shop.run(roll_back(shop.carrier, 1, HOW)).failure == ""
    assert shop.value("a") == "1"
    with pytest.raises(InvalidInput, match="a revision that is kept: 1, 2, 3, 4, 5"):
        shop.run(roll_back(shop.carrier, 9, HOW))
    shop.upgrade(config("a", "6"), workload("Deployment", "never"), how=NOW)
    assert shop.run(roll_back(shop.carrier, 0, HOW)).failure == ""
    assert shop.value("a") == "1"  # what was deployed, not what failed


def test_there_is_nothing_to_roll_back_to_after_the_first() -> None:
    shop = Shop()
    with pytest.raises(InvalidInput, match="a release of namespace shop"):
        shop.run(roll_back(shop.carrier, 0, HOW))
    shop.install(config("a"))
    with pytest.raises(InvalidInput, match="the one before"):
        shop.run(roll_back(shop.carrier, 0, HOW))


def test_a_record_is_not_believed_about_another_namespace() -> None:
    shop = Shop()
    shop.install(config("a"), config("far", namespace="other"))
    assert shop.run(roll_back(shop.carrier, 1, HOW)).failure == ""  # the object itself says whose it is
    shop.objects.named("configmaps", "far", "other")["metadata"]["annotations"] = {}
    with pytest.raises(Permanent, match="ConfigMap other/far: the record in namespace shop alone"):
        shop.run(roll_back(shop.carrier, 1, HOW))


def test_an_uninstallation_leaves_what_is_not_the_releases() -> None:
    shop = Shop()
    shop.install(config("a"), config("taken"))
    shop.objects.named("configmaps", "taken")["metadata"]["annotations"] = {"cotenant.io/release": "shop/other"}
    finished = shop.run(uninstall(shop.carrier, HOW, False))
    assert shop.objects.names("configmaps") == ["taken"]
    assert [str(one) for one in finished.obstacles] == [
        "ConfigMap shop/taken: it stays: it belongs to the release shop/other"
    ]
    assert (shop.history(), shop.objects.names("secrets")) == ([], [])


def test_volumes_claims_are_deleted_only_where_that_was_said() -> None:
    claim: JsonObject = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
    }
    for deletes, left in ((False, ["data"]), (True, [])):
        shop = Shop()
        shop.install(claim)
        finished = shop.run(uninstall(shop.carrier, HOW, deletes))
        assert shop.objects.names("persistentvolumeclaims") == left
        assert len(finished.kept) == len(left)


def test_a_kind_that_the_server_has_not_is_said_and_recorded() -> None:
    shop = Shop()
    odd = {**config("a"), "apiVersion": "odd.example/v1", "kind": "Odd"}
    finished = shop.run(install(shop.carrier, [odd], HOW))
    assert finished.failure == "Odd shop/a was refused"
    assert finished.obstacles[0].why == "the server has no kind odd.example/v1 Odd"
    assert shop.history() == [(1, "failed")]


def test_what_another_program_records_is_only_waited_for() -> None:
    shop = Shop()
    watching = Carrier(shop.objects, shop.carrier.records, shop.carrier.release, shop.said.append, keeps_record=False)
    shop.objects.put(config("a", "theirs"))
    plan = RunPlan(0, (config("a"),), (config("old"),), True, 60.0)
    assert shop.run(watching.carry(plan)).failure == ""
    assert (shop.value("a"), shop.history()) == ("theirs", [])


def test_a_refusal_while_deleting_is_a_failure_that_the_record_keeps() -> None:
    shop = Shop()
    shop.install(config("a"), config("b"))

    async def refuses(place: ServedKind, namespace: str, name: str, uid: str = "") -> None:
        raise Forbidden(f"{name} may not be deleted")

    shop.objects.delete = refuses  # type: ignore[method-assign]
    finished = shop.run(upgrade(shop.carrier, [config("a", "2")], HOW))
    assert finished.failure == "what was to be deleted could not be"
    assert [one.why for one in finished.obstacles] == ["it stays: b may not be deleted"]
    assert {one["metadata"]["name"] for one in shop.revision(2).documents} == {"a", "b"}


def stopped_shop(*documents: JsonObject) -> tuple[Shop, list[JsonObject]]:
    shop = Shop()
    for document in documents:
        shop.objects.put(document)
    return shop, list(documents)


def test_a_stopped_release_runs_no_pod_and_starts_as_it_was() -> None:
    shop, documents = stopped_shop(
        workload("Deployment", "web", replicas=3),
        workload("CronJob", "night"),
        workload("DaemonSet", "log"),
        config("a"),
    )
    stopped = shop.run(stop(shop.carrier, documents, True, 60.0, False))
    assert stopped == Stopped(3, (), 0)
    assert shop.objects.named("deployments", "web")["spec"]["replicas"] == 0
    assert shop.objects.named("cronjobs", "night")["spec"]["suspend"] is True
    assert shop.run(stop(shop.carrier, documents, True, 60.0, False)).changed == 0
    shop.run(shop.carrier.records.write("web", Revision(1, RevisionState.DEPLOYED, tuple(documents), 0.0), True))
    with pytest.raises(InvalidInput, match=r"for an upgrade.*start it first"):
        shop.upgrade(*documents)
    with pytest.raises(InvalidInput, match="for a roll-back"):
        shop.run(roll_back(shop.carrier, 1, HOW))
    assert shop.run(start(shop.carrier, documents, False)) == 3
    assert shop.objects.named("deployments", "web")["spec"] == {"replicas": 3}
    assert shop.objects.named("cronjobs", "night")["spec"] == {"suspend": False}
    assert shop.run(start(shop.carrier, documents, False)) == 0


def test_a_stop_waits_for_pods_and_says_how_many_are_left() -> None:
    shop, documents = stopped_shop(workload("StatefulSet", "db", replicas=2))

    def pod(name: str, phase: str) -> JsonObject:
        owners = [{"uid": "uid-db", "controller": True}]
        metadata = {"name": name, "namespace": "shop", "ownerReferences": owners}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": phase}}

    for name, phase in (("db-0", "Running"), ("db-1", "Running"), ("old", "Succeeded"), ("broken", "Failed")):
        shop.objects.put(pod(name, phase))
    left = shop.run(stop(shop.carrier, documents, True, 0.0, False))
    assert (left, shop.said) == (Stopped(1, (), 2), ["2 pods run"])
    assert finished_of(left, 0.0).failure == "2 pods still run after 0 s"
    assert shop.run(stop(shop.carrier, documents, False, 60.0, False)).left == 2
    asked = 0
    every = shop.objects.every

    async def ends(place: ServedKind, namespace: str, query: JsonMapping | None = None) -> list[JsonObject]:
        nonlocal asked
        asked += 1
        if asked > 2:
            shop.objects.kept.pop(("pods", "shop", f"db-{min(asked - 3, 1)}"), None)
        return await every(place, namespace, query)

    shop.objects.every = ends  # type: ignore[method-assign]
    shop.said.clear()
    assert shop.run(stop(shop.carrier, documents, True, 60.0, False)) == Stopped(0, (), 0)
    assert shop.said == ["2 pods run", "1 pod runs", "0 pods run"]


def test_a_pod_without_a_controller_cannot_be_stopped() -> None:
    pod: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": {}}
    shop, documents = stopped_shop(pod)
    stopped = shop.run(stop(shop.carrier, documents, True, 60.0, False))
    assert [str(one) for one in stopped.unstopped] == ["Pod shop/p: a pod without a controller cannot be stopped"]
    assert stopped.left == 0
    assert finished_of(stopped, 60.0).failure == "some pods cannot be stopped"
    assert finished_of(Stopped(1, (), 0), 60.0).failure == ""


def test_an_object_that_another_writes_meanwhile_is_read_again_a_few_times() -> None:
    shop, documents = stopped_shop(workload("Deployment", "web", replicas=3))
    writes = 0

    def scaled() -> None:
        nonlocal writes
        writes += 1
        if writes < 4:
            shop.objects.put(workload("Deployment", "web", replicas=3 + writes))

    shop.objects.before_merge = scaled
    assert shop.run(stop(shop.carrier, documents, True, 60.0, False)).changed == 1
    shop.objects.before_merge = lambda: None
    shop.run(start(shop.carrier, documents, False))
    assert shop.objects.named("deployments", "web")["spec"]["replicas"] == 6  # what stood when it was stopped


def test_what_is_not_the_releases_is_not_stopped() -> None:
    far = {**workload("Deployment", "web", replicas=3), "metadata": {"name": "web", "namespace": "other"}}
    shop, documents = stopped_shop(far)
    assert shop.run(stop(shop.carrier, documents, True, 60.0, False)).changed == 0
    assert shop.run(stop(shop.carrier, documents, True, 60.0, True)).changed == 1  # a chart's: Helm said so
    assert shop.run(stop(shop.carrier, [workload("Deployment", "gone")], True, 60.0, False)) == Stopped(0, (), 0)
