"""What a zone's log says at its start of what this kernel does not have."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.unit.services.zones.test_runner import MemoryKeeper

from cotenant.model.errors import CotenantError, Unsupported
from cotenant.services.zones import opening
from cotenant.services.zones.definition import BackendChoice, ZoneDefinition
from cotenant.services.zones.groups import GroupClass, ZoneGroup
from cotenant.services.zones.opening import ZoneSupport, opened, this_host

LACKS = "a scheduler for one cgroup is not supported here: it needs Linux 7.3 or later (this is 6.18.15)"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> ZoneSupport:
    def no_probe(layout: object, warn: object) -> None:
        """It would be loaded into this machine's kernel."""

    monkeypatch.setattr(opening, "_wait_counter", no_probe)
    try:
        return replace(this_host(), root=False, sub=False, lacks=LACKS)
    except CotenantError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("backend", "said"), [(BackendChoice.AUTO, [LACKS]), (BackendChoice.WEIGHTS, [])])
def test_auto_says_what_it_passes_over(host: ZoneSupport, backend: BackendChoice, said: list[str]) -> None:
    definition = ZoneDefinition("shop", (ZoneGroup("web", GroupClass.SERVICE),), backend=backend)
    log: list[str] = []

    async def main() -> None:
        async with opened(definition, host, MemoryKeeper(), None, lambda change: None, log.append, lambda line: None):
            pass

    asyncio.run(main())
    assert log == said


def test_what_the_kernel_lacks_is_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_state() -> None:
        raise Unsupported("a kernel scheduler of its own", "Linux 6.12")

    monkeypatch.setattr(opening.sched_ext, "read_state", read_state)
    try:
        found = this_host()
    except CotenantError as error:
        pytest.skip(str(error))
    assert found.lacks == "a kernel scheduler of its own is not supported here: it needs Linux 6.12"
