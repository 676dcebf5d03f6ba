"""A cluster under a guid: operators call its methods, each by a right of its own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.shop_cluster import ShopCluster, ShopMachines
from tests.fakes.servers.fleet_world import FleetWorld
from tests.fakes.waiting import soon

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.methods import Call, Called, MethodList, Methods
from cotenant.model.fleet.refusal import FleetForbidden, NoSuchGuid
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry, ProgramEntry
from cotenant.model.vms.machine import Machine, MachineSize, MachineState
from cotenant.services.changes.book import ChangeBook
from cotenant.services.fleet.cluster_main import ServedCluster
from cotenant.services.fleet.programs.program import Program

RIGHTS = FleetFile(
    (HostEntry("agent-a"),),
    (
        FleetOperator("alice", ("call", "methods")),
        FleetOperator("bob", ("call:app-list", "call:app-stop", "call:change")),
        FleetOperator("carol", ("call:app-list",), ("test",)),
    ),
    programs=(ProgramEntry("prod-1", ("prod",)),),
)
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def test_a_cluster_is_asked_and_changed_by_its_guid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HELM", raising=False)
    db = Machine("shop", "db", "u", MachineState.RUNNING, MachineSize(2, 2048), "node-1", "i")

    async def play() -> None:
        stop, book = asyncio.Event(), ChangeBook()
        program = Program("cotenant-cluster", "1", guid="prod-1")
        ServedCluster(ShopCluster(folder=tmp_path, vms=ShopMachines(db)), book).register(program)
        async with FleetWorld(tmp_path, rights=RIGHTS) as world:
            serving = asyncio.create_task(program.serve(world.bus, stop))

            async def asked(method: str, operator: str = "alice", **arguments: object) -> Any:
                given = msgspec.Raw(json.dumps(arguments).encode())
                called = await world.ask("call", Call("prod-1", method, given), Called, operator)
                assert isinstance(called, Called)
                return json.loads(bytes(called.result))

            async def done(report: Any, operator: str = "alice") -> Any:
                while not report["is_done"]:
                    report = await asked("change", operator, id=report["id"], wait_s=1)
                return report

            async def there() -> bool:
                try:
                    return bool(await world.ask("methods", Methods("prod-1"), MethodList, "alice"))
                except NoSuchGuid:
                    return False

            await soon("the program answers", there)
            installed = await done(await asked("app-install", name="web", manifests=CONFIG))
            assert (installed["failure"], installed["lines"][-1]) == ("", "web installed")
            assert [one["name"] for one in await asked("app-list", "bob")] == ["web"]
            assert (await asked("app-show", name="web"))["objects"][0]["name"] == "a"
            with pytest.raises(InvalidInput, match=r"chart: /etc/passwd: expected oci://"):
                await asked("app-install", name="other", chart="/etc/passwd")
            assert (await done(await asked("app-stop", "bob", name="web"), "bob"))["failure"] == ""
            for operator, method in (("bob", "app-install"), ("bob", "vm-list"), ("carol", "app-list")):
                with pytest.raises(FleetForbidden, match=f"{operator} may not call:{method}"):
                    await asked(method, operator)
            assert (await asked("vm-list"))[0]["node"] == "node-1"
            moved = await done(await asked("vm-migrate", name="db", namespace="shop"))
            assert moved["lines"] == ["shop/db is running on node-2"]
            paused = await done(await asked("vm-pause", name="db", namespace="shop"))
            assert paused["lines"] == ["shop/db is paused on node-2"]
            stop.set()
            await serving

    asyncio.run(play())


def test_a_right_to_one_method_names_a_method() -> None:
    with pytest.raises(InvalidInput, match=r"operators\.x\.verbs.*call:METHOD"):
        FleetOperator("x", ("calls",))
    with pytest.raises(InvalidInput, match="method"):
        FleetOperator("x", ("call:",))
