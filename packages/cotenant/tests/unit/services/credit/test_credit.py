"""Facts of a cluster, booking over a journal that fails, pages, and the output of the commands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.cluster.quota_world import pod, quota
from tests.fakes.processes.credit_postings import post_all

from cotenant.cli.cluster import credit_showing
from cotenant.cli.main import main
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.errors import Transient
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.policy.credit.bounds import DEFAULTS
from cotenant.policy.credit.pricing import HOUR_MS, Interference, PeriodUse
from cotenant.services.credit.facts import FRESH_S, ClusterFacts
from cotenant.services.routes import CallerGuard

pytest.importorskip("sqlalchemy", reason="the extra `credit` is not installed")

from cotenant.drivers.journal.journal import Journal
from cotenant.policy.credit.entries import EntryCause
from cotenant.services.credit.booking import Booking
from cotenant.services.credit.incidents import IncidentEndpoint
from cotenant.services.credit.opening import open_journal
from cotenant.services.credit.pages import CreditPages

NOW_MS = 10 * HOUR_MS


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(f"sqlite:///{tmp_path / 'credit.db'}")
    yield made
    made.close()


# ---- facts


def running(name: str, cores: int, of: str) -> ObservedPod:
    return pod(name, cores, of, on="n")


def test_running_pods_count_for_their_quota_until_they_end() -> None:
    facts = ClusterFacts(lambda: 0.0)
    facts.quota_seen(quota("a", 10, 100))
    facts.quota_seen(quota("b", 5, 100))
    facts.pod_seen(running("one", 3, "a"))
    facts.pod_seen(running("two", 4, "a"))
    facts.pod_seen(pod("waiting", 9, "a"))
    facts.pod_seen(running("other", 2, "unknown"))
    assert facts.uses() == (PeriodUse("a", 10_000, 7_000), PeriodUse("b", 5_000, 0, 0))
    facts.pod_gone("work/two")
    assert facts.uses()[0].declared == 3_000
    facts.quota_gone("quotas/b")
    assert [use.tenant for use in facts.uses()] == ["a"]


def test_a_parent_is_no_tenant() -> None:
    facts = ClusterFacts(lambda: 0.0)
    facts.quota_seen(quota("all", 10, 100, is_parent=True))
    facts.quota_seen(quota("a", 10, 100, "all"))
    assert list(facts.quotas()) == ["a"]


def test_use_is_measured_where_every_pod_has_a_recent_measurement() -> None:
    now = [0.0]
    facts = ClusterFacts(lambda: now[0])
    facts.quota_seen(quota("a", 10, 100))
    facts.pod_seen(running("one", 3, "a"))
    facts.pod_seen(running("two", 4, "a"))
    metric = NodeMetric("n", 0.0, pods={"work/one": MeasuredPod(Use(1500, 0))})
    facts.metric_seen(metric)
    assert facts.uses()[0].measured is None
    facts.metric_seen(replace(metric, pods={**(metric.pods or {}), "work/two": MeasuredPod(Use(500, 0))}))
    assert facts.uses()[0].measured == 2000
    now[0] = FRESH_S + 1
    assert facts.uses()[0].measured is None


# ---- booking


class LosingJournal(Journal):
    """Stores the first posting and loses the answer."""

    has_lost = False

    def post(self, *given: Any) -> None:
        super().post(*given)
        if not self.has_lost:
            self.has_lost = True
            raise Transient("the answer is lost")


def test_a_lost_answer_of_the_database_books_nothing_twice(tmp_path: Path) -> None:
    journal = LosingJournal(f"sqlite:///{tmp_path / 'credit.db'}")
    booking = Booking(journal, DEFAULTS, lambda: NOW_MS)

    async def scenario() -> None:
        uses = [PeriodUse("a", 10_000, 0), PeriodUse("b", 0, 4_000)]
        with pytest.raises(Transient):
            await booking.book(lambda accounts: accounts.period_ended(1, NOW_MS, HOUR_MS, uses))
        assert booking.failures == 1
        assert await booking.book(lambda accounts: accounts.period_ended(1, NOW_MS, HOUR_MS, uses)) is None
        assert await booking.book(lambda accounts: accounts.period_ended(2, NOW_MS, HOUR_MS, uses)) is not None

    asyncio.run(scenario())
    journal.validate()
    assert sum(1 for record in journal.records() if record.cause == "lent") == 2
    journal.close()


def test_of_two_replicas_each_period_is_booked_once(journal: Journal) -> None:
    one, two = (Booking(journal, DEFAULTS, lambda: NOW_MS) for _ in range(2))
    uses = [PeriodUse("a", 10_000, 0), PeriodUse("b", 0, 4_000)]

    async def scenario() -> None:
        for period in (1, 2, 3):
            for booking in (one, two, one):
                await booking.book(lambda accounts, p=period: accounts.period_ended(p, NOW_MS, HOUR_MS, uses))  # type: ignore[misc]

    asyncio.run(scenario())
    journal.validate()
    assert journal.contents().revision == 3


# ---- pages


def ask(pages: CreditPages, method: str, path: str, body: object = None, client: str = "127.0.0.1") -> tuple[int, Any]:
    sent: list[dict[str, Any]] = []
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "client": (client, 5),
    }

    async def receive() -> dict[str, Any]:
        return {
            "type": "http.request",
            "body": body if isinstance(body, bytes) else json.dumps(body).encode(),
            "more_body": False,
        }

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(pages(scope, receive, send))
    text = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(text) if text[:1] in (b"{", b"[") else text.decode()


def test_incidents_are_stored_once_and_explained(journal: Journal) -> None:
    booking = Booking(journal, DEFAULTS, lambda: NOW_MS)
    leads = [True]
    guard = CallerGuard(None, lambda: 0.0)
    incidents = IncidentEndpoint(booking.book, lambda: leads[0], guard, lambda: NOW_MS)
    pages = CreditPages(journal, lambda: booking.accounts, guard, incidents)
    incident = {
        "key": "n1-7",
        "at_ms": NOW_MS,
        "culprit": "b",
        "victim": "a",
        "harm_milli_core_hours": 1000,
        "confidence_permille": 900,
        "objective_missed": True,
        "evidence": {"node": "n1"},
    }
    assert ask(pages, "POST", "/credit/v1/incidents", incident) == (201, {"booked": True})
    assert ask(pages, "POST", "/credit/v1/incidents", incident) == (200, {"booked": False})
    assert ask(pages, "POST", "/credit/v1/incidents", {**incident, "culprit": ""})[0] == 400
    assert ask(pages, "POST", "/credit/v1/incidents", {"key": "x"})[0] == 400
    assert ask(pages, "POST", "/credit/v1/incidents", b'{"key": "\xff"}')[0] == 400
    for bad in ("x" * 201, "a/b", "a\x00"):
        assert ask(pages, "POST", "/credit/v1/incidents", {**incident, "key": bad})[0] == 400
    assert ask(pages, "POST", "/credit/v1/incidents", incident, client="10.0.0.9")[0] == 403
    leads[0] = False
    assert ask(pages, "POST", "/credit/v1/incidents", {**incident, "key": "n1-8"})[0] == 503
    status, tenants = ask(pages, "GET", "/credit/v1/tenants")
    assert (status, [(tenant["tenant"], tenant["balance_milli"]) for tenant in tenants]) == (
        200,
        [("a", 900), ("b", -900)],
    )
    assert ask(pages, "GET", "/credit/v1/tenants", client="10.0.0.9")[0] == 403
    status, one = ask(pages, "GET", "/credit/v1/entries/1")
    assert status == 200
    assert one["evidence"] == {"victim": "a", "harm_milli_core_hours": 1000, "confidence_permille": 900, "node": "n1"}
    assert ask(pages, "GET", "/credit/v1/entries/2")[0] == 404
    assert ask(pages, "GET", "/credit/v1/tenants/none")[0] == 404
    assert len(ask(pages, "GET", "/credit/v1/tenants/a?limit=1")[1]["entries"]) == 1
    assert len(ask(pages, "GET", "/credit/v1/entries?after=0")[1]) == 1
    leads[0] = True
    assert ask(pages, "POST", "/credit/v1/incidents", {**incident, "key": "n1-8"})[0] == 201
    pages_of = [ask(pages, "GET", f"/credit/v1/entries?limit=1{more}")[1][0]["number"] for more in ("", "&newest=1")]
    assert pages_of == [1, 2]


# ---- commands


def test_every_cause_and_every_figure_of_the_pricing_is_said_in_words(tmp_path: Path) -> None:
    causes, names = set(), set()
    made = open_journal(str(tmp_path / "all.db"), migrates=True)
    post_all(made)
    for record in made.records(limit=1000):
        causes.add(record.cause)
        names |= {name for name, value in record.evidence if isinstance(value, int)}
    made.close()
    assert causes
    assert set(EntryCause) == set(credit_showing._MEANS)
    for name in names:
        said, value = credit_showing.figure_text(name, 3000)
        assert "_" not in said
        assert name == "seconds" or " " in value
    assert credit_showing.figure_text("borrowed_milli_cpu", 2500) == ("borrowed", "2.5 cores")
    assert credit_showing.figure_text("idle_bytes", 3 << 29) == ("idle", "1.5 GiB")
    assert credit_showing.figure_text("victim", "a") == ("victim", "a")


def test_the_commands_show_what_was_booked(
    journal: Journal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    booking = Booking(journal, DEFAULTS, lambda: NOW_MS)
    fact = Interference("n1-7", NOW_MS, "b", "a", 1000, 900, True)
    asyncio.run(booking.book(lambda accounts: accounts.interfered(fact, NOW_MS)))
    store = str(tmp_path / "credit.db")
    assert main(["credit", "list", "--store", store]) == 0
    assert "all accounts together are 0.000" in capsys.readouterr().out
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\notherwise: {cpuPerHour: 0.1, memoryGiBPerHour: 0.01}\n")
    assert main(["credit", "list", "--store", store, "--prices", str(prices)]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "tenant balance, credits worth, EUR" in words
    assert "a 0.900 0.09" in words
    assert main(["credit", "list", "--store", store, "--prices", str(prices), "--json"]) == 0
    worth = {row["account"]: row["balance_money"] for row in json.loads(capsys.readouterr().out)}
    assert sorted(worth.values()) == [-0.09, 0.09]
    prices.write_text("nodes: [{instanceType: m5.large, perHour: 0.1}]\n")
    assert main(["credit", "list", "--store", store, "--prices", str(prices)]) == 2
    assert "otherwise: with cpuPerHour" in capsys.readouterr().err
    assert main(["credit", "list", "--store", store, "--prices", str(tmp_path / "none")]) == 2
    assert "--prices" in capsys.readouterr().err
    assert main(["credit", "show", "a", "--store", store]) == 0
    assert "a: 0.900 credits" in capsys.readouterr().out
    assert main(["credit", "why", "incident/n1-7", "--store", store]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "b paid 0.900 credits to a: its pod slowed one of the other tenant, which missed its objective." in words
    assert "harm 1 core-hours" in words
    assert "confidence 90 %" in words
    assert main(["credit", "export", "--store", store]) == 0
    assert json.loads(capsys.readouterr().out)["milli"] == 900
    assert main(["credit", "show", "c", "--store", store]) == 2
    assert "there are: a, b" in capsys.readouterr().err
    assert main(["credit", "why", "77", "--store", store]) == 2
    assert main(["credit", "list", "--store", str(tmp_path / "none.db")]) == 2
