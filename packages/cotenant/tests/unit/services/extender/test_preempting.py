"""Planned preemptions: victims are never added, and nobody dies where it cannot help."""

import json
from typing import Any

import pytest
from tests.fakes.servers.extender_forms import GIB, NOW, Known, pod, report, written

from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import Amounts
from cotenant.services.extender.judge import demand_of


def seat(known: Known, uid: str, node: str, cpu_milli: int, memory: int = GIB) -> None:
    known.mirror.pod_seen(
        uid, node, demand_of(Pod(uid, requests=Amounts.of({"cpu": cpu_milli, "memory": memory}))).shape
    )


def preempt(known: Known, asked: dict[str, Any], victims: dict[str, Any], meta: bool = True) -> dict[str, Any]:
    args = {
        "Pod": asked,
        "NodeNameToVictims": None if meta else victims,
        "NodeNameToMetaVictims": victims if meta else None,
    }
    answer: dict[str, Any] = json.loads(known.extender.preempt(written(args), NOW))
    assert set(answer) == {"NodeNameToMetaVictims"}
    kept: dict[str, Any] = answer["NodeNameToMetaVictims"]
    return kept


def by_uid(*uids: str, violations: int = 0) -> dict[str, Any]:
    return {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}


def test_victims_come_back_as_they_came() -> None:
    known = Known(report("a", cpu_used=7.0))
    seat(known, "low", "a", 4000)
    plan = {"a": by_uid("low", violations=1)}
    assert preempt(known, pod(cpu="4"), plan) == plan


def test_a_node_where_the_victims_do_not_free_enough_is_dropped() -> None:
    known = Known(report("a", cpu_used=7.9), report("b", cpu_used=7.9))
    seat(known, "small", "a", 1000)
    seat(known, "large", "b", 5000)
    plan = {"a": by_uid("small"), "b": by_uid("large")}
    assert list(preempt(known, pod(cpu="3"), plan)) == ["b"]


def test_a_pod_larger_than_the_node_takes_no_victims() -> None:
    known = Known(report("a"))
    assert preempt(known, pod(cpu="9"), {"a": by_uid("whoever")}) == {}


@pytest.mark.parametrize("cpu_milli", [None, 0])
def test_victims_of_unknown_use_give_the_benefit_of_the_doubt(cpu_milli: int | None) -> None:
    known = Known(report("a", cpu_used=8.0))
    if cpu_milli is not None:
        seat(known, "victim", "a", cpu_milli)
    assert list(preempt(known, pod(cpu="4"), {"a": by_uid("victim")})) == ["a"]


def test_unknown_nodes_and_stale_reports_keep_their_victims() -> None:
    known = Known(report("stale", cpu_used=8.0, at_s=NOW - 500))
    plan = {"stale": by_uid("x"), "unknown": by_uid("y", "z")}
    assert preempt(known, pod(), plan) == plan


def test_whole_victims_are_answered_by_uid() -> None:
    known = Known(report("a", cpu_used=7.5), report("b", cpu_used=7.5))
    plan = {
        "a": {"Pods": [pod("3", name="big")], "NumPDBViolations": 2},
        "b": {"Pods": [pod("500m", name="little")], "NumPDBViolations": 0},
    }
    assert preempt(known, pod(cpu="3"), plan, meta=False) == {"a": by_uid("uid-big", violations=2)}


def test_nothing_planned() -> None:
    assert preempt(Known(), pod(), {}) == {}
    assert preempt(Known(), pod(), {"a": {"Pods": None, "NumPDBViolations": 0}}) == {
        "a": {"Pods": None, "NumPDBViolations": 0}
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"Pod":null}',
        b'{"Pod":{},"NodeNameToMetaVictims":[]}',
        b'{"Pod":{},"NodeNameToVictims":{"a":{"Pods":[7]}}}',
    ],
)
def test_malformed(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        Known().extender.preempt(body, NOW)
