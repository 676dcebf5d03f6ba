"""docs/recipes/program.md: its program, as the page has it, is found and called over the embedded bus."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from tests.fakes.waiting import soon
from tests.unit.contributing.recipes import blocks

from cotenant.drivers.nats.memory import MemoryBus
from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.methods import MethodList, Methods
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.services.fleet.rpc import call

PAGE = (Path(__file__).parents[3] / "docs/recipes/program.md").read_text()


@pytest.fixture
def heating(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (block,) = blocks(PAGE)
    block.apply(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COTENANT_GUID", "heating-1")
    yield importlib.import_module("heating")
    sys.modules.pop("heating", None)


def test_the_program_is_found_and_called(heating: ModuleType) -> None:
    async def play() -> None:
        bus, stop = MemoryBus(), asyncio.Event()
        serving = asyncio.create_task(heating.program.serve(bus, stop))
        prefix = "guid.heating-1.rpc"

        async def there() -> bool:
            try:
                return bool(await call(bus, f"{prefix}.methods", Methods(), MethodList))
            except NoSuchGuid:
                return False

        await soon("it answers", there)
        listed = await call(bus, f"{prefix}.methods", Methods(), MethodList)
        assert [(found.name, found.result) for found in listed.methods] == [
            ("warm", "Target"),
            ("list", "list[heating.Target]"),
        ]
        await call(bus, f"{prefix}.warm", {"celsius": "21.5"}, msgspec.Raw)
        with pytest.raises(InvalidInput, match="room: attic: expected one of hall"):
            await call(bus, f"{prefix}.warm", {"celsius": 1, "room": "attic"}, msgspec.Raw)
        found = await call(bus, f"{prefix}.list", {}, msgspec.Raw)
        assert json.loads(bytes(found)) == [{"room": "hall", "celsius": 21.5}]
        stop.set()
        await serving
        await bus.close()

    asyncio.run(play())
