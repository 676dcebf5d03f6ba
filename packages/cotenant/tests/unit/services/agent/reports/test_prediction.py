"""The loop that trains the prediction and keeps its histories in a file."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.engine.node.test_prediction import ALL, CONFIG, ROOM, usage

from cotenant.engine.node.prediction import ProdPrediction
from cotenant.services.agent.reports.prediction import TRAIN_EVERY_S, Prediction


@dataclass
class Clock:
    now_s: float = 1000.0
    windows: list[tuple[int, ...]] = field(default_factory=list)


def prediction(clock: Clock, file: Path | None) -> Prediction:
    def measured(windows_us: object) -> object:
        clock.windows.append(tuple(windows_us))  # type: ignore[arg-type]
        return usage(*ALL)

    return Prediction(ProdPrediction(CONFIG), file, measured, lambda: ALL, lambda: ROOM, lambda: clock.now_s)  # type: ignore[arg-type]


def trained(clock: Clock, file: Path | None, minutes: int = 5) -> Prediction:
    found = prediction(clock, file)
    for _ in range(minutes):
        clock.now_s += TRAIN_EVERY_S
        found.train()
    return found


def test_histories_survive_a_restart(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "prediction.json"
    before = trained(clock, file)
    assert clock.windows[0] == (60_000_000,)
    before.save()
    again = prediction(clock, file)
    assert again.reclaimable() is None
    again.load()
    assert again.reclaimable() == before.reclaimable()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["prediction.json"]


def test_the_loop_keeps_its_histories_when_it_is_cancelled(tmp_path: Path) -> None:
    file = tmp_path / "prediction.json"

    async def run() -> None:
        found = trained(Clock(), file)
        task = asyncio.create_task(found.run())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert file.exists()


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b'{"version": 7, "now_s": 0, "pods": {}}', b"\xff"])
def test_a_damaged_file_starts_anew(tmp_path: Path, text: bytes, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "prediction.json"
    file.write_bytes(text)
    found = prediction(Clock(), file)
    found.load()
    assert "starts anew" in caplog.text
    found.train()
    assert found.reclaimable() is not None


def test_a_file_that_cannot_be_written_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = trained(Clock(), tmp_path / "missing" / "prediction.json")
    with caplog.at_level(logging.WARNING):
        found.save()
        found.save()
    assert sum("are not kept" in record.message for record in caplog.records) == 1
    assert found.reclaimable() is not None


def test_a_suspended_machine_ages_nothing(tmp_path: Path) -> None:
    clock = Clock()
    found = trained(clock, None, minutes=2)
    clock.now_s += 10 * 86_400
    found.train()
    assert found.engine.histories.now_s == 4 * TRAIN_EVERY_S  # 60 + 60 + at most two periods


def test_nothing_measured_trains_nothing() -> None:
    found = Prediction(ProdPrediction(CONFIG), None, lambda windows_us: None, lambda: ALL, lambda: None, lambda: 0.0)
    found.load()
    found.train()
    found.save()
    assert found.reclaimable() is None
    assert found.engine.histories.together is None
