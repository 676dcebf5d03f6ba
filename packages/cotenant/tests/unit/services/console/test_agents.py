"""What the console makes of agents' pages: knobs joined with their leases, one timeline of an incident, and addresses
of known nodes only.

The pages are made of the agent's own types (tests/fakes/processes/console_objects.py), so a field that is renamed there
fails here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.console_objects import agent_pages, move, story_page

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.migration_job import MigrationJobObject, read_migration_job
from cotenant.drivers.kube.kinds.node import NodeAddress, NodeObject, NodeStatus, internal_address
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.migration import JobPhase
from cotenant.services.console.agents import Agents
from cotenant.services.console.console_arguments import ConsoleArguments, check
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.pod_rows import pod_row
from cotenant.services.console.sources import AGENT
from cotenant.services.console.upstream import Unanswered, Upstream
from cotenant.services.console.views.latencies import KEPT, MAX_PODS, SLOT_S, Latencies
from cotenant.services.console.views.moves import MoveBoard
from cotenant.services.console.views.node_agent import NodeAgents
from cotenant.services.console.views.timeline import Timelines
from cotenant.services.traces.story_board import StoryRow

from .test_fleet import node, pod

NOW_S = 5_000.0
HOSTILE = "<b>"


class CannedAgents(Agents):
    """Answers from pages, by path with query; a page that is a sentence is an error."""

    def __init__(self, pages: dict[str, Any], pattern: str = "http://agent") -> None:
        super().__init__(pattern, lambda name: True)
        self.pages = pages

    async def get(self, node: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        if not self.is_configured:
            return await super().get(node, path, query)
        text = path + "".join(f"?{name}={value}" for name, value in query)
        found = self.pages.get(text)
        if found is None or isinstance(found, str):
            raise Unanswered(AGENT, found or "unknown service", 404)
        return msgspec.json.encode(found)


class CannedTraces(Upstream):
    """A trace process with one objective, and with stories of incidents where it has any."""

    def __init__(self, page: object, stories: Sequence[StoryRow] | None) -> None:
        super().__init__("traces", lambda: "")
        self.page, self.stories = page, stories

    async def get(self, path: str, query: Sequence[tuple[str, str]] = (), *, base: str = "") -> bytes:
        if path == "/api/v1/stories":
            if self.stories is None:
                raise Unanswered("traces", "does not answer", 503)
            return msgspec.json.encode(self.stories)
        assert path == "/api/v1/objectives/shop/a%2Fb"
        return msgspec.json.encode(self.page)


def pages() -> dict[str, Any]:
    return agent_pages("n1", "default/web", "default/sort", HOSTILE)


def knobs(agents: Agents, name: str = "n1") -> Any:
    section = NodeAgents(agents, lambda: NOW_S)
    return msgspec.json.decode(msgspec.json.encode(asyncio.run(section.answer([name], {}))))


def test_a_knob_has_its_lease_its_policy_and_its_pod() -> None:
    page = knobs(CannedAgents(pages()))
    by_knob = {entry["knob"]: entry for entry in page["knobs"]}
    cap = by_knob["cpu.max"]
    assert (cap["pod"], cap["value"], cap["before"]) == ("default/sort", "150000 100000", "max 100000")
    assert (cap["policy"], cap["lifts"], cap["state"]) == ("recovery", "after 30 s calm", "held")
    assert cap["until"] == NOW_S + 12.0
    assert cap["lost"] == [["suppress", "300000 100000"]]
    assert "half of its use" in cap["why"]
    idle, weight = by_knob["cpu.idle"], by_knob["cpu.weight"]
    assert (idle["policy"], idle["pod"], idle["state"]) == ("", "", "restoring")
    assert (weight["until"], weight["state"], weight["pod"]) == (None, "refused", "default/web")
    assert [entry["pod"] for entry in page["pods"]][:2] == ["default/web", "default/sort"]  # by run delay
    assert (page["pods"][0]["latency_ms"], page["pods"][0]["objective_ms"]) == (35.0, 20.0)
    assert page["host"]["cpu_stall_ppm"] == 180_000
    assert page["gaps"] == ["cycles: a hardware performance counter"]


def test_gpus_that_are_held_and_idle_are_the_agent_s_figure_and_none_of_an_older_agent() -> None:
    assert knobs(CannedAgents(pages()))["idle_gpus"]["allocated"] == 0
    state = msgspec.to_builtins(pages()["/v1/state"])
    idle = {"allocated": 3, "idle": 1, "unknown": 1, "idle_memory_bytes": 7, "idle_holders": ["ml/train"]}
    assert knobs(CannedAgents(pages() | {"/v1/state": {**state, "idle_gpus": idle}}))["idle_gpus"] == idle
    del state["idle_gpus"]
    assert knobs(CannedAgents(pages() | {"/v1/state": state}))["idle_gpus"]["allocated"] == 0


def test_without_the_keeper_the_rest_is_shown() -> None:
    page = knobs(CannedAgents(pages() | {"/v1/leases": "the keeper cannot be asked"}))
    assert page["leases_error"] == "the keeper cannot be asked"
    assert {entry["knob"] for entry in page["knobs"]} == {"cpu.max", "cpu.weight"}


def test_the_agent_of_another_node_is_not_shown_as_this_one() -> None:
    assert "is that of node n1" in knobs(CannedAgents(pages()), "n2")["problem"]
    assert "another version" in knobs(CannedAgents(pages() | {"/v1/state": {"node": ["n1"]}}))["problem"]
    assert "--agents" in knobs(CannedAgents({}, pattern=""))["problem"]


def timelines(
    agents: Agents, replicas: Sequence[dict[str, str]] = (), stories: Sequence[StoryRow] | None = ()
) -> Timelines:
    fleet, moves, latencies = MeasuredFleet(), MoveBoard(MeasuredFleet()), Latencies()
    fleet.node_seen(node("n1"))
    fleet.pod_seen(pod_row(pod("web", "n1", objective_p99_ms=20.0)))
    job = move("m", "default/sort", JobPhase.SUCCEEDED)
    job["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    moves.seen(read_migration_job(msgspec.convert(job, MigrationJobObject)))
    latencies.seen(NOW_S - 100, {"default/web": 9.0})
    latencies.seen(NOW_S - 80, {"default/web": 31.0})
    page = {"service": "front", "belowMs": 25.0, "replicas": list(replicas)}
    return Timelines(fleet, agents, CannedTraces(page, stories), moves, latencies, lambda: NOW_S)


def asked(of: Timelines, *names: str) -> Any:
    return msgspec.json.decode(msgspec.json.encode(asyncio.run(of.answer(names, {}))))


def test_an_incident_is_a_timeline_from_victim_to_recovery() -> None:
    page = asked(timelines(CannedAgents(pages())), "pods", "default", "web")
    opened = NOW_S - 90.0
    incident = page["incidents"][0]
    assert (incident["victim"], incident["culprit"], incident["opened"]) == ("default/web", "default/sort", opened)
    assert (incident["recovered"], incident["burn"], incident["level"]) == (opened + 8.0, 14.4, 0.9)
    assert incident["proofs"][0]["helped"] is True
    of_agent = [entry for entry in page["events"] if entry["kind"] != "move"]
    assert [(entry["kind"], entry["at"] - opened) for entry in of_agent] == [
        ("victim", 0.0),
        ("action", 3.0),
        ("recovery", 8.0),
    ]
    assert of_agent[1]["culprit"] == "default/sort"
    assert [entry["move"] for entry in page["events"] if entry["kind"] == "move"] == ["m"]  # of the culprit
    assert page["latency"] == [{"pod": "default/web", "objective_ms": 20.0, "points": [[4900.0, 9.0], [4920.0, 31.0]]}]
    assert page["problems"] == []


def test_a_workload_whose_pods_are_all_meant_is_named_as_one_and_a_pod_that_is_meant_alone_with_its_owner() -> None:
    job = "Job default/sorts"
    together = agent_pages("n1", "default/web", "default/sort", HOSTILE, job)
    page = asked(timelines(CannedAgents(together)), "pods", "default", "web")
    incident = page["incidents"][0]
    assert (incident["workload"], incident["culprit"], incident["owner"]) == (job, "default/sort", "")
    assert incident["candidates"][0] == [job, 0.93]
    assert incident["proofs"][0]["workload"] == job
    assert [entry["workload"] for entry in page["events"] if entry["kind"] == "action"] == [job]
    story = story_page("n1", "default/web", "default/sort", HOSTILE)
    alone = replace(story, incidents=(replace(story.incidents[0], owner=job),))
    rows = [StoryRow("n1", NOW_S, alone)]
    incident = asked(timelines(CannedAgents({}, pattern=""), stories=rows), "pods", "default", "web")["incidents"][0]
    assert (incident["workload"], incident["culprit"], incident["owner"]) == ("", "default/sort", job)


def test_an_objective_asks_the_nodes_of_its_replicas_and_names_those_that_do_not_answer() -> None:
    replicas = [{"pod": "default/web", "node": "n1"}, {"pod": "default/other", "node": "n2"}]
    found = timelines(CannedAgents(pages() | {"/v1/explain?service=default/other": "does not answer"}), replicas)
    page = asked(found, "objectives", "shop", "a/b")
    assert page["replicas"] == [["default/web", "n1"], ["default/other", "n2"]]
    assert len(page["incidents"]) == 1
    assert page["problems"] == ["n2: does not answer"]
    calm = asked(timelines(CannedAgents({})), "pods", "default", "web")  # the agent knows no trouble of it
    assert (calm["incidents"], calm["problems"]) == ([], [])
    off = asked(
        timelines(CannedAgents({"/v1/explain?service=default/web": {"enabled": False}})), "pods", "default", "web"
    )
    assert "switched off" in off["problems"][0]
    none = asked(timelines(CannedAgents({}, pattern="")), "pods", "default", "web")
    assert none["problems"] == []  # the trace process answers for all agents
    assert none["latency"] != []
    for names in (("pods", "default", "none"), ("pods",)):
        with pytest.raises(NotFound):
            asked(timelines(CannedAgents({})), *names)


def test_reported_stories_need_no_agent_and_are_not_shown_twice() -> None:
    story = story_page("n1", "default/web", "default/sort", HOSTILE)
    other = story_page("n9", "default/unrelated", "default/sort", HOSTILE)
    rows = [StoryRow("n1", NOW_S, story), StoryRow("n9", NOW_S - 60, other)]
    alone = asked(timelines(CannedAgents({}, pattern=""), stories=rows), "pods", "default", "web")
    assert [(entry["node"], entry["opened"]) for entry in alone["incidents"]] == [("n1", NOW_S - 90.0)]
    both = asked(timelines(CannedAgents(pages()), stories=rows), "pods", "default", "web")
    assert both["incidents"] == alone["incidents"]
    assert both["events"] == alone["events"]
    gone = timelines(CannedAgents({}, pattern=""), [{"pod": "default/new", "node": "n1"}], rows)
    page = asked(gone, "objectives", "shop", "a/b")
    assert page["incidents"] == []  # incidents of another objective and of other pods
    earlier = replace(
        story, incidents=(replace(story.incidents[0], objective="shop/a/b"),)
    )  # of a replica that is gone
    of_objective = timelines(CannedAgents({}, pattern=""), stories=[StoryRow("n1", NOW_S, earlier)])
    assert len(asked(of_objective, "objectives", "shop", "a/b")["incidents"]) == 1
    away = asked(timelines(CannedAgents({}, pattern=""), stories=None), "pods", "default", "web")
    assert away["problems"] == ["traces: does not answer"]


def test_only_known_nodes_are_asked_and_at_their_own_address() -> None:
    agents = Agents("http://{ip}:10262", lambda name: name in ("n1", "n2", "n3"))
    agents.address_seen("n1", "10.0.0.7")
    agents.address_seen("n2", "fd00::1")
    agents.address_seen("n3", "metadata.internal/x")  # not an address
    assert agents._url("n1") == "http://10.0.0.7:10262"
    assert agents._url("n2") == "http://[fd00::1]:10262"
    with pytest.raises(Unanswered, match="no internal address"):
        agents._url("n3")
    with pytest.raises(Unanswered, match="does not exist"):
        agents._url("evil/..")
    agents.address_seen("n2", "")
    agents.node_gone("n1")
    for name in ("n1", "n2"):
        with pytest.raises(Unanswered, match="no internal address"):
            agents._url(name)
    assert Agents("http://{node}:1", lambda name: True)._url("a/b") == "http://a%2Fb:1"


@pytest.mark.parametrize("pattern", ["10.0.0.1:10262", "http://", "http://{host}:1", "ftp://{ip}", "http://{"])
def test_bad_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput, match="--agents"):
        check(ConsoleArguments(agents=pattern))


def test_the_internal_address_of_a_node() -> None:
    addresses = (NodeAddress("Hostname", "h"), NodeAddress("InternalIP", "10.0.0.7"), NodeAddress("InternalIP", "x"))
    assert internal_address(NodeObject(status=NodeStatus(addresses=addresses))) == "10.0.0.7"
    null = {"status": {"addresses": [{"type": None, "address": None}, {"type": "InternalIP", "address": None}]}}
    assert internal_address(msgspec.convert(null, NodeObject)) == ""
    assert internal_address(NodeObject()) == internal_address(NodeObject(status=NodeStatus())) == ""


def test_latencies_are_kept_for_an_hour_and_for_a_bounded_number_of_pods() -> None:
    kept = Latencies()
    for k in range(KEPT + 50):
        kept.seen(k * SLOT_S, {"a": float(k)})
        kept.seen(k * SLOT_S + 1, {"a": k - 0.5})  # of one slot the highest
    now_s = (KEPT + 49) * SLOT_S
    points = kept.of("a", now_s)
    assert (len(points), points[-1], points[0]) == (KEPT, (float(now_s), KEPT + 49.0), (50.0 * SLOT_S, 50.0))
    assert kept.of("a", now_s + KEPT * SLOT_S) == ()
    kept.seen(now_s, {f"p{k}": 1.0 for k in range(MAX_PODS + 10)})
    assert kept.of(f"p{MAX_PODS + 5}", now_s) == ()
    later_s = now_s + 2 * KEPT * SLOT_S
    kept.seen(later_s, {"new": 2.0})
    assert kept.of("new", later_s) == ((float(later_s), 2.0),)
