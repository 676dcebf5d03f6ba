"""What a zone knows from its node's agent: which pods are its groups, and how fast their objectives burn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cotenant.model.errors import Transient
from cotenant.model.machine.replica_signal import FRESH_US, MaxAction, ReplicaSignal
from cotenant.model.zones.table import ZoneClass
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.services.zones.agent_view import (
    _REPORT_BUDGET_PPM,
    REPORT_FRESH_US,
    ZoneAgentView,
    burns_of,
    members_of,
    pod_burns_of,
)
from cotenant.services.zones.definition import (
    MAX_GROUPS,
    ClassRule,
    GroupClass,
    ZoneApplication,
    ZoneDefinition,
    ZoneGroup,
)

ZONE = ZoneDefinition(
    "shop",
    groups=(ZoneGroup("listed/web", GroupClass.SERVICE),),
    applications=(ZoneApplication("shop"), ZoneApplication(labels={"app": "batch"})),
    rules=(
        ClassRule(GroupClass.BATCH, {"app": "batch"}, weight=7),
        ClassRule(GroupClass.SERVICE, {"app": "web"}, late_ms=3),
    ),
)


def pod(group: str, namespace: str = "shop", app: str = "web", **more: Any) -> dict[str, Any]:
    return {"pod": f"{namespace}/p", "group": group, "labels": {"app": app}, **more}


def signal(bad: int, requests: int = 1000, budget_ppm: int = 10_000, age_us: int = 0) -> dict[str, int]:
    return {"requests": requests, "bad": bad, "budget_ppm": budget_ppm, "age_us": age_us}


def members(*pods: dict[str, Any], exists: Any = lambda group: True) -> dict[str, Any]:
    return members_of({"pods": list(pods)}, ZONE, exists)


def test_selected_pods_are_groups_with_the_row_of_their_rule() -> None:
    found = members(
        pod("pods/a"),
        pod("pods/b", "other", "batch"),
        pod("pods/c", "other", "web"),  # no application selects it
        pod("pods/d", "shop", "third"),  # no rule is for it
        {"pod": "shop/p", "group": "pods/e"},  # without labels
    )
    assert set(found) == {"listed/web", "pods/a", "pods/b"}
    assert (found["pods/a"].zone_class, found["pods/a"].late_us) == (ZoneClass.SERVICE, 3000)
    assert (found["pods/b"].zone_class, found["pods/b"].weight) == (ZoneClass.BATCH, 7)
    assert set(members_of({}, ZONE, lambda group: True)) == {"listed/web"}


@pytest.mark.parametrize(
    ("group", "is_one"),
    [("listed/web", False), ("listed/web/a", False), ("listed", False), ("listed/webshop", True), ("list", True)],
)
def test_no_group_is_within_another(group: str, is_one: bool) -> None:
    assert (group in members(pod(group)) and group != "listed/web") is is_one


def test_a_group_that_is_not_there_yet_is_none() -> None:
    found = members(pod("pods/a"), pod("pods/b"), exists=lambda group: group == "pods/b")
    assert set(found) == {"listed/web", "pods/b"}


def test_there_is_a_most_of_groups_and_the_listed_come_first() -> None:
    found = members(*(pod(f"pods/{number}") for number in range(MAX_GROUPS + 5)))
    assert len(found) == MAX_GROUPS
    assert "listed/web" in found
    assert f"pods/{MAX_GROUPS - 2}" in found


def test_a_group_burns_as_its_fastest_pod_in_it_or_below() -> None:
    state = {
        "pods": [
            pod("pods/a", signals=[signal(10), signal(30)]),
            pod("pods/a/below", signals=[signal(20)]),
            pod("pods/ab", signals=[signal(90)]),
            pod("pods/quiet", signals=[]),
            pod("pods/old", signals=[signal(50, age_us=FRESH_US + 1)]),
            pod("pods/edge", signals=[signal(50, age_us=FRESH_US)]),
            pod("pods/none", signals=[signal(0, requests=0)]),
            pod("pods/well", signals=[signal(0)]),
        ]
    }
    groups = ("pods/a", "pods/quiet", "pods/old", "pods/edge", "pods/none", "pods/well", "pods/absent")
    assert burns_of(state, groups) == {"pods/a": 3.0, "pods/edge": 5.0, "pods/well": 0.0}
    assert burns_of({}, groups) == {}


def report(over: int, requests: int = 1000, age_us: int = 0, objective: str = "") -> dict[str, Any]:
    return {"requests": requests, "over_objective": over, "age_us": age_us, "objective": objective}


def test_a_services_own_reports_burn_against_the_objective_of_its_pod() -> None:
    state = {
        "pods": [
            pod("pods/a", objective_p99_us=5000, health=report(30)),
            pod("pods/both", objective_p99_us=5000, health=report(10), signals=[signal(25)]),
            pod("pods/none", objective_p99_us=None, health=report(30)),
            pod("pods/silent", objective_p99_us=5000, health=None),
            pod("pods/idle", objective_p99_us=5000, health=report(0, requests=0)),
            pod("pods/old", objective_p99_us=5000, health=report(30, age_us=REPORT_FRESH_US + 1)),
            pod("pods/spans", objective_p99_us=5000, health=report(30, objective="shop/fast")),
        ]
    }
    groups = [entry["group"] for entry in state["pods"]]
    assert burns_of(state, groups) == {"pods/a": 3.0, "pods/both": 2.5}


def test_reports_are_judged_as_the_guard_does() -> None:
    guard = GuardConfig()
    assert (guard.health_age_us, guard.budget_ppm) == (REPORT_FRESH_US, _REPORT_BUDGET_PPM)


def test_a_rate_is_that_of_the_model() -> None:
    one = ReplicaSignal("o", "s", "p", "u", 1000, 2_000, MaxAction.OBSERVE, False, 1, 400, 6, 0, 0)
    assert one.burn_milli == 7500
    state = {"pods": [pod("g", signals=[signal(6, 400, 2_000)])]}
    assert burns_of(state, ["g"]) == {"g": 7.5}


def test_pods_of_a_machine_burn_by_their_name_in_their_zone() -> None:
    state = {
        "zone_pods": [
            {"zone": "shop", "pod": "web", "signals": [signal(10), signal(40)]},
            {"zone": "shop", "pod": "quiet", "signals": []},
            {"zone": "other", "pod": "db", "signals": [signal(10)]},
        ]
    }
    assert pod_burns_of(state, "shop") == {"web": 4.0}
    assert pod_burns_of({}, "shop") == {}


class Pages:
    """An agent. `page` None: it does not answer."""

    def __init__(self, page: dict[str, Any] | None) -> None:
        self.page, self.asked = page, 0

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/v1/state"
        self.asked += 1
        if self.page is None:
            raise Transient("away")
        return self.page


def view(page: dict[str, Any] | None) -> tuple[ZoneAgentView, Pages]:
    found, agent = ZoneAgentView("127.0.0.1:1", ZONE, lambda group: True), Pages(page)
    found._client = agent  # type: ignore[assignment]
    return found, agent


def test_one_page_of_a_period_is_asked_for_once() -> None:
    seen, agent = view({"pods": [pod("pods/a", signals=[signal(10)])]})

    async def play() -> None:
        rows = await seen.members()
        assert rows is not None
        assert set(rows) == {"listed/web", "pods/a"}
        assert await seen.burns() == {"pods/a": 1.0}
        assert agent.asked == 1
        assert await seen.burns() == {"pods/a": 1.0}  # of the next period, with the groups that were found
        assert agent.asked == 2
        agent.page = None
        assert await seen.members() is None
        assert await seen.burns() == {}
        assert await seen.pod_burns() == {}
        agent.page = {"zone_pods": [{"zone": "shop", "pod": "web", "signals": [signal(20)]}]}
        assert await seen.pod_burns() == {"web": 2.0}

    asyncio.run(play())


def test_a_silence_is_said_once_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    seen, agent = view(None)

    async def play() -> None:
        for _ in range(3):
            await seen.burns()
        assert len(caplog.records) == 1
        agent.page = {}
        await seen.burns()
        agent.page = None
        await seen.burns()
        assert len(caplog.records) == 2

    asyncio.run(play())
