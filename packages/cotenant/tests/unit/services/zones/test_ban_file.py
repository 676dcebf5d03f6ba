"""What hurt a zone outlives its keeper, and a file of it that cannot be is not used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.services.zones.test_host import SHOP, make, until
from tests.unit.services.zones.test_scene_file import DEFINITION, SCENE

from cotenant.model.zones.setting import Backend, ZoneMode, ZoneSetting
from cotenant.services.zones.ban_file import MAX_BYTES, KeptBans
from cotenant.services.zones.definition import ZoneDefinition
from cotenant.services.zones.log_file import read_log
from cotenant.services.zones.state_file import read_state

LATENCY, THROUGHPUT = (ZoneSetting(Backend.ROOT, mode) for mode in (ZoneMode.LATENCY, ZoneMode.THROUGHPUT))


def written(folder: Path, definition: ZoneDefinition = DEFINITION) -> Path:
    """The file of a zone in which latency was ejected and throughput hurt in a scene, 40 s ago."""
    zone = definition.machine(root=True)
    file = KeptBans(folder, definition, zone, lambda text: None, lambda: 5000.0, lambda: 10.0)
    zone.bans.add(10.0, LATENCY, None)
    zone.bans.add(10.0, THROUGHPUT, SCENE)
    file.save()
    return folder / "shop.bans"


def opened(folder: Path, definition: ZoneDefinition = DEFINITION) -> tuple[dict[ZoneSetting, float], list[str]]:
    """What the next process does not try in the scene, and its log."""
    zone, log = definition.machine(root=True), list[str]()
    KeptBans(folder, definition, zone, log.append, lambda: 5040.0, lambda: 3.0)
    return zone.bans.left_s(3.0, SCENE), log


def test_the_next_process_does_not_try_what_hurt(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert path.stat().st_size < MAX_BYTES
    left, log = opened(tmp_path)
    assert left == {LATENCY: 260.0, THROUGHPUT: 260.0}
    assert log == ["bans: 2 of an earlier process are kept"]
    other = replace(DEFINITION, groups=(replace(DEFINITION.groups[0], late_ms=50), DEFINITION.groups[1]))
    left, log = opened(tmp_path, other)
    assert not left
    assert "its groups were changed" in log[0]


def changed(**values: object) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        stored: dict[str, Any] = json.loads(path.read_text())
        stored["bans"][1].update(values)
        path.write_text(json.dumps(stored))

    return write


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (lambda path: path.write_text(path.read_text()[:40]), "what a keeper wrote"),
        (lambda path: path.write_text("[" * 60_000), "what a keeper wrote"),
        (lambda path: path.write_text(" " * (MAX_BYTES + 1)), "what a keeper wrote"),
        (lambda path: (path.unlink(), path.mkdir()), "a file that can be read"),
        (changed(setting="root/fast"), "bans[1].setting"),
        (changed(setting=None), "bans[1].setting"),
        (changed(made=float("nan")), "bans[1].made"),
        (changed(made="now"), "bans[1].made"),
        (changed(until=0), "bans[1].until"),
        (changed(until=1e11), "bans[1].until"),
        (changed(number=0), "bans[1].number"),
        (changed(number=True), "bans[1].number"),
        (changed(scene=7), "bans[1].scene"),
        (changed(scene={"services": "busy"}), "bans[1].scene.services"),
    ],
)
def test_a_file_that_cannot_be_is_a_line_in_the_log(
    tmp_path: Path, breaks: Callable[[Path], object], said: str
) -> None:
    breaks(written(tmp_path))
    left, log = opened(tmp_path)
    assert not left
    assert len(log) == 1
    assert log[0].startswith("settings that hurt are not known any more: ")
    assert said in log[0]


def test_a_restart_of_the_keeper_keeps_them(tmp_path: Path) -> None:
    async def main() -> None:
        first = make(tmp_path)
        await first.create(SHOP, "shop.yaml")
        running = first._zones["shop"]
        assert running.runner is not None
        running.runner.zone.bans.add(running.runner.clock(), LATENCY, None)
        await until(lambda: (tmp_path / "shop.bans").exists())
        await first.stop()
        second = make(tmp_path)
        await second.restore()
        await until(lambda: bool(read_state(tmp_path, "shop")["running"]))
        assert read_state(tmp_path, "shop")["banned"].keys() == {"root/latency"}
        texts = [entry["text"] for entry in read_log(tmp_path, "shop", 100)]
        assert "bans: 1 of an earlier process are kept" in texts
        await second.destroy("shop")
        await second.destroy("shop")
        assert not list(tmp_path.iterdir())

    asyncio.run(main())
