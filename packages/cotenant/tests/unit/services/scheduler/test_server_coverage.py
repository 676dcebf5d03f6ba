"""What of its server a scheduler does not read: versions and fields, at the start and after an upgrade."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from cotenant.drivers.kube.cache.cache import Changed
from cotenant.drivers.kube.client.errors import Forbidden, NotFound, Unavailable
from cotenant.drivers.kube.kinds.custom.workload_pod_group import ALPHA2_POD_GROUPS, BETA_POD_GROUPS
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject
from cotenant.services.scheduler.server_coverage import FIRST_TRIES, ServerCoverage

GROUP = "/apis/scheduling.k8s.io"


class Outage:
    level = logging.INFO


class Server:
    """Answers from a table of paths."""

    outage = Outage()

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.fields()
        self.versions("v1beta1")

    def fields(self, **descriptions: str) -> None:
        """The pods of the server have these fields."""
        url = f"/openapi/v3/api/v1?hash={len(descriptions)}"
        properties = {name: {"description": text} for name, text in descriptions.items()}
        schemas = {"io.k8s.api.core.v1.PodSpec": {"properties": properties}}
        self.pages["/openapi/v3"] = {"paths": {"api/v1": {"serverRelativeURL": url}}}
        self.pages[url] = {"components": {"schemas": schemas}}

    def versions(self, *versions: str) -> None:
        self.pages[GROUP] = {"versions": [{"version": one} for one in versions]}
        for one in versions:
            self.pages[f"{GROUP}/{one}"] = {"resources": [{"name": "podgroups"}, {"name": "podgroups/status"}]}

    async def request(self, method: str, path: str, *, query: Any = None) -> bytes:
        self.asked.append(path)
        if self.error is not None:
            raise self.error
        if path not in self.pages:
            raise NotFound("no such page", 404, "NotFound")
        return json.dumps(self.pages[path]).encode()


class Watch:
    """The pods' watch."""

    kind = PODS

    def read_as(self, kind: Any) -> None:
        self.kind = kind


class Case:
    def __init__(self) -> None:
        self.server, self.watch = Server(), Watch()
        self.again: list[Changed[PodObject]] = []
        self.slept: list[float] = []
        client: Any = self.server
        pods: Any = self.watch
        kinds = (BETA_POD_GROUPS, ALPHA2_POD_GROUPS, PODS)
        self.coverage = ServerCoverage(client, kinds, pods, self._reread, self._sleep)

    def _reread(self, pods: Sequence[Changed[PodObject]]) -> None:
        self.again += pods

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) > 3:
            raise asyncio.CancelledError

    def prepare(self) -> tuple[str, ...]:
        asyncio.run(self.coverage.prepare())
        return self.coverage.notes()

    def later(self) -> tuple[str, ...]:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(self.coverage.run())
        return self.coverage.notes()


def test_a_server_that_is_known_needs_no_word() -> None:
    case = Case()
    assert case.prepare() == ()
    assert case.watch.kind is PODS


def test_a_field_about_scheduling_is_read_and_others_are_named() -> None:
    case = Case()
    case.server.fields(plan="How the scheduler places it.", greeting="Words.")
    first, second = case.prepare()
    assert first == "spec.plan is a field of this server that this version does not know: pods that set it wait"
    assert "spec.greeting" in second
    assert case.watch.kind is not PODS
    assert case.again == []  # nothing was listed before


def test_pods_are_listed_again_when_an_upgraded_server_has_a_new_field() -> None:
    case = Case()
    assert case.prepare() == ()
    case.server.fields(plan="How the scheduler places it.")
    pod = {"metadata": {"name": "p", "uid": "u", "resourceVersion": "1"}, "spec": {"plan": 1}}
    case.server.pages[PODS.path()] = {"metadata": {"resourceVersion": "1"}, "items": [pod]}
    assert len(case.later()) == 1
    (found,) = case.again  # once, although it was compared three times
    assert found.new is not None
    assert found.new.spec is not None
    assert type(found.new.spec).__name__ == "PodSpec"
    assert case.server.asked.count("/openapi/v3/api/v1?hash=1") == 1


@pytest.mark.parametrize(
    ("served", "says"),
    [
        (("v1beta1", "v1alpha2"), ""),
        (
            ("v1beta2",),
            "is served as v1beta2 only, and this version reads v1alpha2, v1beta1: none of these objects is seen",
        ),
        (("v1", "v1beta1"), "is also served as v1, which this version does not read"),
        (("v1alpha1", "v1beta1", "odd"), ""),  # older ones, and one of no known form
        ((), ""),
    ],
)
def test_versions_that_are_not_read(served: tuple[str, ...], says: str, caplog: pytest.LogCaptureFixture) -> None:
    case = Case()
    case.server.versions(*served)
    notes = case.prepare()
    assert len(notes) == bool(says)
    assert all(says in one and one in caplog.text for one in notes)


@pytest.mark.parametrize(
    "error", [NotFound("no OpenAPI", 404, "NotFound"), Forbidden("not permitted", 403, "Forbidden")]
)
def test_a_server_that_does_not_tell_is_named(error: Exception) -> None:
    case = Case()
    case.server.error = error
    (note,) = case.prepare()
    assert note == f"the fields of pods are not compared with those that this version knows: {error}"
    assert case.slept == []


def test_a_server_that_has_not_changed_is_asked_for_its_index_only() -> None:
    case = Case()
    case.prepare()
    case.server.asked.clear()
    case.later()
    assert set(case.server.asked) == {"/openapi/v3"}


def test_a_list_that_failed_after_an_upgrade_is_made_again() -> None:
    case = Case()
    case.prepare()
    case.server.fields(plan="How the scheduler places it.")
    case.later()  # the list of pods is not there
    assert case.again == []
    pod = {"metadata": {"name": "p", "uid": "u", "resourceVersion": "1"}, "spec": {"plan": 1}}
    case.server.pages[PODS.path()] = {"metadata": {"resourceVersion": "1"}, "items": [pod]}
    case.slept.clear()
    case.later()
    assert len(case.again) == 1


def test_a_server_that_is_away_is_compared_later() -> None:
    case = Case()
    case.server.error = Unavailable("away")
    assert case.prepare() == ()
    assert len(case.slept) == FIRST_TRIES - 1
    case.server.error = None
    case.server.versions("v9")
    case.slept.clear()
    assert len(case.later()) == 1
