"""Handlers of watches: what they are given of a delivery, and what cannot be read."""

from __future__ import annotations

import pytest

from cotenant.drivers.kube.cache.cache import Changed, MalformedObject
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.kinds.namespace import Namespace
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.errors import InvalidInput
from cotenant.services.kube_process.watches import ObjectHandler, Watches


def named(name: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name))


def read(obj: Namespace) -> str:
    name = obj.metadata.name or ""
    if name.startswith("bad"):
        raise InvalidInput("name", name, "a good one")
    return name


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def watches() -> Watches:
    return Watches(Client(Access("http://127.0.0.1:1", FixedCredential(Credential(""))), qps=1.0, burst=1, in_flight=1))


def handler(said: list[str], *, keeps: bool = False) -> ObjectHandler[Namespace, str]:
    return ObjectHandler(
        read,
        lambda name: said.append(f"seen {name}"),
        lambda key: said.append(f"gone {key}"),
        (lambda key: said.append(f"unreadable {key}")) if keeps else None,
    )


def test_objects_come_one_by_one_in_order(watches: Watches, said: list[str]) -> None:
    watches.hand_on(
        handler(said),
        [Changed("Namespace", "a", None, named("a")), Changed("Namespace", "b", named("b"), None)],
    )
    assert said == ["seen a", "gone b"]
    assert watches.malformed == {}


def test_what_cannot_be_read_counts_as_gone_and_does_not_stop_the_others(
    watches: Watches, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    watches.hand_on(
        handler(said),
        [
            Changed("Namespace", "bad", None, named("bad")),
            MalformedObject("Namespace", "broken", "no JSON"),
            MalformedObject("Namespace", "", "no name either"),
            Changed("Namespace", "a", None, named("a")),
        ],
    )
    assert said == ["gone bad", "gone broken", "seen a"]
    assert watches.malformed == {"Namespace": 3}
    for words in ("Namespace bad is not used: name: bad", "broken cannot be read: no JSON", "without a name"):
        assert words in caplog.text


def test_a_handler_may_keep_what_it_last_read(watches: Watches, said: list[str]) -> None:
    watches.hand_on(
        handler(said, keeps=True),
        [Changed("Namespace", "bad", None, named("bad")), MalformedObject("Namespace", "broken", "no JSON")],
    )
    assert said == ["unreadable bad", "unreadable broken"]
