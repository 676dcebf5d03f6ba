"""An optional custom kind against an API server: absent, installed later, changed, deleted, installed again."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest
from tests.fakes.waiting import INTERVAL_S, soon

from cotenant.drivers.kube.cache.cache import Changed, MalformedObject, Synced
from cotenant.drivers.kube.cache.reflector import ABSENT_S, Reflector
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, NotFound
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta

pytestmark = pytest.mark.slow  # a definition takes a moment to be served

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Gadget(ApiStruct, frozen=True):
    """The fields that are decoded."""

    metadata: ObjectMeta = ObjectMeta()
    size: int | None = None


class Gadgets(NamedTuple):
    """A kind for this case, not installed yet."""

    kube: Any
    kind: Kind[Gadget]
    path: str

    def install(self) -> None:
        crd = {
            "metadata": {"name": f"gadgets.{self.kind.group}"},
            "spec": {
                "group": self.kind.group,
                "scope": "Cluster",
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                ],
            },
        }
        self.kube.create(_CRDS, crd)
        self.kube.eventually(self.path, lambda page: page.get("kind") == "GadgetList")

    def uninstall(self) -> None:
        self.kube.request("DELETE", f"{_CRDS}/gadgets.{self.kind.group}")
        self.kube.eventually(self.path, lambda page: page.get("kind") != "GadgetList")

    def make(self, name: str, **more: Any) -> None:
        body = {"apiVersion": f"{self.kind.group}/v1", "kind": "Gadget", "metadata": {"name": name}, **more}
        self.kube.create(self.path, body)


@pytest.fixture
def gadgets(kube: Any) -> Iterator[Gadgets]:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    found = Gadgets(kube, Kind("Gadget", group, "v1", "gadgets", False, Gadget), f"/apis/{group}/v1/gadgets")
    yield found
    kube.request("DELETE", f"{_CRDS}/gadgets.{group}")


class Heard:
    """Records what a reflector delivered, as text, and its sleeps."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.slept: list[float] = []
        self._news = asyncio.Condition()

    def deliver(self, happened: Any) -> None:
        for entry in happened:
            match entry:
                case Changed(_, key, None, new):
                    self.story.append(f"+{key} {new.size}")
                case Changed(_, key, _, None):
                    self.story.append(f"-{key}")
                case Changed(_, key, _, new):
                    self.story.append(f"~{key} {new.size}")
                case MalformedObject(_, key, _):
                    self.story.append(f"?{key}")
                case Synced(_, _, objects):
                    self.story.append(f"synced {objects}")

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(INTERVAL_S)

    async def until(self, *told: str) -> None:
        """Wait until exactly these were delivered since the last call, in this order."""

        def complete() -> bool:
            assert self.story[: len(told)] == list(told)[: len(self.story)], self.story
            return len(self.story) >= len(told)

        await soon(f"delivered: {told}", complete)
        del self.story[: len(told)]


def following(gadgets: Gadgets, scenario: Callable[[Heard, Reflector[Gadget]], Awaitable[None]]) -> None:
    """Run a scenario beside a reflector of the optional kind."""

    async def main() -> None:
        heard = Heard()
        async with Client(load_access(gadgets.kube.kubeconfig), qps=1000, burst=1000, in_flight=4) as client:
            reflector = Reflector(
                client, gadgets.kind, heard.deliver, optional=True, random=lambda: 0.0, sleep=heard.sleep
            )
            task = asyncio.create_task(reflector.run())
            try:
                await scenario(heard, reflector)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_absent_then_installed_then_deleted_then_installed_again(gadgets: Gadgets) -> None:
    async def scenario(heard: Heard, reflector: Reflector[Gadget]) -> None:
        await heard.until("synced 0")
        assert reflector.synced  # an absent kind does not block the start
        await asyncio.to_thread(gadgets.install)
        await asyncio.to_thread(gadgets.make, "a", size=1)
        await soon("a is added", lambda: any("+a" in told for told in heard.story))
        assert set(heard.slept) == {ABSENT_S}
        heard.story.clear()
        await asyncio.to_thread(gadgets.kube.patch, f"{gadgets.path}/a", {"size": 2})
        await heard.until("~a 2")
        await asyncio.to_thread(gadgets.make, "b", size=3)
        await heard.until("+b 3")
        await asyncio.to_thread(gadgets.kube.delete, f"{gadgets.path}/b")
        await heard.until("-b")
        await asyncio.to_thread(gadgets.uninstall)
        await soon("a is removed", lambda: "-a" in heard.story)
        assert len(reflector.cache) == 0
        heard.story.clear()
        await asyncio.to_thread(gadgets.install)
        await asyncio.to_thread(gadgets.make, "a", size=9)
        await soon("the new a is added", lambda: "+a 9" in heard.story)
        assert "-a" not in heard.story

    following(gadgets, scenario)


def test_an_undecodable_object_does_not_hide_the_others(gadgets: Gadgets) -> None:
    gadgets.install()
    gadgets.make("good", size=1)
    gadgets.make("odd", size="large")

    async def scenario(heard: Heard, reflector: Reflector[Gadget]) -> None:
        await soon("the first list", lambda: reflector.synced)
        assert sorted(heard.story[:2]) == ["+good 1", "?odd"]
        heard.story.clear()
        await asyncio.to_thread(gadgets.kube.patch, f"{gadgets.path}/odd", {"size": 5})
        await soon("an update", lambda: heard.story)
        assert heard.story == ["+odd 5"]
        await asyncio.to_thread(gadgets.kube.patch, f"{gadgets.path}/good", {"size": "small"})
        await soon("another update", lambda: len(heard.story) >= 2)
        assert heard.story[1] == "?good"

    following(gadgets, scenario)


def test_a_status_is_written_where_the_definition_has_no_status_subresource(gadgets: Gadgets) -> None:
    """As Koordinator's own PodGroup and ElasticQuota: `/status` is 404 there, as for an object that is gone."""

    async def main() -> None:
        async with Client(load_access(gadgets.kube.kubeconfig), qps=1000, burst=1000, in_flight=4) as client:
            uid = gadgets.kube.get(f"{gadgets.path}/a")["metadata"]["uid"]
            for used in ("1", "2"):
                await client.set_status(gadgets.kind, "", "a", uid, {"used": {"cpu": used}})
            await client.set_status(gadgets.kind, "", "a", uid, {"phase": "Full"}, keeps=True)
            with pytest.raises(Conflict):
                await client.set_status(gadgets.kind, "", "a", "another", {"phase": "x"})
            with pytest.raises(NotFound):
                await client.set_status(gadgets.kind, "", "gone", uid, {"phase": "x"})

    gadgets.install()
    gadgets.make("a", size=1)
    asyncio.run(main())
    stored = gadgets.kube.get(f"{gadgets.path}/a")
    assert (stored["status"], stored["size"]) == ({"used": {"cpu": "2"}, "phase": "Full"}, 1)
