"""Reports of interference: who may report what, the answer to each, and what of it reaches the accounts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from cotenant.engine.credit.accounts import Accounts, Posting
from cotenant.model.errors import Permanent, Transient
from cotenant.policy.credit.bounds import DEFAULTS
from cotenant.policy.credit.entries import EntryCause
from cotenant.policy.credit.pricing import HOUR_MS
from cotenant.services.credit.facts import PodPlace
from cotenant.services.credit.incidents import IncidentEndpoint
from cotenant.services.routes import CallerGuard

NOW_MS = 10 * HOUR_MS
PLACES = {
    "team-a/web": PodPlace("a", "n1"),
    "team-b/hog": PodPlace("b", "n1"),
    "team-b/far": PodPlace("b", "n2"),
    "kube-system/proxy": PodPlace("", "n1"),
}
PODS = {"culprit_pod": "team-b/hog", "victim_pod": "team-a/web"}


class Nodes:
    """Which node a token is of; `busy`: it cannot be asked."""

    async def node_of(self, authorization: bytes) -> str:
        if authorization == b"Bearer busy":
            raise Transient("the API server cannot review the token now")
        return {b"Bearer n1": "n1", b"Bearer n2": "n2"}.get(authorization, "")


@dataclass
class World:
    """An endpoint over accounts in memory."""

    leads: bool = True
    stored: bool = True
    knows_nodes: bool = True
    postings: list[Posting] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.accounts = Accounts(DEFAULTS)
        nodes: Any = Nodes() if self.knows_nodes else None
        self.endpoint = IncidentEndpoint(
            self._book, lambda: self.leads, CallerGuard(None, lambda: 0.0), lambda: NOW_MS, PLACES.get, nodes
        )

    async def _book(self, made: Callable[[Accounts], Posting | None]) -> Posting | None:
        if not self.stored:
            raise Permanent("the disk is full")
        posting = made(self.accounts)
        if posting is not None:
            self.accounts.committed(posting)
            self.postings.append(posting)
        return posting

    def report(
        self,
        token: str = "",
        client: str = "10.0.0.9",
        method: str = "POST",
        raw: bytes | None = None,
        **fields: object,
    ) -> tuple[int, dict[str, Any], bool]:
        """Status, answer, and whether the connection is closed."""
        body = {
            "key": "n1-7",
            "at_ms": NOW_MS,
            "harm_milli_core_hours": 1000,
            "confidence_permille": 900,
            "evidence": {"rung": "cap"},
            **fields,
        }
        headers = [(b"host", b"localhost")]
        if token:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        scope = {"type": "http", "method": method, "headers": headers, "client": (client, 5), "query_string": b""}

        async def receive() -> Any:
            return {"type": "http.request", "body": raw if raw is not None else json.dumps(body).encode()}

        answer = asyncio.run(self.endpoint.answer(scope, receive))
        closes = (b"connection", b"close") in answer.more
        return answer.status, json.loads(bytes(answer.body)), closes

    @property
    def counted(self) -> dict[str, int]:
        return {outcome: count for outcome, count in self.endpoint.counts.items() if count}


def test_a_nodes_report_on_its_pods_is_booked_between_their_tenants_with_the_evidence() -> None:
    world = World()
    assert world.report("n1", **PODS) == (201, {"booked": True}, False)
    ((entry,),) = (posting.entries for posting in world.postings)
    assert entry.cause is EntryCause.INTERFERED
    assert (entry.payer, entry.milli, entry.at_ms) == ("tenant/b", 900, NOW_MS)
    assert dict(entry.evidence) == {
        "victim": "a",
        "harm_milli_core_hours": 1000,
        "confidence_permille": 900,
        "rung": "cap",
        "culprit_pod": "team-b/hog",
        "victim_pod": "team-a/web",
        "node": "n1",
    }
    assert world.report("n1", **PODS) == (200, {"booked": False}, False)
    assert world.counted == {"booked": 1, "nothing": 1}


def test_who_reports_from_this_machine_may_name_tenants_and_no_node_is_noted() -> None:
    world = World(knows_nodes=False)
    assert world.report(client="127.0.0.1", culprit="b", victim="a")[0] == 201
    assert {"node", "culprit_pod", "victim_pod"}.isdisjoint(dict(world.postings[0].entries[0].evidence))
    assert world.report(client="127.0.0.1", key="n1-8", culprit="b", victim_pod="team-a/web")[0] == 201
    assert dict(world.postings[1].entries[0].evidence)["victim_pod"] == "team-a/web"


@pytest.mark.parametrize(
    ("token", "fields", "status", "said"),
    [
        ("", PODS, 403, "only callers on this machine"),
        ("other", PODS, 403, "only callers on this machine"),
        ("busy", PODS, 503, "cannot review the token"),
        ("n2", PODS, 403, "the token is that of node 'n2', the pod team-b/hog is not on it"),
        ("n1", {**PODS, "culprit_pod": "team-b/far"}, 403, "the pod team-b/far is not on it"),
        ("n1", {"culprit": "b", "victim_pod": "team-a/web"}, 403, "culprit_pod must be given"),
        ("n1", {**PODS, "victim_pod": "team-a/gone"}, 422, "the pod team-a/gone is not known here"),
        ("n1", {"culprit_pod": "team-b/hog"}, 400, "either victim or victim_pod"),
        ("n1", {**PODS, "victim": "a"}, 400, "either victim or victim_pod"),
        ("n1", {**PODS, "confidence_permille": 1001}, 400, "1001"),
        ("n1", {**PODS, "more": 1}, 400, "more"),
        ("n1", {**PODS, "at_ms": "now"}, 400, "at_ms"),
    ],
)
def test_what_may_not_be_reported_is_refused_with_the_reason(
    token: str, fields: dict[str, object], status: int, said: str
) -> None:
    world = World()
    answered, answer, closes = world.report(token, **fields)
    assert (answered, closes) == (status, False)
    assert said in answer["error"]
    assert world.postings == []
    assert world.counted == {"failed" if status == 503 else "refused": 1}


def test_a_body_that_is_no_report_and_another_method_are_refused() -> None:
    world = World()
    assert world.report("n1", raw=b"{")[0] == 400
    assert world.report("n1", raw=b'{"key": "\xff"}')[0] == 400
    assert world.report("n1", raw=b"[" * 2_000)[0] == 400
    assert world.report("n1", method="GET")[0] == 405
    assert world.counted == {"refused": 4}


def test_without_reviews_a_token_is_worth_nothing() -> None:
    assert World(knows_nodes=False).report("n1", **PODS)[0] == 403


@pytest.mark.parametrize("pods", [{"culprit_pod": "kube-system/proxy"}, {"victim_pod": "kube-system/proxy"}])
def test_harm_by_or_to_a_pod_outside_all_tenants_is_not_booked(pods: dict[str, str]) -> None:
    world = World()
    assert world.report("n1", **{**PODS, **pods}) == (200, {"booked": False}, False)
    assert world.postings == []
    assert world.counted == {"nothing": 1}


def test_what_is_not_stored_is_to_be_sent_again_and_a_replica_that_does_not_lead_ends_the_connection() -> None:
    world = World(stored=False)
    assert world.report("n1", **PODS) == (503, {"error": "not stored: the disk is full"}, False)
    world.leads = False
    status, _, closes = world.report("n1", **PODS)
    assert (status, closes) == (503, True)
    world.leads = world.stored = True
    assert world.report("n1", **PODS)[0] == 201
    assert world.counted == {"failed": 2, "booked": 1}


def test_a_culprit_that_is_cleared_gets_back_what_it_paid() -> None:
    world = World()
    world.report("n1", **PODS)
    assert world.report("n1", **PODS, verdict="cleared") == (201, {"booked": True}, False)
    assert [posting.entries[0].cause for posting in world.postings][1] is not EntryCause.INTERFERED
    assert world.accounts.standing_of("b") == Accounts(DEFAULTS).standing_of("b")
    assert world.counted == {"booked": 1, "reversed": 1}


@pytest.mark.parametrize(("confidence", "verdict", "booked"), [(100, "attributed", False), (100, "proven", True)])
def test_only_what_is_certain_enough_costs(confidence: int, verdict: str, booked: bool) -> None:
    found = World().report("n1", **PODS, confidence_permille=confidence, verdict=verdict)
    assert found == (201 if booked else 200, {"booked": booked}, False)
