"""Stories of services from the agents of their nodes: which are sent, what is kept, who may be asked."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec
import pytest
from tests.fakes.node.troubled_node import SECOND_US, TroubledNode

from cotenant.engine.node.recovery.policy import RecoveryMemory, decide
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import IncidentStage
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_state import NodeState
from cotenant.services.agent.reports.stories import ChangedStories
from cotenant.services.reporting.stories import MAX_INCIDENTS, StoryReport, decode, encode
from cotenant.services.traces import story_board
from cotenant.services.traces.story_board import FORGOTTEN_S, StoryBoard


@pytest.fixture(scope="module")
def troubled() -> list[tuple[RecoveryMemory, NodeState]]:
    """A minute of a node with a guilty neighbour, second by second."""
    node, memory, found = TroubledNode(Random(3), guilty="b"), RecoveryMemory(), []
    settings = RecoverySettings(lease_us=10 * SECOND_US, after_us=5 * SECOND_US)
    for _ in range(60):
        state = node.second()
        verdict, memory = decide(state, settings, memory)
        node.obey(verdict)
        found.append((memory, state))
    return found


def test_a_story_is_sent_when_it_changes_and_after_a_new_connection(
    troubled: list[tuple[RecoveryMemory, NodeState]],
) -> None:
    changed, sent = ChangedStories("n1"), []
    for memory, state in troubled:
        sent += changed.due(memory, state, 1000.0 + state.at_us / 1e6, 1)
    memory, state = troubled[-1]
    events = sum(len(incident.events) for incident in (*memory.ended, *memory.incidents))
    proofs = sum(len(incident.proofs) for incident in (*memory.ended, *memory.incidents))
    assert 0 < len(sent) <= events + proofs
    assert {report.story.service for report in sent} == {"shop/web"}
    assert IncidentStage.HOLDING in {report.story.incidents[0].stage for report in sent}
    assert not list(changed.due(memory, state, 2000.0, 1))
    (again,) = changed.due(memory, state, 2000.0, 2)
    assert again.story.text
    assert decode(encode(again)) == msgspec.structs.replace(
        again, story=replace(again.story, incidents=again.story.incidents[:MAX_INCIDENTS])
    )


def test_a_story_of_an_older_agent_is_read(troubled: list[tuple[RecoveryMemory, NodeState]]) -> None:
    (report,) = ChangedStories("n1").due(*troubled[-1], 2000.0, 1)
    written = msgspec.json.decode(encode(report))
    for entry in written["story"]["incidents"]:
        del entry["workload"]
        for inner in (*entry["candidates"], *entry["proofs"]):
            del inner["workload"]
    assert written["story"]["incidents"]
    assert decode(msgspec.json.encode(written)) == decode(encode(report))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "story: "),
        (b'{"node": "n", "atS": 1, "story": {}}', "story: "),
        (b'{"node": "n", "atS": -1}', "atS"),
        (b"[" * 5000, "story: "),
    ],
)
def test_what_is_no_story_is_refused(body: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        decode(body)


def test_a_story_needs_a_service_and_a_bounded_number_of_incidents(
    troubled: list[tuple[RecoveryMemory, NodeState]],
) -> None:
    (report,) = ChangedStories("n1").due(*troubled[-1], 1000.0, 1)
    for changes, field in (
        ({"service": "web"}, "story.service"),
        ({"incidents": report.story.incidents[:1] * (MAX_INCIDENTS + 1)}, "story.incidents"),
    ):
        story = replace(report.story, **changes)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=field):
            decode(msgspec.json.encode(msgspec.structs.replace(report, story=story)))


def test_the_board_keeps_the_newest_story_of_each_service_and_node(
    troubled: list[tuple[RecoveryMemory, NodeState]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (report,) = ChangedStories("n1").due(*troubled[-1], 1000.0, 1)
    now_s = [1000.0]
    board = StoryBoard(lambda: now_s[0])

    def add(node: str, service: str, at_s: float) -> None:
        board.add(StoryReport(node, at_s, replace(report.story, service=service)))

    add("n1", "shop/web", 990.0)
    add("n2", "shop/web", 5000.0)  # dated ahead
    add("n1", "shop/web", 995.0)
    add("n1", "shop/cart", 980.0)
    assert [(row.node, row.at_s) for row in board.rows("shop/web")] == [("n2", 1000.0), ("n1", 995.0)]
    assert len(board.rows()) == 3
    monkeypatch.setattr(story_board, "MOST", 2)
    add("n3", "shop/web", 999.0)
    assert {(row.node, row.story.service) for row in board.rows()} == {("n1", "shop/cart"), ("n3", "shop/web")}
    now_s[0] += FORGOTTEN_S
    assert board.rows() == []
    assert len(board) == 0
