"""The CA bundle goes where it is missing, once; configurations are registered once, whatever the server says first."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.fakes.servers.told_watches import nobody

from cotenant.drivers.kube.client.client import JSON_PATCH, MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound, Unavailable
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.webhook_configuration import MUTATING, VALIDATING
from cotenant.services.webhook.injection import Injector
from cotenant.services.webhook.webhook_arguments import NAME

OURS, OTHER = (base64.b64encode(text).decode() for text in (b"ours", b"other"))


class Stored(Client):
    """A server of webhook configurations. `bundles`: those of the webhooks of each kind; `fails`: how many of the
    next requests have no answer; `rounds`: looks after which it is over.
    """

    def __init__(self, bundles: dict[str, list[str | None]], fails: int = 0, rounds: int = 99) -> None:
        absent = nobody()
        super().__init__(absent.access, qps=1.0, burst=1, in_flight=1)
        self.bundles = bundles
        self.sent: list[tuple[str, str]] = []
        self._fails = fails
        self._rounds = rounds

    async def get(self, kind: Kind[Any], namespace: str, name: str) -> Any:
        self._answer("get", kind, name)
        if kind.name not in self.bundles:
            raise NotFound("no such object")
        webhooks = [
            {"name": f"w{at}", "clientConfig": {} if bundle is None else {"caBundle": bundle}}
            for at, bundle in enumerate(self.bundles[kind.name])
        ]
        return msgspec.json.decode(json.dumps({"webhooks": webhooks}), type=kind.form)

    async def create(self, kind: Kind[Any], namespace: str, obj: Any, *, subresource: str = "", name: str = "") -> Any:
        self._answer("create", kind, NAME)
        if kind.name in self.bundles:
            raise AlreadyExists("it exists")
        self._keep(kind, obj)

    async def patch(
        self,
        kind: Kind[Any],
        namespace: str,
        name: str,
        patch: Any,
        *,
        content_type: str = MERGE_PATCH,
        subresource: str = "",
    ) -> Any:
        self._answer("patch", kind, name)
        if content_type == MERGE_PATCH:
            self._keep(kind, patch)
            return
        assert content_type == JSON_PATCH
        for test, add in zip(*[iter(json.loads(patch))] * 2, strict=True):
            at = int(test["path"].split("/")[2])
            assert test == {"op": "test", "path": f"/webhooks/{at}/name", "value": f"w{at}"}
            assert (add["op"], add["path"]) == ("add", f"/webhooks/{at}/clientConfig/caBundle")
            self.bundles[kind.name][at] = add["value"]

    def _keep(self, kind: Kind[Any], configuration: Any) -> None:
        self.bundles[kind.name] = [webhook["clientConfig"]["caBundle"] for webhook in configuration["webhooks"]]

    def _answer(self, what: str, kind: Kind[Any], name: str) -> None:
        assert name == NAME
        if what == "get" and kind is MUTATING:
            self._rounds -= 1
            if self._rounds < 0:
                raise asyncio.CancelledError
        self.sent.append((what, kind.name.removesuffix("WebhookConfiguration")))
        if self._fails:
            self._fails -= 1
            raise Unavailable("no answer")


def wanted(encoded: str) -> Sequence[tuple[Kind[Any], dict[str, Any]]]:
    configuration = {"webhooks": [{"name": "w0", "clientConfig": {"caBundle": encoded}}]}
    return ((MUTATING, configuration), (VALIDATING, configuration))


def both(*bundles: str | None) -> dict[str, list[str | None]]:
    return {kind.name: list(bundles) for kind in (MUTATING, VALIDATING)}


@pytest.mark.parametrize(
    ("before", "written"),
    [
        (both(OURS, OURS), 0),
        (both(OURS, None, OTHER), 2),
        (both(None), 2),
        (both(), 0),
        ({MUTATING.name: [OTHER], VALIDATING.name: [OURS]}, 1),
        ({MUTATING.name: [OURS], VALIDATING.name: [OURS, ""]}, 1),
    ],
)
def test_the_bundle_is_written_where_it_is_missing_and_nowhere_else(
    before: dict[str, list[str | None]], written: int
) -> None:
    server = Stored({name: list(bundles) for name, bundles in before.items()})
    injector = Injector(server, lambda: "ours")
    for _ in range(2):
        asyncio.run(injector.inject())
    assert server.bundles == {name: [OURS] * len(bundles) for name, bundles in before.items()}
    assert injector.results == {"written": written, "failed": 0, "absent": 0}
    assert len([what for what, _ in server.sent if what == "patch"]) == written


def test_a_configuration_that_is_not_there_is_counted_each_time_it_goes_and_hinders_no_other() -> None:
    server = Stored({VALIDATING.name: [None]})
    injector = Injector(server, lambda: "ours")
    for _ in range(3):
        asyncio.run(injector.inject())
    assert (server.bundles, injector.results["absent"]) == ({VALIDATING.name: [OURS]}, 1)
    server.bundles[MUTATING.name] = [None]
    asyncio.run(injector.inject())
    assert server.bundles == both(OURS)
    del server.bundles[MUTATING.name]
    asyncio.run(injector.inject())
    assert injector.results == {"written": 2, "failed": 0, "absent": 2}


@pytest.mark.parametrize("before", [{}, both(OTHER, OTHER), {VALIDATING.name: []}])
@pytest.mark.parametrize("fails", [0, 1, 2])
def test_configurations_are_registered_once_after_as_many_failures_as_come(
    before: dict[str, list[str | None]], fails: int
) -> None:
    server = Stored(dict(before), fails, rounds=3)
    injector = Injector(server, lambda: "ours", wanted, every_s=0.0)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(injector.run())
    assert server.bundles == both(OURS)
    assert injector.results == {"written": 0, "failed": fails, "absent": 0}
    creations = [kind for what, kind in server.sent if what == "create"]
    assert creations == ["Mutating"] * (fails + 1) + ["Validating"]
    patches = [kind for what, kind in server.sent if what == "patch"]
    assert patches == [
        kind.name.removesuffix("WebhookConfiguration") for kind in (MUTATING, VALIDATING) if kind.name in before
    ]


def test_without_configurations_to_make_it_writes_bundles_alone() -> None:
    server = Stored(both(None), fails=1, rounds=3)
    injector = Injector(server, lambda: "ours", every_s=0.0)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(injector.run())
    assert (server.bundles, injector.results) == (both(OURS), {"written": 2, "failed": 1, "absent": 0})
    assert {what for what, _ in server.sent} == {"get", "patch"}
