"""Admission in the write path, and concurrent writes during admission."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import DeletionOptions, RequestTarget, WriteOptions


class Recorder:
    """Records its calls; mutates and refuses as configured."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, Manifest | None, Manifest | None]] = []
        self.change: Callable[[Manifest], None] | None = None
        self.meanwhile: Callable[[], Awaitable[Any]] | None = None
        self.refuses = ""

    async def mutate(
        self, operation: str, target: RequestTarget, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> Manifest | None:
        self.asked.append(("mutate", operation, target.subresource, None if obj is None else dict(obj), old))
        if self.change is not None and obj is not None:
            self.change(obj)
        return obj

    async def validate(
        self, operation: str, target: RequestTarget, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> list[str]:
        self.asked.append(("validate", operation, target.subresource, obj, old))
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        if operation == self.refuses:
            raise ApiError(403, "Forbidden", "admission webhook denied the request")
        return ["mind the gap"]


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_admission_runs_after_built_in_admission_and_before_name_generation(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        admission = Recorder()
        server.api.admission.append(admission)
        admission.change = lambda obj: obj["spec"].update(schedulingGates=[{"name": "a.b/c"}])
        made = await server.make(server.at("pods"), pod())
        (_, _, _, mutated, old), (_, _, _, validated, _) = admission.asked
        assert mutated is not None
        assert validated is not None
        assert old is None
        assert mutated["spec"]["tolerations"]
        assert "status" not in mutated
        assert validated["metadata"]["uid"] == made["metadata"]["uid"]
        # Its changes take effect before the server derives fields of the object.
        assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"

    serve(case)


def test_warnings_and_refusals_reach_the_client(serve: Any) -> None:
    async def case(server: Any) -> None:
        admission = Recorder()
        server.api.admission.append(admission)
        answer = await server.api.create(server.at("configmaps"), config("a"))
        assert answer.warnings == ["mind the gap"]
        admission.refuses = "DELETE"
        with pytest.raises(ApiError, match="denied the request"):
            await server.api.delete(server.at("configmaps", "a"))
        assert (await server.get(server.at("configmaps", "a")))["metadata"]["name"] == "a"
        assert [asked[:2] for asked in admission.asked[-2:]] == [("mutate", "DELETE"), ("validate", "DELETE")]

    serve(case)


def test_status_binds_and_evictions_are_admitted_as_subresources(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        await server.make(server.at("pods"), pod())
        admission = Recorder()
        server.api.admission.append(admission)
        await server.put(server.at("pods", "p", sub="status"), {**pod(), "status": {"phase": "Pending"}})
        target = {"kind": "Node", "name": "n"}
        await server.make(server.at("pods", "p", sub="binding"), {"metadata": {"name": "p"}, "target": target})
        await server.make(server.at("pods", "p", sub="eviction"), {"metadata": {"name": "p"}})
        assert [(asked[1], asked[2]) for asked in admission.asked if asked[0] == "mutate"] == [
            ("UPDATE", "status"),
            ("CREATE", "binding"),
            ("CREATE", "eviction"),
        ]

    serve(case)


def test_an_unversioned_update_is_reapplied_after_a_concurrent_write(serve: Any) -> None:
    async def case(server: Any) -> None:
        admission = Recorder()
        at = server.at("configmaps", "a")
        await server.make(at, config("a", x="1"))
        server.api.admission.append(admission)
        admission.meanwhile = lambda: server.api.update(at, config("a", x="2"))
        assert (await server.put(at, config("a", x="3")))["data"] == {"x": "3"}
        held = await server.get(at)
        admission.meanwhile = lambda: server.api.update(at, config("a", x="4"))
        held["data"] = {"x": "5"}
        with pytest.raises(ApiError, match="the object has been modified"):
            await server.put(at, held)
        assert (await server.get(at))["data"] == {"x": "4"}

    serve(case)


def test_a_name_created_during_admission_is_a_conflict(serve: Any) -> None:
    async def case(server: Any) -> None:
        admission = Recorder()
        server.api.admission.append(admission)
        at = server.at("configmaps", "a")
        admission.meanwhile = lambda: server.api.create(server.at("configmaps"), config("a", x="first"))
        with pytest.raises(ApiError, match="already exists"):
            await server.make(server.at("configmaps"), config("a", x="second"))
        assert (await server.get(at))["data"] == {"x": "first"}

    serve(case)


def test_a_namespace_terminating_during_admission_refuses_new_objects(serve: Any) -> None:
    async def case(server: Any) -> None:
        space = server.at("namespaces", "team", namespace="")
        await server.make(space, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        admission = Recorder()
        server.api.admission.append(admission)
        admission.meanwhile = lambda: server.api.delete(space)
        with pytest.raises(ApiError, match="because it is being terminated"):
            await server.make(server.at("configmaps", namespace="team"), config("a"))

    serve(case)


def test_a_precondition_is_checked_after_admission(serve: Any) -> None:
    async def case(server: Any) -> None:
        at = server.at("configmaps", "a")
        made = await server.make(at, config("a", x="1"))
        version = made["metadata"]["resourceVersion"]
        admission = Recorder()
        server.api.admission.append(admission)
        admission.meanwhile = lambda: server.api.update(at, config("a", x="2"))
        with pytest.raises(ApiError, match='on ConfigMap "a": the ResourceVersion in the precondition') as caught:
            await server.api.delete(at, DeletionOptions(resource_version=version))
        assert caught.value.code == 409
        with pytest.raises(ApiError, match="the UID in the precondition"):
            await server.api.delete(at, DeletionOptions(uid="other"))

    serve(case)


def test_a_collection_is_deleted_by_its_selection(serve: Any) -> None:
    from cotenant_local.apiserver.contract import ListOptions

    async def case(server: Any) -> None:
        for name, tier in (("a", "web"), ("b", "db"), ("c", "web")):
            labelled = config(name)
            labelled["metadata"]["labels"] = {"tier": tier}
            await server.make(server.at("configmaps"), labelled)
        admission = Recorder()
        server.api.admission.append(admission)
        admission.meanwhile = lambda: server.api.delete(server.at("configmaps", "c"))
        page = await server.api.delete_collection(server.at("configmaps"), ListOptions(labels="tier=web"))
        assert [item.name for item in page.items] == ["a", "c"]
        left = await server.api.list(server.at("configmaps"))
        assert [item.name for item in left.items] == ["b"]

    serve(case)
