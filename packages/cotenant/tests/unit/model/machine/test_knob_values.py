import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.knob_values import CpuMax, canonical, parse_cpu_max, parse_io_max


@pytest.mark.parametrize(
    ("knob", "text", "wanted"),
    [
        (Knob.CPU_MAX, "max", "max 100000"),
        (Knob.CPU_MAX, " 050000\t100000\n", "50000 100000"),
        (Knob.CPU_MAX, "max 50000", "max 50000"),
        (Knob.CPU_BURST, "0\n", "0"),
        (Knob.CPU_WEIGHT, "10000", "10000"),
        (Knob.CPU_IDLE, "1\n", "1"),
        (Knob.CPUSET_CPUS, "3,0-1,2", "0-3"),
        (Knob.CPUSET_CPUS, "\n", ""),
        (Knob.MEMORY_HIGH, "max\n", "max"),
        (Knob.MEMORY_MIN, "0", "0"),
        (Knob.IO_WEIGHT, "100", "default 100"),
        (Knob.IO_WEIGHT, "default 10\n", "default 10"),
        (Knob.IO_MAX, "", ""),
        (
            Knob.IO_MAX,
            "254:16 wiops=5\n8:0 wbps=max rbps=7\n",
            "8:0 rbps=7 wbps=max riops=max wiops=max\n254:16 rbps=max wbps=max riops=max wiops=5",
        ),
        (Knob.IO_MAX, "8:0", "8:0 rbps=max wbps=max riops=max wiops=max"),
    ],
)
def test_one_value_has_one_text(knob: Knob, text: str, wanted: str) -> None:
    assert canonical(knob, text) == wanted
    assert canonical(knob, wanted) == wanted


@pytest.mark.parametrize(
    ("knob", "text"),
    [
        (Knob.CPU_MAX, ""),
        (Knob.CPU_MAX, "999 100000"),
        (Knob.CPU_MAX, "1000 999"),
        (Knob.CPU_MAX, "1000 1000001"),
        (Knob.CPU_MAX, "1000 100000 5"),
        (Knob.CPU_MAX, "-1 100000"),
        (Knob.CPU_BURST, "max"),
        (Knob.CPU_WEIGHT, "0"),
        (Knob.CPU_WEIGHT, "1e3"),
        (Knob.CPU_IDLE, "2"),
        (Knob.CPUSET_CPUS, "all"),
        (Knob.MEMORY_MAX, "-1"),
        (Knob.MEMORY_MAX, "9223372036854775808"),
        (Knob.MEMORY_MAX, "٣"),
        (Knob.IO_WEIGHT, "8:0 100"),
        (Knob.IO_WEIGHT, "default"),
        (Knob.IO_MAX, "8:0 rbps=0"),
        (Knob.IO_MAX, "8:0 rbps=5 rbps=6"),
        (Knob.IO_MAX, "sda rbps=5"),
        (Knob.IO_MAX, "8:0 speed=5"),
        (Knob.IO_MAX, "8:0 rbps=5\n8:0 rbps=6"),
        (Knob.SCHEMATA, "L3:0=f"),
    ],
)
def test_what_is_no_value_is_named(knob: Knob, text: str) -> None:
    with pytest.raises(InvalidInput):
        canonical(knob, text)


def test_bandwidth_as_milli_cpu() -> None:
    assert parse_cpu_max("150000 100000").cpu_m == 1500
    assert CpuMax(None).cpu_m is None
    assert CpuMax(3333, 10_000).cpu_m == 333


def test_a_device_without_limits_is_unlimited() -> None:
    clear, limited = parse_io_max("8:0\n8:16 wiops=9")
    assert clear.unlimited
    assert not limited.unlimited
