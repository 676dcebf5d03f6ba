"""Processes of a local cluster: how long one is waited for that is not ready."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cotenant.drivers.http.ports import hold_port
from cotenant.model.errors import Transient
from cotenant_local.up.children import SLOWLY, Child, ChildSpec


@pytest.mark.parametrize("restarts", [0, 2])
def test_one_that_has_ended_meanwhile_is_given_up_soon_and_one_that_still_starts_is_not(
    tmp_path: Path, restarts: int
) -> None:
    held = hold_port()  # nobody listens there
    child = Child(ChildSpec("scheduler", (), tmp_path / "log", held.port))
    child.restarts = restarts
    (tmp_path / "log").write_text("its last words\n")

    async def waited_s() -> float:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        with pytest.raises(Transient, match="scheduler is not ready after"):
            await child.ready(0.05)
        return loop.time() - began_s

    took_s = asyncio.run(waited_s())
    assert took_s >= 0.05 * (1.0 if restarts else SLOWLY) - 0.01
    held.close()
