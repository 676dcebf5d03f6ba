"""Strategies of devices by the command line: what is meant, and one line for every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod
from cotenant.services.scheduling.device_settings import device_settings, usual_pods
from cotenant_local.up.config import UpConfig


@pytest.mark.parametrize("name", ["binpack", "spread", "default"])
def test_one_strategy_for_parts_and_whole_devices(name: str) -> None:
    got = device_settings(name, "")
    assert (got.shared, got.whole, got.usual) == (DeviceStrategy(name), DeviceStrategy(name), ())


def test_fragmentation_goes_by_the_pods_that_usually_come() -> None:
    got = device_settings("fragmentation", "50:6, 100:3,100x8,30")
    assert got.shared is DeviceStrategy.FRAGMENTATION
    assert got.usual == (UsualPod(50, 1, 6), UsualPod(100, 1, 3), UsualPod(100, 8, 1), UsualPod(30, 1, 1))
    assert usual_pods(" ") == ()


@pytest.mark.parametrize(
    ("strategy", "usual", "told"),
    [
        ("Spread", "", "--device-strategy: Spread: expected one of default, binpack, spread, fragmentation"),
        ("fragmentation", "", "--device-strategy: fragmentation: expected --usual-gpu-pods beside it; name the pods"),
        ("binpack", "50", "--usual-gpu-pods: 50: expected --device-strategy fragmentation beside it"),
        ("fragmentation", "0:1", "--usual-gpu-pods: 0:1: expected PERCENT"),
        ("fragmentation", "101", "--usual-gpu-pods: 101: expected PERCENT"),
        ("fragmentation", "50x2:1", "--usual-gpu-pods: 50x2:1: expected PERCENT"),
        ("fragmentation", "50:0", "--usual-gpu-pods: 50:0: expected PERCENT"),
        ("fragmentation", "50,,60", "--usual-gpu-pods: : expected PERCENT"),
    ],
)
def test_what_makes_no_sense_is_refused_by_the_options_name(strategy: str, usual: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        device_settings(strategy, usual)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize("command", ["scheduler", "up"])
def test_both_commands_say_so_in_one_line_before_anything_starts(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    where = ("--dir", str(tmp_path / "up")) if command == "up" else ("--kubeconfig", str(tmp_path / "none"))
    assert main([command, *where, "--device-strategy", "tight"]) == 2
    told = capsys.readouterr().err
    assert "--device-strategy: tight: expected one of default, binpack, spread, fragmentation" in told
    assert told.count("\n") == 1
    assert not (tmp_path / "up").exists()


def test_the_local_cluster_hands_it_to_its_scheduler(tmp_path: Path) -> None:
    config = UpConfig(tmp_path, device_strategy="fragmentation", usual_gpu_pods="50:1")
    asked = config.scheduler_options()
    assert asked[asked.index("--device-strategy") + 1] == "fragmentation"
    assert asked[asked.index("--usual-gpu-pods") + 1] == "50:1"
    usual = UpConfig(tmp_path).scheduler_options()
    assert usual[usual.index("--device-strategy") + 1] == "binpack"
    assert "--usual-gpu-pods" not in usual
