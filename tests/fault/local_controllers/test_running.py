"""Controllers on a real in-memory API: stale watches, refusals, an exception in a controller, a restart."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.plain_cluster import template
from tests.fakes.waiting import soon

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.contract import MERGE, DeletionOptions, ListOptions
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api
from cotenant_local.controllers.registry import all_controllers, controller_manager
from cotenant_local.controllers.runtime.actions import DEPLOYMENTS, JOBS, NODES, PODS, REPLICA_SETS, Plan, ResourceName
from cotenant_local.controllers.runtime.cache import Key
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.runtime.runner import Controller, Runner
from cotenant_local.controllers.workload_controllers import ReplicaSets


def no_cost() -> float:
    """A plan that cost CPU time waits for the clock, which no case advances for it."""
    return 0.0


class Cluster:
    def __init__(self, api: Api, now: list[float]) -> None:
        self.api, self.now = api, now
        self.informers = Informers(api)
        self.runner: Runner | None = None

    async def run(self, controllers: Iterable[Controller] | None = None) -> None:
        clock = lambda: self.now[0]  # noqa: E731
        if controllers is None:
            self.runner = controller_manager(self.informers, clock, cpu_s=no_cost)
        else:
            self.runner = Runner(self.informers, list(controllers), clock, no_cost)
        await self.runner.start()

    async def make(self, resource: ResourceName, obj: dict[str, Any]) -> Any:
        answer = await self.api.create(self.api.target(*resource, obj["metadata"].get("namespace", "default")), obj)
        return msgspec.json.decode(answer.raw)

    async def all(self, resource: ResourceName, namespace: str = "default") -> list[Any]:
        return [i.decode() for i in (await self.api.list(self.api.target(*resource, namespace), ListOptions())).items]

    async def patch(self, resource: ResourceName, name: str, body: dict[str, Any], sub: str = "") -> None:
        await self.api.patch(self.api.target(*resource, "default", name, sub), msgspec.json.encode(body), MERGE)

    async def settle(self) -> None:
        assert self.runner is not None
        await self.runner.until_quiet()

    async def later(self, seconds: float) -> None:
        """Advance time in steps of half a second, waking tasks that wait on the clock."""
        assert self.runner is not None
        for _ in range(int(seconds * 2)):
            self.now[0] += 0.5
            for loop in self.runner._loops:
                loop._wake.set()
            await self.runner.until_quiet()

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.stop()
        await self.informers.stop()


def serve(case: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        now = [1_800_000_000.0]
        api = assemble(Store(clock=lambda: now[0]), clock=lambda: now[0], rng=random.Random(1))
        await api.bootstrap()
        cluster = Cluster(api, now)
        try:
            await case(cluster)
        finally:
            await cluster.stop()
            await api.close()

    asyncio.run(main())


def deployment(replicas: int = 3) -> dict[str, Any]:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
    }


def replica_set(replicas: int = 3) -> dict[str, Any]:
    return {**deployment(replicas), "kind": "ReplicaSet"}


def test_a_deployment_creates_its_pods_and_its_deletion_removes_them() -> None:
    async def case(c: Cluster) -> None:
        await c.run()
        await c.make(DEPLOYMENTS, deployment())
        await c.settle()
        assert len(await c.all(PODS)) == 3
        await c.api.delete(c.api.target(*DEPLOYMENTS, "default", "web"), DeletionOptions(propagation="Foreground"))
        await c.settle()
        await c.later(2)  # conflicts are retried
        assert await c.all(PODS) == []
        assert await c.all(REPLICA_SETS) == []
        assert await c.all(DEPLOYMENTS) == []

    serve(case)


def test_orphaned_pods_are_kept() -> None:
    async def case(c: Cluster) -> None:
        await c.run()
        await c.make(REPLICA_SETS, replica_set(2))
        await c.settle()
        await c.api.delete(c.api.target(*REPLICA_SETS, "default", "web"), DeletionOptions(propagation="Orphan"))
        await c.settle()
        pods = await c.all(PODS)
        assert len(pods) == 2
        assert not any(p["metadata"].get("ownerReferences") for p in pods)

    serve(case)


def test_a_lagging_watch_does_not_create_pods_twice() -> None:
    async def case(c: Cluster) -> None:
        pods = c.informers.of(PODS)
        held: list[bytes] = []
        pods._handle = held.append  # type: ignore[method-assign]  # the pods' watch hangs
        controller = ReplicaSets(c.informers)
        await c.run([controller])
        await c.make(REPLICA_SETS, replica_set(5))
        await c.settle()
        for _ in range(3):  # more reconciles while the watch still hangs
            await c.patch(REPLICA_SETS, "web", {"metadata": {"annotations": {"look": str(_)}}})
            await c.settle()
        assert len(await c.all(PODS)) == 5
        assert held
        del pods._handle
        for line in held:
            pods._handle(line)
        await c.settle()
        assert len(await c.all(PODS)) == 5
        assert len(pods.store) == 5

    serve(case)


class Raises:
    name = "broken"

    def __init__(self) -> None:
        self.calls = 0

    def attach(self, enqueue: Callable[[Key], None]) -> None:
        enqueue(("default", "x"))

    def all_keys(self) -> Iterable[Key]:
        return ()

    async def plan(self, key: Key, now_s: float) -> Plan:
        self.calls += 1
        raise RuntimeError("a defect")


def test_an_exception_in_one_controller_is_counted_and_does_not_stop_others() -> None:
    async def case(c: Cluster) -> None:
        broken = Raises()
        await c.run([broken, *all_controllers(c.informers, lambda: c.now[0])])
        await c.make(DEPLOYMENTS, deployment(2))
        await c.settle()
        assert len(await c.all(PODS)) == 2
        assert c.runner is not None
        assert c.runner.counters["broken"].errors == 1  # and not retried in a tight loop
        assert broken.calls == 1

    serve(case)


def test_a_refused_creation_is_recorded_as_an_event_and_retried() -> None:
    async def case(c: Cluster) -> None:
        class Refuses:
            on = True

            async def mutate(self, operation: str, target: Any, obj: Any, old: Any, options: Any) -> Any:
                return obj

            async def validate(self, operation: str, target: Any, obj: Any, old: Any, options: Any) -> list[str]:
                if self.on and operation == "CREATE" and target.resource.plural == "pods":
                    raise ApiError(403, "Forbidden", "exceeded quota")
                return []

        gate = Refuses()
        c.api.admission.append(gate)
        await c.run()
        await c.make(REPLICA_SETS, replica_set(2))
        await c.settle()
        assert await c.all(PODS) == []
        events = await c.all(("", "events"))
        assert any(e["reason"] == "FailedCreate" and "exceeded quota" in e["message"] for e in events)
        gate.on = False
        await c.patch(REPLICA_SETS, "web", {"metadata": {"annotations": {"look": "again"}}})
        await c.settle()
        assert len(await c.all(PODS)) == 2

    serve(case)


def test_changes_made_before_the_start_are_found_by_the_initial_list() -> None:
    async def case(c: Cluster) -> None:
        await c.make(DEPLOYMENTS, deployment(2))
        await c.run()
        await c.settle()
        assert len(await c.all(PODS)) == 2
        await c.stop()
        victim = (await c.all(PODS))[0]["metadata"]["name"]
        await c.api.delete(c.api.target(*PODS, "default", victim), DeletionOptions(grace_s=0))
        await c.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}})
        c.informers = Informers(c.api)
        await c.run()
        await c.settle()
        assert len(await c.all(PODS)) == 4

    serve(case)


def test_a_namespace_is_emptied_before_it_is_removed() -> None:
    async def case(c: Cluster) -> None:
        await c.run()
        await c.make(
            ("", "namespaces"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x", "namespace": ""}}
        )
        for i in range(3):
            meta = {"name": f"c{i}", "namespace": "x"}
            await c.make(("", "configmaps"), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}})
        await c.api.delete(c.api.target("", "namespaces", "", "x"))
        await c.settle()
        await c.later(3)
        assert not [n for n in await c.all(("", "namespaces"), "") if n["metadata"]["name"] == "x"]

    serve(case)


def test_pods_of_a_deleted_node_are_removed() -> None:
    async def case(c: Cluster) -> None:
        await c.make(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": ""}})
        await c.run()
        pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {**template()["spec"], "nodeName": "n"}}
        await c.make(PODS, {"apiVersion": "v1", "kind": "Pod", **pod})
        await c.settle()
        await c.api.delete(c.api.target("", "nodes", "", "n"))
        await c.settle()
        assert len(await c.all(PODS)) == 1  # not immediately
        await c.later(10)
        assert await c.all(PODS) == []

    serve(case)


def test_events_are_deleted_after_an_hour() -> None:
    async def case(c: Cluster) -> None:
        await c.run()
        await c.make(DEPLOYMENTS, deployment(1))
        await c.settle()
        before = len(await c.all(("", "events")))
        assert before > 0
        c.now[0] += 3_000
        await c.later(1)
        assert len(await c.all(("", "events"))) == before
        c.now[0] += 1_000
        await c.later(1)
        assert await c.all(("", "events")) == []

    serve(case)


@pytest.mark.parametrize("code", [410, 500])
def test_an_informer_relists_after_an_error_and_delivers_the_difference(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cotenant_local.controllers.runtime.informer.RETRY_S", 0.0)

    async def case(c: Cluster) -> None:
        await c.make(
            JOBS,
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "a", "namespace": "default"},
                "spec": {"template": template(restartPolicy="Never")},
            },
        )
        jobs = c.informers.of(JOBS)
        real, fails = c.api.watch, [True]

        def watch(target: Any, options: Any = None) -> Any:
            if target.resource.plural == "jobs" and fails:
                fails.clear()
                raise ApiError(code, "Expired", "too old")
            return real(target, options)

        c.api.watch = watch  # type: ignore[method-assign]
        seen: list[str] = []
        jobs.subscribe(
            lambda old, new: seen.append(f"{old.metadata.name if old else '-'}>{new.metadata.name if new else '-'}")
        )
        original = jobs._list
        lists = [0]

        async def counting() -> None:
            if lists[0] == 1:  # before the second list
                await c.api.delete(c.api.target(*JOBS, "default", "a"), DeletionOptions(propagation="Background"))
            lists[0] += 1
            await original()

        jobs._list = counting  # type: ignore[method-assign]
        await c.informers.start()
        await soon("the second list was told", lambda: "a>-" in seen)
        assert seen == ["->a", "a>-"]
        assert lists[0] == 2

    serve(case)


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("propagation", ["Foreground", "Background"])
def test_a_cycle_of_owners_is_deleted_and_does_not_wait_for_itself(length: int, propagation: str) -> None:
    async def case() -> None:
        api = assemble(Store())
        await api.bootstrap()
        cluster = Cluster(api, [1_800_000_000.0])
        await cluster.run()
        maps = ("", "configmaps")
        made = [await cluster.make(maps, {"metadata": {"name": f"c{at}"}}) for at in range(length)]
        for at, obj in enumerate(made):
            owner = made[at - 1]["metadata"]
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]}
            body = {"metadata": {"ownerReferences": [{**reference, "blockOwnerDeletion": True}]}}
            await cluster.patch(maps, obj["metadata"]["name"], body)
        await cluster.settle()
        assert len(await cluster.all(maps)) == length
        await api.delete(api.target(*maps, "default", "c0"), DeletionOptions(propagation=propagation))
        for _ in range(5):
            await cluster.settle()
            await cluster.later(1)
        assert await cluster.all(maps) == []
        assert cluster.runner is not None
        await cluster.runner.stop()
        await cluster.informers.stop()
        await api.close()

    asyncio.run(case())
