"""Which nodes still lend, and what is said while they do."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound, Unavailable
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.model.errors import Permanent
from cotenant.services.withdrawal.withdrawing import _wait, offering, withdraw


def node(name: str, **amounts: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": amounts}}


class Pages:
    """Answers with pages of nodes, or raises; the last one is repeated."""

    def __init__(self, *answers: list[dict[str, Any]] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []

    async def request(self, method: str, path: str, query: dict[str, str]) -> bytes:
        self.asked.append(query)
        more = len(self.answers) > 1
        found = self.answers.pop(0) if more else self.answers[0]
        if isinstance(found, Exception):
            raise found
        token = f"page-{len(self.asked)}" if more else ""
        return json.dumps({"metadata": {"continue": token}, "items": found}).encode()


BATCH, MID = "kubernetes.io/batch-cpu", "kubernetes.io/mid-memory"


def test_a_node_lends_while_any_such_resource_is_above_nought_on_whatever_page() -> None:
    pages = Pages(
        [node("a", **{BATCH: "1000", "cpu": "4"}), node("b", cpu="4"), node("c", **{BATCH: "0", MID: "0"})],
        [node("d", **{BATCH: "0", MID: "1Gi"}), {"metadata": {"name": "e"}}],
    )
    assert asyncio.run(offering(cast(Client, pages))) == ["a", "d"]
    assert [entry.get("continue") for entry in pages.asked] == [None, "page-1"]


@pytest.mark.parametrize(
    ("count", "named"),
    [(1, "(n0)"), (3, "(n0, n1, n2)"), (4, "(n0, n1, n2 and others)"), (9, "(n0, n1, n2 and others)")],
)
def test_when_the_time_is_over_some_of_the_nodes_are_named(count: int, named: str) -> None:
    pages = Pages([node(f"n{i}", **{BATCH: "1"}) for i in range(count)])
    with pytest.raises(Permanent) as caught:
        asyncio.run(_wait(cast(Client, pages), 0.0, print))
    assert f"{count} nodes still offer" in str(caught.value)
    assert named in str(caught.value)


def test_it_ends_where_nobody_lends_and_fails_where_nobody_answers() -> None:
    said: list[str] = []
    asyncio.run(_wait(cast(Client, Pages([node("a")])), 0.0, said.append))
    assert said == ["no node offers batch or mid resources"]
    with pytest.raises(Unavailable):
        asyncio.run(_wait(cast(Client, Pages(Unavailable("away"))), 0.0, said.append))


class Stored(Pages):
    """A cluster with one of the two webhook configurations, and perhaps a ConfigMap; no node lends."""

    def __init__(self, *config_maps: str) -> None:
        super().__init__([node("a", **{BATCH: ""})])
        self.there = {"MutatingWebhookConfiguration/hooks", *(f"ConfigMap/{name}" for name in config_maps)}
        self.deleted: list[str] = []

    async def get(self, kind: Kind[Any], namespace: str, name: str) -> Any:
        if f"{kind.name}/{name}" not in self.there:
            raise NotFound(name)
        return SimpleNamespace(data={"key": "value"})

    async def delete(self, kind: Kind[Any], namespace: str, name: str) -> None:
        if f"{kind.name}/{name}" not in self.there:
            raise NotFound(name)
        self.deleted.append(f"{kind.name}/{namespace}/{name}")


def withdrawn(stored: Stored, webhooks: str, config: tuple[str, str] | None) -> list[str]:
    said: list[str] = []
    asyncio.run(withdraw(cast(Client, stored), webhooks, config, 0.0, said.append, 0.0))
    return said


def test_webhooks_go_first_and_then_the_config_map_whose_text_is_kept() -> None:
    stored = Stored("settings")
    said = withdrawn(stored, "hooks", ("system", "settings"))
    assert stored.deleted == ["MutatingWebhookConfiguration//hooks", "ConfigMap/system/settings"]
    kept = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "system", "name": "settings"},
        "data": {"key": "value"},
    }
    assert said == [
        "deleted MutatingWebhookConfiguration hooks",
        "there is no ValidatingWebhookConfiguration hooks",
        f"the ConfigMap, should it be wanted again: {json.dumps(kept)}",
        "deleted ConfigMap system/settings",
        "no node offers batch or mid resources",
    ]


def test_what_is_not_named_stays_and_is_not_waited_for() -> None:
    stored = Stored("settings")
    assert withdrawn(stored, "", None) == []
    assert (stored.deleted, stored.asked) == ([], [])
    assert withdrawn(stored, "hooks", None)[0] == "deleted MutatingWebhookConfiguration hooks"
    assert stored.asked == []


def test_a_config_map_that_is_gone_already_is_said_and_nodes_are_waited_for() -> None:
    stored = Stored()
    assert withdrawn(stored, "", ("system", "settings")) == [
        "there is no ConfigMap system/settings",
        "no node offers batch or mid resources",
    ]
    assert stored.asked == [{"limit": "500"}]


@pytest.mark.parametrize(
    "name", ["kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "kubernetes.io/mid-cpu", MID]
)
def test_each_lent_resource_counts(name: str) -> None:
    assert asyncio.run(offering(cast(Client, Pages([node("a", **{name: "1"}), node("b", **{name: "0"})])))) == ["a"]
