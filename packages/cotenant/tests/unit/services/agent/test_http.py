"""The agent's pages and the reports it accepts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.fakes.node.agent_world import World, world

from cotenant.engine.node.doctor.checks import DoctorFinding, FindingSeverity
from cotenant.model.machine.run_queue import NoCulprit
from cotenant.model.machine.stalls import LongWait, RanMeanwhile, StallKind, StallReading
from cotenant.services.agent.agent_process import AgentProcess
from cotenant.services.agent_settings.runtime_hook import RuntimeHook
from cotenant.services.nodeview.stalls import StallWatch
from cotenant.services.reporting.latency import MAX_BYTES, LatencyOutcome

Ask = Callable[..., Any]
REPORT = {"workload": "shop/web", "window_s": 1, "requests": 100, "p99_us": 9000, "over_objective": 9}


@pytest.fixture
def begun() -> tuple[World, AgentProcess]:
    """A machine and an agent that has ticked."""
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}

    async def run() -> AgentProcess:
        process = w.process()
        await process.discover()
        await w.tick(process, 3)
        return process

    return w, asyncio.run(run())


def get(ask: Ask, process: AgentProcess, path: str, query: str = "") -> tuple[int, Any]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": []}
    asyncio.run(process.pages(scope, None, send))  # type: ignore[arg-type]
    body = sent[1]["body"]
    return sent[0]["status"], json.loads(body) if body.startswith((b"{", b"[")) else body


def test_state_lists_pods_and_their_use(ask: Ask, begun: tuple[World, AgentProcess]) -> None:
    status, page = get(ask, begun[1], "/v1/state")
    assert status == 200
    assert (page["node"], page["mode"], page["keeper_up"], page["best_effort_group"]) == ("n1", "act", True, "top/job")
    web = next(pod for pod in page["pods"] if pod["pod"] == "shop/web")
    assert (web["use"]["cpu_m"], web["objective_p99_us"], web["health"]) == (1500, 5000, None)
    assert page["sources"] == {"groups": ""}
    assert page["runtime_hook_state"] == str(RuntimeHook().state_file)


def test_zones_of_the_node_have_a_page(ask: Ask, begun: tuple[World, AgentProcess]) -> None:
    status, page = get(ask, begun[1], "/v1/zones")
    assert (status, page["node"], type(page["zones"])) == (200, "n1", list)


def test_leases_and_holds(ask: Ask, begun: tuple[World, AgentProcess]) -> None:
    w, process = begun
    held = {
        f"{entry['target']['group']}:{entry['target']['knob']}"
        for entry in get(ask, process, "/v1/leases")[1]["leases"]
    }
    assert "top/job:cpu.idle" in held
    page = get(ask, process, "/v1/holds")[1]
    assert {entry["state"] for entry in page["holds"]} == {"held"}
    assert all(entry["reason"]["text"] for entry in page["holds"])
    w.keeper.away = True
    status, trouble = get(ask, process, "/v1/leases")
    assert status == 503
    assert "nobody listens" in trouble["error"]


class OneWait:
    """A probe that has seen one long wait."""

    def read(self) -> StallReading:
        return StallReading(1, ())

    def long_waits(self) -> list[LongWait]:
        ran = (RanMeanwhile("pods/hog", 90_000, 7, "hog"), RanMeanwhile(NoCulprit.IDLE, 1_000))
        return [
            LongWait(5, "pods/web", StallKind.RUNNABLE, 100_000, 1, "web", "pods/hog", 7, "hog", ("f",), ran, 9_000)
        ]


def test_long_waits_are_those_of_a_group_with_who_ran(ask: Ask, begun: tuple[World, AgentProcess]) -> None:
    process = begun[1]
    status, trouble = get(ask, process, "/v1/long-waits")
    assert (status, "stalls: true" in trouble["error"]) == (404, True)
    watch = StallWatch(OneWait(), cpus=1)
    watch.view()
    process.components = replace(process.components, stalls=watch)
    for query in ("", "group=pods/web", "group=/pods/web"):
        (found,) = get(ask, process, "/v1/long-waits", query)[1]["long_waits"]
        assert found["kind"] == "runnable"
        assert [(one["group"], one["command"]) for one in found["wait"]["ran"]] == [("pods/hog", "hog"), ("idle", "")]
    assert get(ask, process, "/v1/long-waits", "group=pods/other")[1] == {"long_waits": []}


def test_decisions_are_read_on(ask: Ask, begun: tuple[World, AgentProcess]) -> None:
    first = get(ask, begun[1], "/v1/decisions")[1]
    assert first["decisions"][0]["number"] == 1
    assert first["last"] == first["decisions"][-1]["number"]
    later = get(ask, begun[1], "/v1/decisions", f"since={first['last']}")[1]
    assert later == {"decisions": [], "last": first["last"], "more": False}


def test_explain_by_group_and_by_pod(ask: Ask, begun: tuple[World, AgentProcess]) -> None:
    for query in ("group=top/job", "group=/top/job", "pod=jobs/one", "pod=jobs%2Fone"):
        status, story = get(ask, begun[1], "/v1/explain", query)
        assert status == 200, query
        assert story["pod"] == "jobs/one"
        assert story["text"]


def test_the_story_of_a_service_says_that_the_policy_is_off(ask: Ask, begun: tuple[World, AgentProcess]) -> None:
    status, story = get(ask, begun[1], "/v1/explain", "service=shop/web")
    assert status == 200
    assert story["enabled"] is False
    assert story["replicas"] == ["shop/web"]
    assert "the policy `recovery` is switched off on this node" in story["text"]


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/v1/explain", "", 400),
        ("/v1/explain", "group=a&pod=b", 400),
        ("/v1/explain", "group=a&group=b", 400),
        ("/v1/explain", "group=nobody", 404),
        ("/v1/explain", "service=shop/nothing", 404),
        ("/v1/explain", "pod=%ff", 400),
        ("/v1/decisions", "since=x", 400),
        ("/v1/decisions", "since=-1", 400),
        ("/v1/nothing", "", 404),
    ],
)
def test_malformed_queries(ask: Ask, begun: tuple[World, AgentProcess], path: str, query: str, status: int) -> None:
    found, trouble = get(ask, begun[1], path, query)
    assert found == status
    assert trouble["error"]


def test_queries_change_nothing(ask: Ask, begun: tuple[World, AgentProcess]) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = ask(begun[1].pages, "/v1/holds", b"{}", method)
        assert answer.status == 405


def test_health(ask: Ask, begun: tuple[World, AgentProcess]) -> None:
    w, process = begun
    assert get(ask, process, "/healthz") == (200, b"ok\n")
    assert get(ask, process, "/readyz") == (200, b"ok\n")
    process.conflicts = (DoctorFinding(FindingSeverity.CONFLICT, "other writers", "koordlet writes here"),)
    assert get(ask, process, "/readyz") == (
        200,
        b"ok; acts despite conflicts found at the start (1): koordlet writes here\n",
    )
    assert get(ask, process, "/healthz") == (200, b"ok\n")
    process.mode = "observe"
    status, said = get(ask, process, "/readyz")
    assert status == 200
    assert said.startswith(b"ok; mode is observe, not act, because of conflicts found at the start (1)")
    assert get(ask, process, "/v1/state")[1]["remark"] in said.decode()
    w.now_us += 60_000_000
    status, said = get(ask, process, "/healthz")
    assert status == 503
    assert said == b"no tick has succeeded for 60 s\n"


def test_a_service_reports_its_latency(ask: Ask, begun: tuple[World, AgentProcess]) -> None:
    w, process = begun
    assert ask(process.pages, "/v1/latency", json.dumps(REPORT).encode()).status == 204
    assert ask(process.pages, "/v1/latency", json.dumps({**REPORT, "workload": "top/web"}).encode()).status == 204
    asyncio.run(w.tick(process))
    web = next(pod for pod in get(ask, process, "/v1/state")[1]["pods"] if pod["pod"] == "shop/web")
    assert web["health"]["p99_us"] == 9000
    assert process.latency_counts[LatencyOutcome.TAKEN] == 2


@pytest.mark.parametrize(
    ("body", "status", "outcome"),
    [
        (b"{", 400, LatencyOutcome.INVALID),
        (b"[]", 400, LatencyOutcome.INVALID),
        (json.dumps({**REPORT, "p99_us": -1}).encode(), 422, LatencyOutcome.INVALID),
        (json.dumps({**REPORT, "workload": "a/b"}).encode(), 404, LatencyOutcome.UNKNOWN),
        (b" " * (MAX_BYTES + 1), 413, LatencyOutcome.REFUSED),
    ],
)
def test_malformed_latency_reports(
    ask: Ask, begun: tuple[World, AgentProcess], body: bytes, status: int, outcome: LatencyOutcome
) -> None:
    answer = ask(begun[1].pages, "/v1/latency", body)
    assert answer.status == status
    assert begun[1].latency_counts[outcome] == 1


def test_a_disconnecting_sender_is_counted(ask: Ask, begun: tuple[World, AgentProcess]) -> None:
    ask(begun[1].pages, "/v1/latency", [b"{", b""], hangs_up=True)
    assert begun[1].latency_counts[LatencyOutcome.REFUSED] == 1
    assert ask(begun[1].pages, "/v1/latency", b"", "GET").status == 405
