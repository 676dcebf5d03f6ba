"""What the machine reports of its CPU."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.cpu_report import CpuReport, read_cpu_report
from cotenant.drivers.proc.cpu_model import read_cpu_model
from cotenant.model.cpus.basic_info import CPU_BASIC_INFO, CpuInfo, cpu_info_text, read_cpu_info
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import LogicalCpu

X86 = (
    "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz\n\nprocessor\t: 1\nmodel name\t: "
    "other\n"
)
ARM = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
PAIR = (LogicalCpu(0, 0, 0, 0), LogicalCpu(1, 0, 0, 0))
APART = (LogicalCpu(0, 0, 0, 0), LogicalCpu(1, 1, 0, 0))


def machine(root: Path, cpuinfo: str, **switches: str) -> str:
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(cpuinfo)
    for name, text in switches.items():
        path = root / "sys/devices/system/cpu" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return str(root)


@pytest.mark.parametrize(
    ("switches", "turbo"),
    [
        ({}, False),
        ({"intel_pstate__no_turbo": "0"}, True),
        ({"intel_pstate__no_turbo": "1"}, False),
        ({"cpufreq__boost": "1"}, True),
        ({"cpufreq__boost": "0"}, False),
    ],
)
def test_model_threads_and_turbo(tmp_path: Path, switches: dict[str, str], turbo: bool) -> None:
    root = machine(tmp_path, X86, **switches)
    model = "Intel(R) Xeon(R) Platinum 8269CY CPU @ 2.50GHz"
    assert read_cpu_model(PAIR, root) == CpuInfo(model, True, turbo)
    assert read_cpu_model(APART, root) == CpuInfo(model, False, turbo)


def test_arm_and_machines_that_say_nothing(tmp_path: Path) -> None:
    assert read_cpu_model(APART, machine(tmp_path, ARM)) == CpuInfo("0x41 0xd0c")
    assert read_cpu_model(APART, str(tmp_path / "none")) is None


def test_the_annotation_is_read_as_it_was_written() -> None:
    cpu = CpuInfo("A CPU", True, False)
    assert read_cpu_info(cpu_info_text(cpu)) == cpu
    with pytest.raises(InvalidInput, match="cpuModel"):
        read_cpu_info("{}")


@pytest.mark.parametrize(
    ("text", "cpu"), [(cpu_info_text(CpuInfo("A", True, True)), CpuInfo("A", True, True)), ("[", None)]
)
def test_the_managers_view_of_a_report(text: str, cpu: CpuInfo | None) -> None:
    document = {
        "metadata": {"name": "n", "annotations": {CPU_BASIC_INFO: text, "other": "1"}},
        "zones": [{"name": "node-0", "type": "Node"}],
    }
    assert read_cpu_report(msgspec.json.decode(json.dumps(document), type=CpuReport)) == ("n", cpu)
    assert read_cpu_report(msgspec.json.decode(b'{"metadata": {"name": "n"}}', type=CpuReport)) == ("n", None)
