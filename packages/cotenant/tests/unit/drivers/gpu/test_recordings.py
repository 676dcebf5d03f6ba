"""What DCGM's exporter, nvidia-smi and amd-smi print, in one contract; other words and absurd values are None."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.drivers.gpu.amd_smi import read_amd_smi
from cotenant.drivers.gpu.dcgm import read_dcgm
from cotenant.drivers.gpu.nvidia_smi import read_nvidia_smi
from cotenant.drivers.gpu.pmon import read_pmon, with_processes
from cotenant.drivers.gpu.recorded_values import MAX_PROCESSES, amount, reasons
from cotenant.drivers.gpu.rocm_smi import read_rocm_smi
from cotenant.model.devices.gpu_use import GpuHolder, GpuProcess, GpuUse
from cotenant.model.errors import InvalidInput

MIB, GIB = 1 << 20, 1 << 30
_ONE = 'gpu="0",UUID="GPU-a",pci_bus_id="00000000:3B:00.0",device="nvidia0",modelName="H100",Hostname="n1"'
_POD = 'container="serve",namespace="ml",pod="llm-0"'
DCGM = f"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{{_ONE},{_POD}}} 98
DCGM_FI_PROF_SM_ACTIVE{{{_ONE},{_POD}}} 0.312500
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{_ONE},{_POD}}} 0.0404
DCGM_FI_PROF_DRAM_ACTIVE{{{_ONE},{_POD}}} 0.69
DCGM_FI_DEV_FB_USED{{{_ONE},{_POD}}} 40000
DCGM_FI_DEV_FB_FREE{{{_ONE},{_POD}}} 41000
DCGM_FI_DEV_FB_RESERVED{{{_ONE},{_POD}}} 559
DCGM_FI_PROF_PCIE_TX_BYTES{{{_ONE},{_POD}}} 33011804
DCGM_FI_PROF_NVLINK_RX_BYTES{{{_ONE},{_POD}}} 5000000
DCGM_FI_DEV_POWER_USAGE{{{_ONE},{_POD}}} 312.5
DCGM_FI_DEV_SM_CLOCK{{{_ONE},{_POD}}} 1410
DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{_ONE},{_POD}}} 5
DCGM_FI_DEV_XID_ERRORS{{{_ONE},{_POD}}} 79
DCGM_FI_PROF_SM_ACTIVE{{gpu="1",UUID="GPU-b",GPU_I_PROFILE="1g.10gb",GPU_I_ID="13",pod="",namespace=""}} 0
node_load1 3
"""
SMI = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
 <driver_version>550.90</driver_version>
 <gpu id="00000000:3B:00.0">
  <product_name>NVIDIA A100</product_name><uuid>GPU-a</uuid><minor_number>3</minor_number>
  <pci><tx_util>6850 KB/s</tx_util><rx_util>29050 KB/s</rx_util></pci>
  <EVENTS><THROTTLE_hw_thermal_slowdown>Active</THROTTLE_hw_thermal_slowdown>
   <THROTTLE_gpu_idle>Active</THROTTLE_gpu_idle>
   <THROTTLE_sw_power_cap>Not Active</THROTTLE_sw_power_cap></EVENTS>
  <fb_memory_usage><total>40960 MiB</total><reserved>600 MiB</reserved><used>1000 MiB</used></fb_memory_usage>
  <utilization><gpu_util>55 %</gpu_util><memory_util>N/A</memory_util></utilization>
  <POWER><power_draw>149.70 W</power_draw></POWER>
  <clocks><sm_clock>1380 MHz</sm_clock></clocks>
  <mig_devices><mig_device><gpu_instance_id>1</gpu_instance_id>
   <fb_memory_usage><total>9856 MiB</total><used>500 MiB</used></fb_memory_usage></mig_device></mig_devices>
  <processes>
   <process_info><gpu_instance_id>1</gpu_instance_id><pid>42</pid><type>M+C</type><used_memory>400 MiB</used_memory>
   </process_info>
   <process_info><gpu_instance_id>N/A</gpu_instance_id><pid>7</pid><type>G</type><used_memory>N/A</used_memory>
   </process_info>
  </processes>
 </gpu>
