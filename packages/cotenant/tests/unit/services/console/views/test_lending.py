"""The answer about pools that lend: from the objects, with what their days lead to."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.acting_objects import lending_pool

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.pool_lending import PoolLendingObject, read_pool_lending
from cotenant.services.console.views.lending import LendingPools


def asked(found: LendingPools, *names: str) -> Any:
    """As the page gets it."""
    return msgspec.json.decode(msgspec.json.encode(asyncio.run(found.answer(names, {}))))


def test_pools_are_listed_by_name_with_their_days_and_what_they_earned() -> None:
    found = LendingPools()
    for name in ("cluster", "big"):
        found.seen(read_pool_lending(msgspec.convert(lending_pool(name), PoolLendingObject)))
    big, cluster = asked(found)
    assert (big["pool"], cluster["pool"]) == ("big", "cluster")
    assert (cluster["state"], cluster["rung"], cluster["suggestion"]["cpu_m"]) == ("lent", "approve", 80_000)
    assert (cluster["earned"], cluster["hits"], cluster["trials"]) == ("suggest", 1, 2)
    first, second = cluster["days"]
    assert (first["cpu_m"], first["memory_bytes"], first["is_lent"]) == (40_000, 64 << 30, True)
    assert (second["outcome"], second["is_lent"]) == ("exceeded", False)
    found.gone("big")
    assert [pool["pool"] for pool in asked(found)] == ["cluster"]


def test_there_are_no_pages_below() -> None:
    with pytest.raises(NotFound):
        asked(LendingPools(), "cluster")
