"""The debug API: who may ask, what is listed, what the flags reply, and what pages tell."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fakes.cluster.questions import carry_out, cluster, node, pod
from tests.fakes.servers.serving import HERE, SECRET, server

from cotenant.model.cluster.taints import Taint
from cotenant.model.decisions.answers import PodAnswer
from cotenant.services.routes import SERVICES, Route
from cotenant.services.scheduler.pages.debugging import MAX_FAILURES
from cotenant.services.scheduler.pages.encoding import encode

# ---- who may ask


@pytest.mark.parametrize(
    "path", ["/debug/state", "/debug/pods/default/x", "/apis/v1/nodes/a", SERVICES, "/debug/nothing", "/apis/x"]
)
@pytest.mark.parametrize(
    ("client", "headers"),
    [
        (("10.1.2.3", 1), {}),
        (("::ffff:10.1.2.3", 1), {}),
        (("2001:db8::1", 1), {"authorization": "Bearer something-else-altogether"}),
        (None, {}),
        (HERE, {"x_forwarded_for": "10.1.2.3"}),
        (HERE, {"forwarded": "for=10.1.2.3"}),
        (HERE, {"host": "evil.example:10261"}),
        (("not an address", 1), {}),
    ],
)
def test_callers_from_elsewhere_are_refused_with_words(
    path: str, client: Any, headers: dict[str, str], tmp_path: Path
) -> None:
    status, text = server(cluster(node("a")), tmp_path).ask(path, client=client, **headers)
    assert (status, text) == (
        403,
        "only callers on this machine, or with a bearer token that this scheduler knows (--debug-token-file), may "
        "ask\n",
    )


def test_flags_cannot_be_set_from_elsewhere() -> None:
    served = server(cluster(node("a")))
    assert served.ask("/debug/flags/s", "5", "PUT", ("10.0.0.1", 1))[0] == 403
    assert served.debugging.top_scores == 0


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        (HERE, {}),
        (("::1", 1), {"host": "[::1]:10261"}),
        (("::ffff:127.0.0.1", 1), {"host": "127.0.0.1:10261"}),
        (("127.1.2.3", 1), {"host": "LOCALHOST"}),
        (("10.1.2.3", 1), {"authorization": f"Bearer {SECRET}", "host": "scheduler.example"}),
    ],
)
def test_callers_on_this_machine_or_with_the_token_may(client: Any, headers: dict[str, str], tmp_path: Path) -> None:
    assert server(cluster(node("a")), tmp_path).ask("/debug/state", client=client, **headers)[0] == 200


def test_metrics_and_health_stay_open() -> None:
    served = server(cluster(node("a")))
    for path in ("/metrics", "/healthz", "/readyz"):
        assert served.ask(path, client=("10.1.2.3", 1))[0] == 200


# ---- what is there


def test_the_list_is_made_from_the_routes_and_every_get_of_it_answers() -> None:
    served = server(cluster(node("a")))
    listed = served.json(SERVICES)
    assert list(listed) == sorted(listed)
    assert all(patterns == sorted(patterns) for patterns in listed.values())
    assert {SERVICES, "/apis/v1/nodes/:nodeName"} <= set(listed["GET"])
    assert listed["PUT"] == ["/debug/flags/f", "/debug/flags/s", "/debug/flags/v"]
    for pattern in listed["GET"]:
        status, text = served.ask("/".join("none" if part.startswith(":") else part for part in pattern.split("/")))
        assert status in (200, 404), pattern
        assert status == 200 or "none" in text or "flag is off" in text, (pattern, text)
    assert served.ask("/apis/v1/nothing") == (404, f"there is no such page; GET {SERVICES} lists them\n")
    assert served.ask("/debug/flags/s") == (405, "only PUT\n")
    assert served.ask("/debug/state", method="DELETE")[0] == 405
    assert served.ask("/apis/v1/nodes/", query="")[0] == 404


def test_a_route_takes_whole_segments_only() -> None:
    route = Route("GET", "/a/:x/b", lambda asked: None)  # type: ignore[arg-type, return-value]
    assert route.names(["", "a", "1", "b"]) == ("1",)
    assert [route.names(path.split("/")) for path in ("/a/1/b/c", "/a//b", "/a/1", "/a/1/c")] == [None] * 4


def test_a_node_is_told_as_the_scheduler_believes_it() -> None:
    c = cluster(node("a", taints=(Taint("team", "x"),)), node("b"))
    c.pod_seen(pod("x", 500, on="a"), 0.0)
    c.report("a", (0.25, 0.5, 12.0, 0.0, 0.5, 1.0, 3.0))
    told = server(c).json("/apis/v1/nodes/a")
    assert told["taints"] == ["team=x:NoSchedule"]
    assert told["amounts"][0] == {"resource": "cpu", "allocatable": "4", "requested": "500m", "free": "3500m"}
    assert [(entry["pod"], entry["state"], entry["requests"][0]) for entry in told["pods"]] == [
        ("default/x", "bound", ["cpu", "500m"])
    ]
    assert (told["report"]["ageS"], told["report"]["cpuUsed"]) == (2.0, 0.25)
    assert server(c).json("/apis/v1/nodes/b")["report"] is None
    assert server(c).ask("/apis/v1/nodes/c") == (
        404,
        "node c is not known to this scheduler; kubectl get nodes lists those that are there\n",
    )


def test_a_pod_is_explained_and_supposed_of() -> None:
    c = cluster(node("a"))
    c.pod_seen(pod("x", 5000, memory=100), 0.0)
    served = server(c)
    answer = served.json("/debug/explain/pods/default/x")
    assert answer["waiting"]["rejections"][0]["nodes"] == 1
    assert answer["leads"] is True
    status, text = served.ask("/debug/explain/pods/default/x", query="if=cpu%3D1&if=node%3Da")
    assert status == 200
    typed = __import__("msgspec").json.decode(text, type=PodAnswer)
    assert (typed.waiting.passing, typed.asked_about.place) == (1, 1)
    assert served.ask("/debug/explain/pods/default/x", query="if=speed%3D1") == (
        400,
        "--if: speed=1: expected cpu, memory, ephemeral-storage, a resource with a slash in its name, priority, "
        "selector.KEY or node\n",
    )
    assert served.ask("/debug/explain/pods/default/x", query="if=" + "a" * 5000)[0] == 400
    status, text = served.ask("/debug/explain/pods/default/y")
    assert status == 404
    assert "pod default/y is not known to this scheduler" in text


# ---- flags


def test_the_score_flag_replies_logs_and_keeps_the_founding_table(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    c = cluster(node("a", 4000), node("b", 8000), node("c", 2000), profile_name="kube-default")
    served = server(c)
    assert served.ask("/debug/flags/s", "2", "PUT") == (200, "successfully set debugTopNScores to 2")
    c.pod_seen(pod("x", 1000), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    status, text = served.ask("/debug/scores")
    lines = text.splitlines()
    assert status == 200
    assert lines[0] == "default/x, 3 nodes passed"
    assert lines[2] == "| # | Pod | Node | Score | NodeResourcesFit | NodeResourcesBalancedAllocation |"
    assert lines[3] == "| --- | --- | --- | ---:| ---:| ---:|"
    assert lines[4] == "| 0 | default/x | b | 187 | 87 | 100 |"
    assert lines[5] == "| 1 | default/x | a | 175 | 75 | 100 |"
    assert len(lines) == 6
    assert "| 0 | default/x | b | 187 | 87 | 100 |" in caplog.text
    record = served.json("/debug/explain/pods/default/x")["record"]
    assert [part["name"] for part in record["candidates"][0]["parts"]] == [
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
    ]
    assert served.ask("/debug/flags/s", "0", "PUT") == (200, "successfully set debugTopNScores to 0")
    caplog.clear()
    c.pod_seen(pod("y", 1000), 1.0)
    carry_out(c, c.decide(1.0), 1.0)
    assert "default/y" not in caplog.text
    assert c._components.placing.witness is None
    assert served.ask("/debug/scores", query="pod=default/y")[0] == 404


def test_the_filter_flag_names_every_node_that_refuses(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    c = cluster(node("a", 500, memory=9000), node("b"), *(node(f"n{i}", 100, memory=9000) for i in range(300)))
    served = server(c)
    assert served.ask("/debug/flags/f", "true", "PUT") == (200, "successfully set debugFilterFailure to true")
    c.pod_seen(pod("x", 1000), 0.0)
    c.decide(0.0)
    lines = served.ask("/debug/filters")[1].splitlines()
    assert lines[0] == (
        "failed to filter for pod default/x on node a, plugin: NodeResourcesFit, reason: Insufficient cpu, 500m more "
        "are asked"
    )
    assert len(lines) == MAX_FAILURES + 1
    assert lines[-1] == f"{301 - MAX_FAILURES} more"
    assert lines[0] in caplog.text


@pytest.mark.parametrize(
    ("flag", "text"), [("s", "many"), ("s", "-1"), ("s", "1000000"), ("s", ""), ("f", "maybe"), ("s", "5" * 70)]
)
def test_flags_take_only_what_they_mean(flag: str, text: str) -> None:
    served = server(cluster(node("a")))
    status, _ = served.ask(f"/debug/flags/{flag}", text, "PUT")
    assert status in (400, 413)
    assert (served.debugging.top_scores, served.debugging.filters) == (0, False)


def test_the_verbosity_turns_every_step_on_and_off() -> None:
    served, log = server(cluster(node("a"))), logging.getLogger("cotenant")
    before = log.level
    try:
        assert served.ask("/debug/flags/v", "5", "PUT") == (200, "successfully set klog.logging.verbosity to 5")
        assert log.level == logging.DEBUG
        assert served.ask("/debug/flags/v", "2", "PUT")[0] == 200
        assert log.level == logging.NOTSET
        for text in ("", "-1", "high", "555"):
            assert served.ask("/debug/flags/v", text, "PUT")[0] == 400
    finally:
        log.setLevel(before)


def test_the_flags_survive_a_rebuild_of_the_engine() -> None:
    c = cluster(node("a"))
    served = server(c)
    served.ask("/debug/flags/s", "1", "PUT")
    c.rebuild(1.0)
    c.pod_seen(pod("x"), 1.0)
    c.decide(1.0)
    assert len(served.debugging.tables("default/x")) == 1


# ---- JSON


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Part:
    some_name: float
    colours: dict[Colour, Any]
    numbers: Any


def test_values_become_json_whatever_they_are_made_of() -> None:
    value = Part(float("nan"), {Colour.RED: Part(1.5, {}, frozenset({2, 1}))}, np.array([1, 2]))
    assert json.loads(encode(value)) == {
        "someName": None,
        "colours": {"red": {"someName": 1.5, "colours": {}, "numbers": [1, 2]}},
        "numbers": [1, 2],
    }


def test_an_explanation_has_the_terms_that_were_kept_at_its_decision_and_else_those_of_the_record() -> None:
    c = cluster(node("a", 4000), node("b", 8000), node("c", 6000), profile_name="kube-default")
    served = server(c)
    c.pod_seen(pod("before", 1000), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    plain = served.json("/debug/explain/pods/default/before")["record"]["candidates"]
    served.ask("/debug/flags/s", "2", "PUT")
    assert served.json("/debug/explain/pods/default/before")["record"]["candidates"] == plain
    c.pod_seen(pod("after", 1000), 1.0)
    carry_out(c, c.decide(1.0), 1.0)
    kept = served.json("/debug/explain/pods/default/after")["record"]["candidates"]
    assert len(kept) == 2
    assert all(candidate["parts"] for candidate in kept)
    assert served.json("/debug/explain/pods/default/before")["record"]["candidates"] == plain
    served.ask("/debug/flags/s", "0", "PUT")
    assert len(served.json("/debug/explain/pods/default/after")["record"]["candidates"]) == len(plain)
