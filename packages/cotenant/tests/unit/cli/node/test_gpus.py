"""`cotenant node gpus` over recordings."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cotenant.cli.main import main
from cotenant.cli.node.gpus import Recordings, gpus

DCGM = """DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a"} 0.4
DCGM_FI_PROF_SM_ACTIVE{gpu="1",UUID="GPU-b"} 0
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b"} 2048
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-b"} 31
"""
GIVEN = """{"podResources": [{"name": "train", "namespace": "ml", "containers": [
  {"name": "x", "devices": [{"resourceName": "nvidia.com/gpu", "deviceIds": ["GPU-a", "GPU-b"]}]}]}]}"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    page, given = tmp_path / "dcgm.prom", tmp_path / "given.json"
    page.write_text(DCGM)
    given.write_text(GIVEN)
    return page, given


def test_it_says_who_holds_what_and_what_is_idle(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    page, given = map(str, files)
    assert main(["node", "gpus", "--dcgm", page, "--pod-resources", given]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "1 of 2 allocated GPUs are idle (below 1 % active)" in told
    assert "they hold 2.0 GiB of memory: ml/train" in told
    assert "Xid 31" in told
    assert main(["node", "gpus", "--dcgm", page, "--pod-resources", given, "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert [gpu["holders"][0]["pod"] for gpu in found["gpus"]] == ["ml/train", "ml/train"]
    assert found["idle"]["idle_holders"] == ["ml/train"]


def test_a_gpu_of_which_two_tools_tell_is_one(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    page, given = files
    log = page.parent / "smi.xml"
    log.write_text(
        "<nvidia_smi_log><attached_gpus>2</attached_gpus><gpu><uuid>GPU-a</uuid><utilization><gpu_util>90 %</gpu_util>"
        "</utilization><processes><process_info><pid>42</pid></process_info></processes></gpu>"
        "<gpu><uuid>GPU-b</uuid><fb_memory_usage><used>1 MiB</used></fb_memory_usage></gpu></nvidia_smi_log>"
    )
    arguments = ["node", "gpus", "--dcgm", str(page), "--nvidia-smi", str(log), "--pod-resources", str(given)]
    assert main([*arguments, "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["idle"]["allocated"], found["idle"]["idle"]) == (2, 1)
    first, second = found["gpus"]
    assert (first["sm_active_permille"], first["busy_permille"], first["processes"][0]["pid"]) == (400, 900, 42)
    assert second["memory_used_bytes"] == 2 << 30


def test_processes_of_this_machine_name_pods_by_uid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uid = "6f1c2d3e-0000-4000-8000-0123456789ab"
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cgroup").write_text(f"0::/kubepods/pod{uid}\n")
    log = tmp_path / "smi.xml"
    log.write_text(
        "<nvidia_smi_log><gpu><utilization><gpu_util>50 %</gpu_util></utilization>"
        "<processes><process_info><pid>42</pid></process_info></processes></gpu></nvidia_smi_log>"
    )
    for of_this_machine, holders in ((True, [uid]), (False, [])):
        gpus(Recordings(nvidia_smi=log), of_this_machine, True, tmp_path)
        (gpu,) = msgspec.json.decode(capsys.readouterr().out)["gpus"]
        assert [holder["pod"] for holder in gpu["holders"]] == holders


def test_the_recordings_of_amd_name_a_gpu_by_its_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metric, listed, given = tmp_path / "metric.json", tmp_path / "list.json", tmp_path / "given.json"
    metric.write_text('[{"gpu": 0, "usage": {"gfx_activity": {"value": 0, "unit": "%"}}}]')
    listed.write_text('[{"gpu": 0, "bdf": "0000:83:00.0", "uuid": "00ff-1"}]')
    given.write_text(GIVEN.replace("nvidia", "amd").replace('"GPU-a", "GPU-b"', '"0000:83:00.0"'))
    arguments = ["--amd-smi", str(metric), "--amd-smi", str(listed), "--pod-resources", str(given)]
    assert main(["node", "gpus", *arguments]) == 0
    assert "1 of 1 allocated GPUs are idle" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "given", [[], ["--rocm-smi", __file__], ["--dcgm", "/nowhere/dcgm.prom"], ["--amd-smi", __file__]]
)
def test_what_cannot_be_read_is_one_line(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "gpus", *given]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
