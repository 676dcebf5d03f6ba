"""The zone experiment's pass lines and words, from figures; what it measures is a guest case
(tests/node/guest/zones/test_wake_ups.py).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cotenant.cli.main import main
from cotenant_lab.experiments import registry
from cotenant_lab.experiments.studies.zone import ZoneArm, judged

ARMS = {
    "fair": ZoneArm(0.09, 0.8, 1.3),
    "weights": ZoneArm(0.09, 0.1, 0.7),
    "latency": ZoneArm(0.09, 0.1, 0.2, turn_ms=4, batch_cpus=0.99),
    "weighted": ZoneArm(6, 7, 7),
    "throughput": ZoneArm(38, 50, 50, turn_ms=20, batch_cpus=0.99),
    "auto": ZoneArm(0.09, 0.11, 0.2, turn_ms=20, batch_cpus=0.98),
}
BESIDE = {"other_cpus": 0.48, "other_kept_its_scheduler": True, "broken_ejected": True}


def failed(arms: dict[str, ZoneArm], killed_ms: float = 1, beside: dict[str, Any] | None = None) -> list[str]:
    return [check.what[:3] for check in judged(arms, [], killed_ms, beside).checks if not check.passed]


def test_figures_within_the_lines_pass() -> None:
    found = judged(ARMS, ["setting root/latency: services are late"], 1, BESIDE)
    assert found.passed
    assert found.notes == (
        "weights and latency: median: as good (0.09 and 0.09 ms); p99: as good (0.10 and 0.10 ms); maximum: latency "
        "is better (0.70 and 0.20 ms).",
    )
    assert registry.encode(found).count('"p99"') == len(ARMS)
    assert {len(row) for row in found.rows} == {len(found.columns)}


@pytest.mark.parametrize(
    ("auto", "expected"),
    [
        (replace(ARMS["auto"], p99=30.0), ["(a)", "(d)"]),
        (replace(ARMS["auto"], turn_ms=4.0), ["(d)"]),
        (replace(ARMS["auto"], batch_cpus=0.5), ["(d)"]),
    ],
)
def test_an_auto_that_stays_with_the_wrong_scheduler_fails(auto: ZoneArm, expected: list[str]) -> None:
    assert failed({**ARMS, "auto": auto}, beside=BESIDE) == expected


def test_a_slow_return_to_the_fair_class_fails() -> None:
    assert failed(ARMS, 12, BESIDE) == ["(c)"]


@pytest.mark.parametrize("wrong", [{"other_cpus": 0.2}, {"other_kept_its_scheduler": False}, {"broken_ejected": False}])
def test_a_broken_zone_that_harms_the_other_or_stays_fails(wrong: dict[str, Any]) -> None:
    assert failed(ARMS, beside={**BESIDE, **wrong}) == ["(b)"]


def test_without_sub_schedulers_their_part_is_named_as_left_out() -> None:
    found = judged(ARMS, [], 1, None)
    assert found.passed
    assert "(b) was left out" in found.notes[1]


def test_an_out_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert main(["node", "experiment", "zone", "--out", str(tmp_path / "taken")]) == 2
    assert "a file of that name is in the way" in capsys.readouterr().err
