"""Lists of pods: what matches, in which order, and how many are sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from tests.fakes.servers.told_watches import nobody

from cotenant.model.cluster.observed import PodPhase
from cotenant.model.machine.node_metric import Use
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.history import SnapshotHistory
from cotenant.services.console.pod_rows import pod_row
from cotenant.services.console.questions import MAX_PODS, Questions
from cotenant.services.console.sources import ConsoleSources
from cotenant.services.console.upstream import Upstream

from .test_fleet import GIB, node, pod


@pytest.fixture(scope="module")
def questions() -> Questions:
    fleet = MeasuredFleet()
    for name in ("a", "b"):
        fleet.node_seen(node(name))
    for k in range(3):
        fleet.pod_seen(pod_row(pod(f"run-{k}", "a", tenant="shop")))
    fleet.pod_seen(pod_row(pod("wait-0", tenant="batch")))
    fleet.pod_seen(pod_row(pod("wait-1", tenant="shop")))
    fleet.pod_seen(pod_row(pod("over", "b", phase=PodPhase.SUCCEEDED)))
    fleet.measured({"a": Use(1500, GIB)}, {})
    fleet.recompute()
    none = cast(Upstream, None)
    return Questions(
        fleet, SnapshotHistory(), ConsoleSources(lambda: 5.0), nobody(), none, none, lambda: 5.0, {"title": "t"}, {}
    )


def ask(questions: Questions, path: str, query: str = "") -> tuple[int, Any]:
    answer = asyncio.run(questions.answer(f"/api/{path}", query))
    return answer.status, json.loads(answer.body)


WAITING, RUNNING = ["wait-0", "wait-1"], ["run-0", "run-1", "run-2"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", WAITING + RUNNING),
        ("state=pending", WAITING),
        ("state=running", RUNNING),
        ("state=burning", []),
        ("q=SHOP", ["wait-1", *RUNNING]),
        ("q=run-1", ["run-1"]),
        ("q=nothing", []),
        ("q=shop&state=pending", ["wait-1"]),
    ],
)
def test_pods_that_wait_come_first_and_those_that_have_ended_not_at_all(
    questions: Questions, query: str, names: list[str]
) -> None:
    status, found = ask(questions, "pods", query)
    assert (status, found["count"]) == (200, len(names))
    assert [entry["pod"].partition("/")[2] for entry in found["pods"]] == names


@pytest.mark.parametrize("limit", [1, 2, 4, 5, MAX_PODS])
def test_all_are_counted_and_so_many_are_sent(questions: Questions, limit: int) -> None:
    _, found = ask(questions, "pods", f"limit={limit}")
    assert (found["count"], len(found["pods"])) == (5, min(limit, 5))


@pytest.mark.parametrize("query", ["limit=0", f"limit={MAX_PODS + 1}", "limit=x", "state=gone"])
def test_a_wrong_query_is_refused_with_its_field(questions: Questions, query: str) -> None:
    status, found = ask(questions, "pods", query)
    assert status == 400
    assert query.partition("=")[0] in str(found)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("pods/default/run-0", 200),
        ("pods/default/ghost", 404),
        ("nodes/a", 200),
        ("nodes/ghost", 404),
        ("ghost", 404),
        ("state", 200),
        ("history", 200),
    ],
)
def test_one_object(questions: Questions, path: str, status: int) -> None:
    assert ask(questions, path)[0] == status


def test_a_node_is_listed_with_its_pods(questions: Questions) -> None:
    _, found = ask(questions, "nodes/a")
    assert [entry["pod"] for entry in found["pods"]] == [f"default/{name}" for name in RUNNING]
