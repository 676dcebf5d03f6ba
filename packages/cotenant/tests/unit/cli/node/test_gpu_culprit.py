"""Readings of GPUs over time by `cotenant node gpus --append`, and the verdict of `node gpu-culprit`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cotenant.cli.main import main
from cotenant.cli.node.gpus import CardReading, Recordings, gpus
from cotenant.drivers.gpu.pmon import read_pmon
from cotenant.model.devices.gpu_use import GpuProcess
from cotenant.model.errors import InvalidInput

UIDS = {41: "6f1c2d3e-0000-4000-8000-0123456789aa", 42: "6f1c2d3e-0000-4000-8000-0123456789ab"}
PMON = """# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command
# Idx           #    C/G      %      %      %      %      %      %    name
    0         41     C     {own}     10      -      -      -      -    python
    0         42     C     {train}     5      -      -      -      -    python
    1          -     -      -      -      -      -      -      -    -
"""


def test_a_table_of_processes() -> None:
    found = read_pmon(PMON.format(own="20", train="-"))
    assert found == {
        0: (
            GpuProcess(41, sm_permille=200, memory_permille=100),
            GpuProcess(42, sm_permille=None, memory_permille=50),
        ),
        1: (),
    }
    earlier = (
        "# gpu pid type sm mem enc dec command\n# Idx # C/G % % % % name\n 3 9 C 1 2 0 0 x\n"  # drivers before 525
    )
    assert read_pmon(earlier) == {3: (GpuProcess(9, sm_permille=10, memory_permille=20),)}
    with pytest.raises(InvalidInput, match="a heading with gpu, pid"):
        read_pmon("No devices were found")


def appended(folder: Path, own: int, train: int, level: float) -> None:
    for pid, uid in UIDS.items():
        (folder / f"{pid}").mkdir(exist_ok=True)
        (folder / f"{pid}/cgroup").write_text(f"0::/kubepods/pod{uid}\n")
    (folder / "page.prom").write_text('DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a"} 0.9\n')
    (folder / "pmon").write_text(PMON.format(own=own, train=train))
    reading = CardReading(folder / "over.jsonl", UIDS[41], level)
    files = Recordings(dcgm=folder / "page.prom", pmon=folder / "pmon")
    assert gpus(files, True, False, folder, reading=reading) == 0


def test_from_readings_to_a_culprit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for at in range(16):
        slow = at >= 10
        appended(tmp_path, 20 + at % 2, 80 if slow else 0, 2.5 if slow else 0.6)
    file = str(tmp_path / "over.jsonl")
    assert main(["node", "gpu-culprit", file, "--service", UIDS[41]]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"{UIDS[42]} by SM" in told
    assert "not measured: PCIe" in told
    assert "not measured: host CPU: not in a reading of GPUs" in told
    assert main(["node", "gpu-culprit", file, "--service", UIDS[41], "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["pod"] == UIDS[42]


def test_too_little_to_say_is_status_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    appended(tmp_path, 20, 80, 2.5)
    assert main(["node", "gpu-culprit", str(tmp_path / "over.jsonl"), "--service", UIDS[41]]) == 3
    assert "are needed" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("content", [None, b"{}", b'{"at_ms": 1}\nx', b"\xff"])
def test_a_file_that_cannot_be_read_is_one_line(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "over.jsonl"
    if content is not None:
        file.write_bytes(content)
    assert main(["node", "gpu-culprit", str(file), "--service", "a/b"]) == 2
    assert len(capsys.readouterr().err.splitlines()) <= 2


@pytest.mark.parametrize("more", [[], ["--service", "ml/x"], ["--service", "ml/x", "--level", "-1"]])
def test_what_an_appended_reading_needs(more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.prom"
    page.write_text('DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a"} 0.9\n')
    assert main(["node", "gpus", "--dcgm", str(page), "--append", str(tmp_path / "over.jsonl"), *more]) == 2
    assert "expected" in capsys.readouterr().err or not (tmp_path / "over.jsonl").exists()
