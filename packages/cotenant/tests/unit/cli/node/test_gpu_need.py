"""From readings of GPUs to the annotation by which a pod is placed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cotenant.cli.main import main
from cotenant.model.devices.card_need import CardNeed, ServingPhase, format_card_need, parse_card_need
from cotenant.model.devices.card_sample import CardPath, CardSample

POD = "ml/train"


def written(folder: Path, sm: list[int], bandwidth: list[int]) -> str:
    file = folder / "over.jsonl"
    samples = []
    for at in range(max(len(sm), len(bandwidth))):
        use = {
            path: {POD: found[at], "shop/llm": 900}
            for path, found in ((CardPath.SM, sm), (CardPath.MEMORY_BANDWIDTH, bandwidth))
            if at < len(found)
        }
        samples.append(msgspec.json.encode(CardSample(at, 500, use, {CardPath.PCIE: "nobody measures PCIe"})))
    file.write_bytes(b"\n".join(samples))
    return str(file)


def test_the_means_of_readings_are_the_annotation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, [600, 640] * 4, [200, 220] * 4)
    assert main(["node", "gpu-need", file, "--pod", POD]) == 0
    assert capsys.readouterr().out == """cotenant.io/gpu-need: '{"sm": 62, "memoryBandwidth": 21}'\n"""
    assert main(["node", "gpu-need", file, "--pod", POD, "--cards", "2", "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["need"]["sm"] == 31


def test_a_part_that_was_seldom_measured_is_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "gpu-need", written(tmp_path, [600] * 8, [200] * 7), "--pod", POD]) == 0
    assert capsys.readouterr().out == (
        """cotenant.io/gpu-need: '{"sm": 60}'\nnot known: memory bandwidth (7 readings, 8 are needed)\n"""
    )


@pytest.mark.parametrize(
    ("sm", "more", "why"),
    [
        ([600] * 7, [], "7 readings of ml/train: expected 8 in which it is measured; nobody measures PCIe"),
        ([1300] * 8, [], "as many cards as ml/train has; it takes 130 % of one"),
        ([600] * 8, ["--cards", "0"], "--cards: 0: expected 1 to 64"),
    ],
)
def test_what_cannot_be_said_is_refused(
    sm: list[int], more: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["node", "gpu-need", written(tmp_path, sm, []), "--pod", POD, *more]) == 2
    assert why in " ".join(capsys.readouterr().err.split())


def test_what_is_written_is_read_back() -> None:
    for need in (CardNeed(), CardNeed(30, 85, ServingPhase.DECODE, 10), CardNeed(bandwidth=1)):
        assert parse_card_need(format_card_need(need)) == need
