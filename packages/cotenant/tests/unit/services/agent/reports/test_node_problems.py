"""Conditions of the node in its status, and Events where one begins or ends."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from cotenant.drivers.kube.client.client import Client
from cotenant.engine.node.problems import NodeProblem
from cotenant.model.errors import Permanent
from cotenant.services.agent.reports.node_problems import EVENT_GAP_S, HEARTBEAT_S, NodeProblemWriter


def problem(is_true: bool, type_: str = "SlowBlockIo") -> NodeProblem:
    return NodeProblem(type_, is_true, "WaitsAreLong" if is_true else "WaitsAreShort", "of db")


class World:
    """An API server and a clock."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.patches: list[list[dict[str, str]]] = []
        self.events: list[tuple[str, str, str]] = []
        self.refuses = False
        self.writer = NodeProblemWriter(
            cast("Client", self), "n1", self, lambda: self.now_s, lambda: 1_800_000_000 + self.now_s
        )

    async def patch_status(self, kind: Any, namespace: str, name: str, patch: dict[str, Any]) -> None:
        assert (kind.name, namespace, name) == ("Node", "", "n1")
        if self.refuses:
            raise Permanent("forbidden")
        self.patches.append(patch["status"]["conditions"])

    def record(self, kind: Any, key: str, uid: str, type_: str, reason: str, message: str) -> None:
        assert (kind.name, key, uid) == ("Node", "n1", "n1")
        self.events.append((type_, reason, message))

    def told(self, *problems: NodeProblem, after_s: float = 5.0) -> bool:
        self.now_s += after_s
        return asyncio.run(self.writer.told(problems))


def test_conditions_are_written_where_one_changes_and_as_a_heartbeat() -> None:
    world = World()
    assert world.told(problem(False))
    assert not world.told(problem(False))
    assert world.told(problem(True))
    assert not world.told(problem(True))
    assert world.told(problem(True), after_s=HEARTBEAT_S)
    first, changed, again = (conditions[0] for conditions in world.patches)
    assert (first["type"], first["status"], first["reason"]) == ("SlowBlockIo", "False", "WaitsAreShort")
    assert (changed["status"], changed["message"]) == ("True", "of db")
    assert changed["lastTransitionTime"] == again["lastTransitionTime"] > first["lastTransitionTime"]
    assert again["lastHeartbeatTime"] > changed["lastHeartbeatTime"]


def test_what_begins_and_ends_is_an_event_and_a_quiet_start_is_none() -> None:
    world = World()
    for is_true in (False, True, True, False, False):
        world.told(problem(is_true))
    assert world.events == [
        ("Warning", "WaitsAreLong", "SlowBlockIo: of db"),
        ("Normal", "WaitsAreShort", "SlowBlockIo: of db"),
    ]


def test_a_problem_that_flaps_for_an_hour_has_bounded_events() -> None:
    world = World()
    for number in range(720):
        world.told(problem(number % 2 == 1))
    assert len(world.events) <= 2 * (3600 / EVENT_GAP_S + 1)
    assert [kind for kind, _, _ in world.events[:2]] == ["Warning", "Normal"]


def test_what_the_server_refuses_is_asked_again_once_a_minute_and_no_more() -> None:
    world = World()
    world.refuses = True
    for _ in range(24):  # two minutes
        world.told(problem(True))
    assert world.writer.failures == 2
    assert "forbidden" in world.writer.problem
    world.refuses = False
    assert world.told(problem(True), after_s=60)
    assert (world.writer.problem, len(world.patches)) == ("", 1)
