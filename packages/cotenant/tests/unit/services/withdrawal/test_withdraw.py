"""Withdrawing, in its order: webhooks, then lending, then nodes are read until none offers anything."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cotenant.drivers.kube.client.errors import NotFound, Unavailable
from cotenant.model.errors import Permanent
from cotenant.model.resources import BATCH_CPU
from cotenant.services.withdrawal.withdrawing import withdraw


class Server:
    """`there`: objects by kind and name; `nodes`: answers to lists of nodes, the last again and again."""

    def __init__(self, *there: str, nodes: list[Any] | None = None) -> None:
        self.there = set(there)
        self.nodes: list[Any] = nodes or [{}]
        self.done: list[str] = []
        self.vanishes = False

    async def delete(self, kind: Any, namespace: str, name: str) -> None:
        key = f"{kind.plural} {namespace} {name}"
        if key not in self.there:
            raise NotFound(key)
        self.there.remove(key)
        self.done.append(key)

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        key = f"{kind.plural} {namespace} {name}"
        if key not in self.there:
            raise NotFound(key)
        if self.vanishes:
            self.there.remove(key)
        return SimpleNamespace(data={"colocation-config": "on"})

    async def request(self, method: str, path: str, query: Any) -> bytes:
        found = self.nodes.pop(0) if len(self.nodes) > 1 else self.nodes[0]
        if isinstance(found, Exception):
            raise found
        items = [{"metadata": {"name": name}, "status": {"allocatable": has}} for name, has in found.items()]
        return msgspec.json.encode({"items": items})


HOOKS = ("mutatingwebhookconfigurations  hook", "validatingwebhookconfigurations  hook")
CONFIG = "configmaps ns config"
LENDS = {BATCH_CPU: "1000"}


def carried_out(server: Server, webhooks: str, config: tuple[str, str] | None, within_s: float = 0.0) -> list[str]:
    said: list[str] = []
    asyncio.run(withdraw(cast(Any, server), webhooks, config, within_s, said.append, 0.0))
    return said


def test_webhooks_go_first_and_the_configuration_is_printed_before_it_goes() -> None:
    server = Server(*HOOKS, CONFIG)
    said = carried_out(server, "hook", ("ns", "config"))
    assert server.done == [*HOOKS, CONFIG]
    assert said[0] == "deleted MutatingWebhookConfiguration hook"
    assert said[1] == "deleted ValidatingWebhookConfiguration hook"
    assert said[2].startswith("the ConfigMap, should it be wanted again: {")
    assert '"colocation-config": "on"' in said[2]
    assert said[3:] == ["deleted ConfigMap ns/config", "no node offers batch or mid resources"]


def test_repeated_it_says_what_is_gone() -> None:
    server = Server()
    assert carried_out(server, "hook", ("ns", "config")) == [
        "there is no MutatingWebhookConfiguration hook",
        "there is no ValidatingWebhookConfiguration hook",
        "there is no ConfigMap ns/config",
        "no node offers batch or mid resources",
    ]
    assert server.done == []


def test_only_what_is_asked_for_is_withdrawn() -> None:
    server = Server(*HOOKS, CONFIG, nodes=[{"n": LENDS}])
    assert len(carried_out(server, "hook", None)) == 2
    assert server.done == list(HOOKS)
    other = Server(*HOOKS, CONFIG)
    carried_out(other, "", ("ns", "config"))
    assert other.done == [CONFIG]


def test_a_configuration_that_another_deleted_meanwhile_is_no_fault() -> None:
    server = Server(CONFIG)
    server.vanishes = True
    said = carried_out(server, "", ("ns", "config"))
    assert "deleted ConfigMap ns/config" not in said
    assert said[-1] == "no node offers batch or mid resources"


@pytest.mark.parametrize(("count", "named"), [(1, "(n0)"), (3, "(n0, n1, n2)"), (4, "(n0, n1, n2 and others)")])
def test_nodes_that_still_lend_are_named(count: int, named: str) -> None:
    server = Server(nodes=[{f"n{i}": LENDS for i in range(count)}])
    with pytest.raises(Permanent) as caught:
        carried_out(server, "", ("ns", "config"))
    assert str(caught.value).startswith(f"{count} nodes still offer batch or mid resources after 0 s {named}: ")


def test_a_server_that_is_away_is_waited_for_within_the_time() -> None:
    server = Server(nodes=[Unavailable("away")])
    with pytest.raises(Unavailable):
        carried_out(server, "", ("ns", "config"))
    back = Server(nodes=[Unavailable("away"), {}])
    assert carried_out(back, "", ("ns", "config"), within_s=600.0)[-1] == "no node offers batch or mid resources"
