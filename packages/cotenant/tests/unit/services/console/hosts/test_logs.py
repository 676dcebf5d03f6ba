"""The log of a container or pod: the last lines over several pages of the agent, cut lines, and what may be asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.fakes.processes.fake_fleet import TRACE, FakeFleet

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.fleet.logs import ShownLine
from cotenant.model.fleet.refusal import NobodyAnswers
from cotenant.services.console.access import RIGHTS
from cotenant.services.console.hosts.logs import MAX_SHOWN, LogAnswers
from cotenant.services.console.upstream import Unanswered

FLEET = FakeFleet(
    logs={
        "shop/web-1": tuple(ShownLine(k * 1_000_000_000, "stdout", f"line {k}") for k in range(300)),
        "web-1": (ShownLine(5_000_000, "stderr", "<b>" + "x" * 9000, TRACE, cut=7),),
    }
)


def asked(*names: str, fleet: FakeFleet | None = FLEET, **query: str) -> Any:
    return asyncio.run(LogAnswers(fleet).answer(names, query))


def test_the_last_lines_of_a_pod_come_oldest_first() -> None:
    page = asked("shop", "web-1")
    assert (len(page["lines"]), page["lines"][0]["text"], page["lines"][-1]["text"]) == (200, "line 100", "line 299")
    assert (page["lines"][-1]["atMs"], page["isEnd"]) == (299_000, True)


def test_lines_are_searched_by_the_agent() -> None:
    fleet = FakeFleet(logs=FLEET.logs)
    assert [line["text"] for line in asked("shop", "web-1", fleet=fleet, grep="line 29", tail="3")["lines"]] == [
        "line 297",
        "line 298",
        "line 299",
    ]
    assert fleet.asked == ["logs shop/web-1 line 29"]


def test_a_long_line_is_cut_and_names_its_trace() -> None:
    (line,) = asked("web-1")["lines"]
    assert (len(line["text"]), line["cut"]) == (MAX_SHOWN, 9003 - MAX_SHOWN + 7)
    assert (line["trace"], line["stream"]) == (TRACE, "stderr")


@pytest.mark.parametrize("query", [{"tail": "0"}, {"tail": "1001"}, {"tail": "many"}, {"grep": "x" * 1001}])
def test_bad_values_are_named(query: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(query))):
        asked("web-1", **query)


def test_what_has_no_log_is_not_found_and_what_is_away_is_away() -> None:
    with pytest.raises(Unanswered, match="no host of this fleet has a log of other") as caught:
        asked("other")
    assert caught.value.status == 404
    for error in (NobodyAnswers("agent-1 is gone"), Transient("no bus")):
        with pytest.raises(Unanswered) as caught:
            asked("web-1", fleet=FakeFleet(error=error))
        assert caught.value.status == 502
    for names in ((), ("a", "b", "c"), ("", "b")):
        with pytest.raises(NotFound):
            asked(*names)
    with pytest.raises(Unanswered, match="--fleet"):
        asked("web-1", fleet=None)


def test_a_viewer_with_a_token_of_the_cluster_needs_the_right_to_read_logs() -> None:
    assert RIGHTS["logs"][0].attributes == {"verb": "get", "resource": "pods", "subresource": "log"}
