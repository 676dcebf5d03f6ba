"""The parts of `bench.gpu` with recordings and stand-ins: no GPU was there."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench.gpu import Shared, differences, given_back, main, shared, verdicts
from bench.gpu_load import PTX
from tests.fakes.node.mps_control import FakeMps

from cotenant.drivers.gpu.mps import MpsControl
from cotenant.drivers.gpu.mps_knobs import MpsKnobs
from cotenant.drivers.gpu.nvidia_smi import read_nvidia_smi
from cotenant.drivers.gpu.nvml import GpuReader
from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.machine.counters import GpuCounters
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.rules import KnobRules

MIB = 1 << 20
SMI = """<nvidia_smi_log><gpu id="00000000:17:00.0">
<product_name>NVIDIA H100 80GB HBM3</product_name><uuid>GPU-a</uuid><minor_number>0</minor_number>
<fb_memory_usage><total>81559 MiB</total><used>1500 MiB</used></fb_memory_usage>
<processes><process_info><pid>7</pid><used_memory>1490 MiB</used_memory><type>C</type></process_info></processes>
</gpu></nvidia_smi_log>"""
READ = GpuCounters(
    index=0, uuid="GPU-a", name="NVIDIA H100 80GB HBM3", healthy=True, utilisation_percent=0,
    memory_total_bytes=81559 * MIB, memory_used_bytes=1520 * MIB, processes=((7, 1490 * MIB),), bus="0000:17:00.0",
)  # fmt: skip
WISH = SetKnob(KnobTarget("default", Knob.MPS_THREADS), "30", Reason("test", "because"))


def test_the_same_card_has_no_differences() -> None:
    assert differences(read_nvidia_smi(SMI), [READ]) == []


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (replace(READ, uuid="GPU-b"), "GPU-a: only nvidia-smi names it"),
        (replace(READ, memory_total_bytes=40 << 30), "GPU-a: memory "),
        (replace(READ, memory_used_bytes=9 << 30), "GPU-a: memory in use"),
        (replace(READ, processes=((8, 1),)), "GPU-a: processes differ"),
        (replace(READ, bus="0000:18:00.0"), "GPU-a: at 0000:17:00.0 and 0000:18:00.0"),
    ],
)
def test_a_difference_is_a_sentence(read: GpuCounters, why: str) -> None:
    assert any(line.startswith(why) for line in differences(read_nvidia_smi(SMI), [read]))


def recorded(*latencies_us: int) -> dict[str, object]:
    return {"latencies_us": list(latencies_us)}


def test_what_the_arms_come_to() -> None:
    alone = shared("alone", recorded(*[1000] * 197, 1100, 5000, 5000), None)
    offline = shared("offline alone", None, {"launches": 400, "seconds": 20.0})
    beside = shared("MPS", recorded(*[1000] * 190, *[1300] * 10), {"launches": 240, "seconds": 20.0})
    assert (alone.p99_us, offline.launches_per_s) == (1100, 20.0)
    slower, kept = verdicts(alone, offline, beside)
    assert (slower["measured"], slower["ok"]) == (1.182, False)
    assert (kept["measured"], kept["ok"]) == (0.6, True)


def test_too_few_answers_and_a_missing_figure_are_no_result() -> None:
    with pytest.raises(ValueError, match="99 answers are too few"):
        shared("alone", recorded(*[1] * 99), None)
    with pytest.raises(ValueError, match="a figure is missing"):
        verdicts(Shared("alone", 1000), Shared("offline alone", None, 20.0), Shared("MPS", None, 10.0))


def test_a_lease_of_mps_is_given_back_after_kill_9(tmp_path: Path) -> None:
    mps = FakeMps(tmp_path)
    mps.start()

    def make() -> MpsKnobs:
        return MpsKnobs(MpsControl(mps.pipe, str(mps.program)))

    assert given_back(make, KnobScope.MPS, WISH, KnobRules((), mps=True), tmp_path / "state") == []
    assert "set_default_active_thread_percentage 30" in (mps.pipe / "asked").read_text().splitlines()
    assert mps.state["threads"] == 100.0
    (stood,) = given_back(make, KnobScope.MPS, WISH, KnobRules(()), tmp_path / "refused")
    assert stood == "/default:mps.threads: 100 stood after a keeper held 30"


def test_the_kernel_is_one_entry_with_its_parameters() -> None:
    assert PTX.count(b".entry") == 1
    assert b"burn(.param .u64 out, .param .u32 rounds)" in PTX


def test_without_a_gpu_it_is_skipped_and_says_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = GpuReader()
    try:
        if reader.read():
            pytest.skip("a GPU is here")
    except (Unsupported, Permanent):
        pass
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--json"])
    main()
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == []
    assert told["notes"][0].startswith("skipped: ")