</nvidia_smi_log>
"""
DRIVERS = {
    "535": ("clocks_throttle_reasons", "clocks_throttle_reason", "power_readings"),
    "550": ("clocks_event_reasons", "clocks_event_reason", "gpu_power_readings"),
}
AMD = """{"gpu_data": [{"gpu": 0,
  "usage": {"gfx_activity": {"value": 73, "unit": "%"}, "umc_activity": {"value": 12, "unit": "%"}},
  "power": {"socket_power": {"value": 310, "unit": "W"}, "throttle_status": "N/A"},
  "clock": {"gfx_0": {"clk": {"value": 2100, "unit": "MHz"}}},
  "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, "used_vram": {"value": 283, "unit": "MB"}}}]}"""


AMD_LIST = '[{"gpu": 0, "bdf": "0000:83:00.0", "uuid": "f2ff74a1-0000-1000-80ab", "kfd_id": 12, "partition_id": 0}]'
AMD_STATIC = '{"gpu_data": [{"gpu": 0, "asic": {"market_name": "MI300X", "num_compute_units": 304}}]}'
AMD_PROCESS = """[{"gpu": 0, "process_list": [
  {"process_info": {"name": "python3", "pid": 42, "mem_usage": {"value": 900, "unit": "B"}, "cu_occupancy": 76,
    "memory_usage": {"gtt_mem": {"value": 1, "unit": "B"}, "vram_mem": {"value": 800, "unit": "B"}}}},
  {"process_info": {"name": "x", "pid": 7, "mem_usage": {"value": 5, "unit": "B"}, "cu_occupancy": "N/A"}},
  {"process_info": "No running processes detected"}]}]"""
AMD_THROTTLED = """[{"gpu": 0, "pcie": {"current_bandwidth_sent": {"value": 3, "unit": "Mb/s"},
    "current_bandwidth_received": {"value": 5, "unit": "Mb/s"}},
  "throttle": {"ppt_violation_status": "ACTIVE", "prochot_violation_status": "NOT ACTIVE",
    "hbm_thermal_violation_status": "ACTIVE", "vr_thermal_violation_status": "N/A"}}]"""
ROCM = """{"card1": {"GPU use (%)": "0", "VRAM Total Memory (B)": "1000"},
 "card0": {"Card Series": "AMD Instinct MI210", "Unique ID": "0x4b2f", "PCI Bus": "0000:03:00.0", "GPU use (%)": "73",
  "GPU Memory Read/Write Activity (%)": "12", "VRAM Total Memory (B)": "68702699520",
  "VRAM Total Used Memory (B)": "11071488", "Average Graphics Package Power (W)": "41.0",
  "sclk clock speed:": "(800Mhz)", "mclk clock speed:": "(1600Mhz)"},
 "system": {"PID42": "python3, 1, 1048576, 0, 12"}}"""
LISTED = """GPU 0: NVIDIA A100 (UUID: GPU-b)
GPU 3: NVIDIA A100 (UUID: GPU-a)
  MIG 1g.5gb      Device  0: (UUID: MIG-6f1c2d3e-0000)
  MIG 2g.10gb     Device  1: (UUID: MIG-6f1c2d3e-1111)
"""


def smi(driver: str) -> str:
    events, prefix, power = DRIVERS[driver]
    return SMI.replace("EVENTS", events).replace("THROTTLE", prefix).replace("POWER", power)


def test_dcgm_tells_active_from_busy_and_whose_it_is() -> None:
    whole, instance = read_dcgm(DCGM)
    assert (whole.index, whole.uuid, whole.name, whole.bus) == (0, "GPU-a", "H100", "0000:3b:00.0")
    assert (whole.busy_permille, whole.sm_active_permille) == (980, 312)
    assert (whole.tensor_active_permille, whole.memory_active_permille) == (40, 690)
    assert (whole.memory_used_bytes, whole.memory_total_bytes) == (40_000 * MIB, 81_559 * MIB)
    assert (whole.pcie_sent_bytes_per_s, whole.pcie_received_bytes_per_s) == (33_011_804, None)
    assert (whole.nvlink_received_bytes_per_s, whole.power_mw, whole.sm_clock_mhz) == (5_000_000, 312_500, 1410)
    assert (whole.throttled_by, whole.xid) == (("sw_power_cap",), 79)  # idle, bit 0, is no throttling
    assert whole.holders == (GpuHolder("ml/llm-0", "serve"),)
    assert (instance.instance, instance.sm_active_permille, instance.holders) == ("1g.10gb#13", 0, ())


def test_labels_that_prometheus_kept_name_the_pod_and_not_the_exporter() -> None:
    labels = 'pod="exporter",namespace="gpu",exported_pod="a",exported_namespace="ml"'
    assert read_dcgm(f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-a",{labels}}} 1')[0].holders == (GpuHolder("ml/a"),)


def test_two_containers_on_one_gpu_both_hold_it() -> None:
    lines = "\n".join(f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-a",pod="{pod}",namespace="ml"}} 5' for pod in "ab")
    (use,) = read_dcgm(lines)
    assert use.holders == (GpuHolder("ml/a"), GpuHolder("ml/b"))


@pytest.mark.parametrize("driver", DRIVERS)
def test_nvidia_smi_of_old_and_new_drivers(driver: str) -> None:
    whole, instance = read_nvidia_smi(smi(driver))
    assert (whole.index, whole.uuid, whole.bus) == (3, "GPU-a", "0000:3b:00.0")
    assert (whole.busy_permille, whole.sm_active_permille, whole.memory_active_permille) == (550, None, None)
    assert (whole.memory_used_bytes, whole.memory_total_bytes) == (1000 * MIB, 40 * GIB)
    assert (whole.pcie_sent_bytes_per_s, whole.power_mw, whole.sm_clock_mhz) == (6_850_000, 149_700, 1380)
    assert whole.throttled_by == ("hw_thermal_slowdown",)
    assert whole.processes == (GpuProcess(42, 400 * MIB, mps=True), GpuProcess(7))
    assert (instance.instance, instance.memory_total_bytes) == ("#1", 9856 * MIB)
    assert instance.processes == (GpuProcess(42, 400 * MIB, mps=True),)


@pytest.mark.parametrize("text", [AMD, AMD.replace('{"gpu_data": ', "")[:-1]])
def test_amd_smi_with_and_without_its_outer_object(text: str) -> None:
    (use,) = read_amd_smi(text)
    assert (use.index, use.busy_permille, use.memory_active_permille) == (0, 730, 120)
    assert (use.memory_used_bytes, use.memory_total_bytes) == (283 * MIB, 196_592 * MIB)
    assert (use.power_mw, use.sm_clock_mhz, use.throttled_by) == (310_000, 2100, ())


def test_the_commands_of_amd_smi_are_of_one_gpu() -> None:
    (use,) = read_amd_smi(AMD, AMD_LIST, AMD_STATIC, AMD_PROCESS)
    assert (use.bus, use.uuid, use.name, use.busy_permille) == (
        "0000:83:00.0",
        "f2ff74a1-0000-1000-80ab",
        "MI300X",
        730,
    )
    assert use.processes == (GpuProcess(42, 800, sm_permille=250), GpuProcess(7, 5))


def test_amd_tells_both_directions_of_pcie_and_what_slows_a_gpu() -> None:
    (use,) = read_amd_smi(AMD_THROTTLED)
    assert (use.pcie_sent_bytes_per_s, use.pcie_received_bytes_per_s) == (3 * MIB, 5 * MIB)
    assert use.throttled_by == ("ppt", "hbm_thermal")


def test_rocm_smi_is_read_through_the_same_contract() -> None:
    first, second = read_rocm_smi(ROCM)
    assert (first.index, first.name, first.uuid, first.bus) == (0, "AMD Instinct MI210", "0x4b2f", "0000:03:00.0")
    assert (first.busy_permille, first.memory_active_permille, first.sm_active_permille) == (730, 120, None)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (11_071_488, 68_702_699_520)
    assert (first.power_mw, first.sm_clock_mhz) == (41_000, 800)
    assert (second.index, second.busy_permille, second.memory_used_bytes) == (1, 0, None)
    assert (first.processes, second.processes) == ((), ())  # the tool does not say on which card


def test_of_a_machine_with_one_card_rocm_smi_s_processes_are_its_own() -> None:
    (use,) = read_rocm_smi(ROCM.replace('"card1"', '"other"').replace("python3, 1", "a, b, 1"))
    assert use.processes == (GpuProcess(42, MIB),)


def test_mig_instances_are_named_by_nvidia_smi_s_list() -> None:
    log = smi("550").replace("<mig_device>", "<mig_device><index>1</index>")
    _, instance = read_nvidia_smi(log, LISTED)
    assert (instance.instance, instance.instance_uuid) == ("2g.10gb#1", "MIG-6f1c2d3e-1111")
    _, instance = read_nvidia_smi(log, LISTED.replace("GPU-a", "GPU-c"))
    assert (instance.instance, instance.instance_uuid) == ("#1", "")
    with pytest.raises(InvalidInput, match="nvidia-smi -L"):
        read_nvidia_smi(log, "No devices found.\n")


def test_a_gpu_is_called_by_its_place_among_all_as_pmon_calls_it_and_not_by_its_device_file() -> None:
    one, all_of_them = smi("550"), "<gpu><uuid>GPU-b</uuid><minor_number>2</minor_number></gpu></nvidia_smi_log>"
    assert read_nvidia_smi(one)[0].index == 3
    whole = one.replace("</nvidia_smi_log>", all_of_them).replace("<gpu ", "<attached_gpus>2</attached_gpus><gpu ")
    assert [(use.index, use.uuid) for use in read_nvidia_smi(whole)] == [(0, "GPU-a"), (0, "GPU-a"), (1, "GPU-b")]
    uses = with_processes(read_nvidia_smi(whole), read_pmon("# gpu pid type sm mem\n1 5 C 45 30\n"))
    assert [[process.pid for process in use.processes] for use in uses] == [[42, 7], [42], [5]]


def test_a_process_is_on_one_of_two_compute_instances_of_a_gpu_instance() -> None:
    numbers = "<gpu_instance_id>7</gpu_instance_id><compute_instance_id>{}</compute_instance_id>"
    device = f"<mig_device>{numbers}</mig_device>"
    process = f"<process_info>{numbers}<pid>{{}}</pid></process_info>"
    log = (
        f"<nvidia_smi_log><gpu><mig_devices>{device.format(0)}{device.format(1)}</mig_devices><processes>"
        f"{process.format(1, 42)}{process.format('N/A', 7)}</processes></gpu></nvidia_smi_log>"
    )
    _, first, second = read_nvidia_smi(log)
    assert ([one.pid for one in first.processes], [one.pid for one in second.processes]) == ([7], [42, 7])


def test_more_than_the_whole_is_no_share_of_it() -> None:
    assert (amount("100", "%"), amount("101", "%"), amount("2147483632 %")) == (1000, None, None)
    blank = read_dcgm('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 2147483632')
    assert blank[0].busy_permille is None


def test_a_gpu_whose_number_is_no_number_is_called_by_its_place() -> None:
    assert [use.index for use in read_amd_smi('[{"gpu": 0}, {"gpu": true}]')] == [0, 1]


def test_ten_thousand_processes_on_a_card_are_read_and_more_than_any_are_refused() -> None:
    process = "<process_info><pid>{}</pid><used_memory>1 MiB</used_memory></process_info>"
    log = "<nvidia_smi_log><gpu><processes>{}</processes></gpu></nvidia_smi_log>"
    (use,) = read_nvidia_smi(log.format("".join(process.format(pid) for pid in range(1, 10_001))))
    assert len(use.processes) == 10_000
    table = "# gpu pid type sm mem\n" + "".join(f"0 {pid} C 0 0\n" for pid in range(1, 10_001))
    assert len(read_pmon(table)[0]) == 10_000
    with pytest.raises(InvalidInput, match=f"at most {MAX_PROCESSES}"):
        read_nvidia_smi(log.format(process.format(1) * (MAX_PROCESSES + 1)))
    with pytest.raises(InvalidInput, match="lines"):
        read_pmon("# gpu pid type sm mem\n" + "0 1 C 0 0\n" * (8 * MAX_PROCESSES))


@pytest.mark.parametrize("text", ["N/A", "", None, "[N/A]", "1 parsec", "-3 %", "nan", "1e300 MiB", "0x12"])
def test_words_and_absurd_numbers_are_no_amount(text: str | None) -> None:
    assert amount(text) is None


def test_only_reasons_against_somebody_s_will_count() -> None:
    assert reasons(0x1 | 0x2 | 0x100) == ()
    assert reasons(0x8 | 0x40) == ("hw_slowdown", "hw_thermal_slowdown")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_dcgm, ""),
        (read_dcgm, "node_load1 3"),
        (read_dcgm, "DCGM_FI_DEV_GPU_UTIL{ 1"),
        (read_dcgm, 'DCGM_FI_DEV_GPU_UTIL{x="' + "y" * 5000 + '"} 1'),
        (read_nvidia_smi, ""),
        (read_nvidia_smi, "<html/>"),
        (read_nvidia_smi, '<!DOCTYPE a [<!ENTITY b "c">]><nvidia_smi_log/>'),
        (read_nvidia_smi, "<nvidia_smi_log>" + "<gpu/>" * 65 + "</nvidia_smi_log>"),
        (read_amd_smi, ""),
        (read_amd_smi, "{}"),
        (read_amd_smi, "[" * 10_000),
        (read_rocm_smi, ""),
        (read_rocm_smi, "[]"),
        (read_rocm_smi, '{"system": {"PID42": "python3, 1, 1, 0, 12"}}'),
        (read_rocm_smi, "[" * 10_000),
    ],
)
def test_what_is_no_recording_is_refused_in_words(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(InvalidInput):
        read(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(("usage", "value", "unit", "gfx_activity", "gpu", "clock", "gfx_0")), inner)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.lists(JSON, min_size=1, max_size=3))
def test_any_list_is_read_as_gpus_that_say_little(gpus: list[object]) -> None:
    import json

    assert len(read_amd_smi(json.dumps(gpus))) == len(gpus)


def test_a_client_of_mps_is_one_in_pmon_too_whatever_else_is_known_of_it() -> None:
    found = read_pmon("# gpu pid type sm mem\n0 7 M+C 45 30\n0 8 C - -\n")[0]
    assert [(process.pid, process.mps, process.sm_permille) for process in found] == [(7, True, 450), (8, False, None)]
    use = GpuUse("nvidia-smi", 0, processes=(GpuProcess(7, 1 << 30),))
    (joined,) = with_processes([use], {0: found})
    assert joined.processes[0] == GpuProcess(7, 1 << 30, True, 450, 300)
