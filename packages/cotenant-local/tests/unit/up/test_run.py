"""What `cotenant up` says about its parts while it runs."""

from __future__ import annotations

import asyncio

import pytest

from cotenant_local.up.run import _report_troubles


def test_a_trouble_is_said_once_and_its_end_too() -> None:
    seen = [
        {},
        {"scheduler": "not leading: waits for the lease default/cotenant-scheduler, held by a"},
        {
            "scheduler": "not leading: waits for the lease default/cotenant-scheduler, held by b",
            "credit": "does not answer",
        },
        {"credit": "does not answer"},
        {},
    ]
    said: list[str] = []

    async def troubles() -> dict[str, str]:
        if not seen:
            raise EOFError
        return seen.pop(0)

    async def nothing(seconds: float) -> None:
        pass

    with pytest.raises(EOFError):
        asyncio.run(_report_troubles(troubles, said.append, nothing))
    assert said == [
        "scheduler: not leading: waits for the lease default/cotenant-scheduler, held by a",
        "credit: does not answer",
        "scheduler: as it should be again",
        "credit: as it should be again",
    ]
