"""A cluster read by lists alone: pages, refusals by kind, tokens that expire, servers that repeat themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Forbidden, Gone, NotFound, Throttled, Unavailable
from cotenant.drivers.kube.snapshot.kinds import COPIED
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, KindReading
from cotenant.drivers.kube.snapshot.snapshot_reading import ATTEMPTS, ITEMS, RESTARTS, read_snapshot

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
Answer = Callable[[Mapping[str, str]], bytes]


def page(names: list[str], token: str = "") -> bytes:
    items = [{"metadata": {"name": name}} for name in names]
    return json.dumps({"metadata": {"continue": token}, "items": items}).encode()


class Lists:
    """Answers lists by path; a path without an answer is not served."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers: dict[str, Answer] = {NODES: lambda query: page(["n1"]), PODS: lambda query: page([]), **answers}
        self.asked: list[tuple[str, str]] = []
        self.slept: list[float] = []
        self.access = type("Access", (), {"server": "https://test"})()

    async def request(self, method: str, path: str, *, query: Mapping[str, str] | None = None) -> bytes:
        self.asked.append((method, path))
        if path == "/version":
            return b'{"gitVersion":"v1.36.2"}'
        if path not in self.answers:
            raise NotFound("404", 404)
        return self.answers[path](query or {})

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def read(self) -> ClusterSnapshot:
        progress: list[tuple[str, int]] = []
        found = asyncio.run(
            read_snapshot(cast(Client, self), 5.0, lambda kind, count: progress.append((kind, count)), self.sleep)
        )
        assert progress
        return found


def names(snapshot: ClusterSnapshot, key: str) -> list[str]:
    return [json.loads(line)["metadata"]["name"] for line in snapshot.objects[key]]


def test_pages_are_joined_and_only_lists_are_asked_for() -> None:
    pages = {"": page(["a", "b"], "t1"), "t1": page(["c"], "t2"), "t2": page(["d"])}
    asked: list[Mapping[str, str]] = []

    def answer(query: Mapping[str, str]) -> bytes:
        asked.append(dict(query))
        return pages[query.get("continue", "")]

    lists = Lists({PODS: answer})
    found = lists.read()
    assert names(found, "v1/pods") == ["a", "b", "c", "d"]
    assert asked == [{"limit": str(ITEMS)}] + [{"limit": str(ITEMS), "continue": token} for token in ("t1", "t2")]
    assert {method for method, _ in lists.asked} == {"GET"}
    assert {path for _, path in lists.asked} == {copied.kind.path() for copied in COPIED.values()} | {"/version"}
    assert (found.server, found.taken_s) == ("v1.36.2", 5.0)


def test_a_kind_that_is_denied_is_named_and_the_rest_is_read() -> None:
    def denied(query: Mapping[str, str]) -> bytes:
        raise Forbidden("jobs is forbidden", 403)

    answers: dict[str, Answer] = {
        "/apis/batch/v1/jobs": denied,
        "/apis/batch/v1": lambda query: b'{"resources":[{"name":"jobs"}]}',
        "/apis/apps/v1/replicasets": lambda query: page(["r"]),
    }
    found = Lists(answers).read()
    lacking = {kind.key: (kind.reading, kind.why) for kind in found.lacking}
    assert lacking == {"batch/v1/jobs": (KindReading.DENIED, "jobs is forbidden")}
    assert names(found, "apps/v1/replicasets") == ["r"]
    absent = next(kind for kind in found.kinds if kind.key == "slo.koordinator.sh/v1alpha1/nodemetrics")
    assert absent.reading is KindReading.ABSENT


def test_a_kind_that_is_not_installed_is_absent_even_if_it_may_not_be_listed() -> None:
    def denied(query: Mapping[str, str]) -> bytes:
        raise Forbidden("forbidden", 403)

    def failing(query: Mapping[str, str]) -> bytes:
        raise Throttled("busy")

    served = b'{"resources":[{"name":"jobs/status"},{"name":"cronjobs"}]}'
    found = Lists(
        {
            "/apis/batch/v1/jobs": denied,
            "/apis/batch/v1": lambda query: served,
            "/apis/kueue.x-k8s.io/v1beta1/workloads": denied,  # a group that is not there
            "/apis/policy/v1/poddisruptionbudgets": denied,
            "/apis/policy/v1": failing,
        }
    ).read()
    of = {kind.key: kind.reading for kind in found.kinds}
    assert of["batch/v1/jobs"] is KindReading.ABSENT
    assert of["kueue.x-k8s.io/v1beta1/workloads"] is KindReading.ABSENT
    assert of["policy/v1/poddisruptionbudgets"] is KindReading.DENIED


@pytest.mark.parametrize("path", [NODES, PODS])
def test_without_nodes_or_pods_nothing_can_be_said(path: str) -> None:
    def denied(query: Mapping[str, str]) -> bytes:
        raise Forbidden("forbidden", 403)

    with pytest.raises(Forbidden):
        Lists({path: denied}).read()


def test_a_token_that_expires_starts_the_kind_again() -> None:
    tries: list[str] = []

    def answer(query: Mapping[str, str]) -> bytes:
        tries.append(query.get("continue", ""))
        if query.get("continue") and tries.count("") < 2:
            raise Gone("expired", 410)
        return page(["b"]) if query.get("continue") else page(["a"], "t")

    assert names(Lists({PODS: answer}).read(), "v1/pods") == ["a", "b"]
    assert tries == ["", "t", "", "t"]


def test_a_token_that_always_expires_ends() -> None:
    count: list[int] = []

    def answer(query: Mapping[str, str]) -> bytes:
        if query.get("continue"):
            raise Gone("expired", 410)
        count.append(1)
        return page(["a"], "t")

    found = Lists({"/apis/batch/v1/jobs": answer}).read()
    assert [kind.reading for kind in found.lacking] == [KindReading.FAILED]
    assert len(count) == RESTARTS


def test_what_may_pass_is_tried_again_after_what_the_server_says() -> None:
    left = [Throttled("later", 7.0), Unavailable("away")]

    def answer(query: Mapping[str, str]) -> bytes:
        if left:
            raise left.pop(0)
        return page(["a"])

    lists = Lists({PODS: answer})
    assert names(lists.read(), "v1/pods") == ["a"]
    assert lists.slept[0] == 7.0
    assert len(lists.slept) == 2


def test_a_server_that_stays_away_is_given_up() -> None:
    def answer(query: Mapping[str, str]) -> bytes:
        raise Unavailable("away")

    lists = Lists({"/apis/batch/v1/jobs": answer})
    assert [kind.reading for kind in lists.read().lacking] == [KindReading.FAILED]
    assert len(lists.slept) == ATTEMPTS - 1


def test_a_server_that_sends_the_same_page_for_ever_is_given_up() -> None:
    found = Lists({"/apis/batch/v1/jobs": lambda query: page(["a"], "t")}).read()
    assert "again and again" in found.lacking[0].why


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items": 3}', b"\xff", b"[" * 9000])
def test_an_answer_that_is_no_list_is_named(body: bytes) -> None:
    found = Lists({"/apis/batch/v1/jobs": lambda query: body}).read()
    assert [kind.reading for kind in found.lacking] == [KindReading.FAILED]


def test_entries_that_are_no_objects_are_counted() -> None:
    body: Any = {"items": [{"metadata": {"name": "a"}}, None, 3, {"metadata": {}}]}
    found = Lists({PODS: lambda query: json.dumps(body).encode()}).read()
    assert names(found, "v1/pods") == ["a"]
    assert next(kind.malformed for kind in found.kinds if kind.key == "v1/pods") == 3
