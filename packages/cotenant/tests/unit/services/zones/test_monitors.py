"""Monitors of a zone's machine: counters of the guest and of the host as figures, and what a hostile guest says."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.waiting import patience

from cotenant.cli.zone.showing import monitors
from cotenant.drivers.qemu.backend import read_exits, read_threads, sample_queues
from cotenant.drivers.qemu.machine import MachineSpec, VirtualMachine
from cotenant.engine.zones.vm_figures import front_end
from cotenant.model.errors import Transient
from cotenant.model.machine.counters import LogicalCpu
from cotenant.services.zones.machine_signs import SignReader
from cotenant.services.zones.vm_guest_monitor import counters
from cotenant.services.zones.vm_monitor import VmMonitor, monitored


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


GUEST = {
    "stat": "cpu  1 2 3 4 5 6 70 8 0 0\n",
    "loadavg": "0.1 0.2 0.3 3/99 7\n",
    "schedstat": "version 17\ncpu0 0 0 0 0 0 0 1 2000000 40\ndomain0 9\ncpu1 0 0 0 0 0 0 1 4000000 10\n",
    "pressure/cpu": "some avg10=0 avg60=0 avg300=0 total=500\nfull avg10=0 total=1\n",
    "pressure/memory": "some avg10=0 avg60=0 avg300=0 total=60\nfull avg10=0 total=2\n",
    "pressure/io": "some avg10=0 avg60=0 avg300=0 total=70\nfull avg10=0 total=3\n",
    "softirqs": "   CPU0 CPU1\nNET_RX: 3 4\nTIMER: 1 0\n",
    "interrupts": "      CPU0  CPU1\n 24:  5  6  PCI-MSI virtio0-input.0\n 25: 1 1 PCI-MSI ahci\n",
}


def test_a_guest_counts_what_its_kernel_has(tmp_path: Path) -> None:
    found = counters(write(tmp_path, GUEST))
    assert found == {
        "softirqUs": 700_000,
        "stealUs": 80_000,
        "runnable": 2,
        "waitUs": 6000,
        "slices": 50,
        "cpuPressureUs": 500,
        "memoryPressureUs": 60,
        "ioPressureUs": 70,
        "softirqs": {"NET_RX": 7, "TIMER": 1},
        "notifications": 11,
    }
    assert counters(tmp_path / "none") == {}


def test_figures_are_of_the_time_between_two_answers() -> None:
    before = {"softirqUs": 0, "waitUs": 1000, "slices": 10, "cpuPressureUs": 0, "notifications": 5}
    after = {"softirqUs": 500_000, "waitUs": 9000, "slices": 14, "cpuPressureUs": 1_000_000, "notifications": 25}
    found = front_end(before, {**after, "runnable": 3}, 2.0)
    assert (found.softirq_cpus, found.wait_ms, found.cpu_pressure) == (0.25, 2.0, 0.5)
    assert (found.interrupts_per_s, found.runnable, found.io_pressure) == (10.0, 3, None)


@pytest.mark.parametrize(
    "hostile",
    [{"waitUs": "9", "slices": None}, {"waitUs": -5, "slices": True}, {"waitUs": 10**400, "slices": 2}, {}],
)
def test_what_a_hostile_guest_says_is_no_figure(hostile: dict[str, object]) -> None:
    found = front_end({"waitUs": 1, "slices": 1}, {**hostile, "runnable": "many"}, 1.0)
    assert (found.wait_ms, found.runnable) == (None, None)


def threads(proc: Path, pid: int, tasks: dict[int, tuple[str, int, int]]) -> None:
    for task, (name, ran_us, waited_us) in tasks.items():
        write(
            proc / str(pid) / "task" / str(task),
            {"comm": f"{name}\n", "schedstat": f"{ran_us * 1000} {waited_us * 1000} 4\n"},
        )


def test_threads_of_a_machine_are_told_apart_by_their_names(tmp_path: Path) -> None:
    threads(
        tmp_path,
        7,
        {1: ("CPU 0/TCG", 100, 20), 2: ("CPU 1/KVM", 50, 5), 3: ("qemu-system-x86", 9, 9), 4: ("vhost-7", 3, 0)},
    )
    threads(tmp_path, 8, {8: ("virtiofsd", 6, 1), 9: ("pool", 1, 1)})
    found = read_threads(7, 8, tmp_path)
    assert (found.vcpu_us, found.vcpu_wait_us, found.vcpu_slices) == (150, 25, 8)
    assert (found.device_us, found.share_us, found.vhost_us) == (9, 7, 3)
    assert read_threads(1, 2, tmp_path).vcpu_us == 0


class TracedMachine(VirtualMachine):
    """A machine whose QEMU writes events while they are traced."""

    def __init__(self, folder: Path, answer: object = None) -> None:
        super().__init__(MachineSpec("box", Path("/k"), folder, 64, 1, "kvm"), b"", lambda line: None)
        self.asked: list[tuple[str, object]] = []
        self.answer = answer

    @property
    def pid(self) -> int:
        return 2**22 + 1  # none

    @property
    def share_pid(self) -> int:
        return 2**22 + 1

    async def control(self, command: str, **arguments: object) -> object:
        self.asked.append((command, arguments.get("enable")))
        return self.answer


def test_calls_between_guest_and_devices_are_counted_while_they_are_traced(tmp_path: Path) -> None:
    machine = TracedMachine(tmp_path)
    machine.trace_log.write_text("virtio_notify of an earlier sample\n")

    async def wait(seconds: float) -> None:
        assert seconds == 0.5
        with machine.trace_log.open("a") as log:
            log.write(
                "virtio_queue_notify vdev 0x1 n 0\n" * 3 + "virtio_notify vdev 0x1 vq 0x2\nvirtio_notify_irqfd x\n"
            )

    found = asyncio.run(sample_queues(machine, 0.5, wait))
    assert (found.kicks, found.notifications) == (3, 1)
    assert [enable for _, enable in machine.asked] == [True, True, False, False]

    async def fails(seconds: float) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        asyncio.run(sample_queues(machine, 0.5, fails))
    assert [enable for _, enable in machine.asked[-2:]] == [False, False]  # never left on


def test_a_monitor_ends_though_its_machine_is_gone(tmp_path: Path) -> None:
    machine, traced = TracedMachine(tmp_path), asyncio.Event()

    async def control(command: str, **arguments: object) -> object:
        if not arguments["enable"]:
            raise Transient("the machine ended")
        traced.set()
        return None

    async def main() -> None:
        machine.control = control  # type: ignore[method-assign]
        async with asyncio.timeout(patience(30)):
            async with monitored(machine):
                await traced.wait()
                await asyncio.sleep(0)  # it waits for the sample's end

    asyncio.run(main())


def test_exits_are_of_all_vcpus_and_unknown_without_kvm(tmp_path: Path) -> None:
    vcpu = {"provider": "kvm", "stats": [{"name": "exits", "value": 5}, {"name": "other", "value": 1}]}
    assert asyncio.run(read_exits(TracedMachine(tmp_path, [vcpu, vcpu]))) == 10
    assert asyncio.run(read_exits(TracedMachine(tmp_path, []))) is None


def test_a_line_for_each_side_from_the_second_answer_on(tmp_path: Path) -> None:
    now_s = [0.0]
    monitor = VmMonitor(TracedMachine(tmp_path), lambda: now_s[0])
    monitor.seen({"waitUs": 0, "slices": 0, "runnable": 1})
    assert monitors(monitor.figures) == []
    now_s[0] = 2.0
    monitor.seen({"waitUs": 4000, "slices": 2, "runnable": 1})
    front, back = monitors(monitor.figures)
    assert "1 runnable, 2 ms waited a turn, softirq ?" in front
    assert front.endswith("steal ?, pressure of CPU ?, memory ?, io ?")
    assert "vCPUs 0.00 CPUs, 0.0 % stolen" in back
    assert "queues not traced" in back
    now_s[0] = 4.0
    pressed = {"stealUs": 500_000, "cpuPressureUs": 200_000, "memoryPressureUs": 1_000_000, "ioPressureUs": 10_000}
    monitor.seen(dict.fromkeys(pressed, 0))
    now_s[0] = 6.0
    monitor.seen(pressed)
    front = monitors(monitor.figures)[0]
    assert front.endswith("steal 0.25 CPUs, pressure of CPU 10.0 %, memory 50.0 %, io 0.5 %")


def test_signs_of_a_machine_are_of_the_time_since_the_last_reading(tmp_path: Path) -> None:
    cpus = [LogicalCpu(number, number // 2, 0, 0) for number in range(4)]  # two cores of two threads

    def stat(busy: tuple[int, ...], softirq: int) -> None:
        rows = [f"cpu{number} {ticks} 0 0 {100 - ticks} 0 0 {softirq} 0 0 0" for number, ticks in enumerate(busy)]
        (tmp_path / "stat").write_text("\n".join(["cpu  0 0 0 0", *rows, "ctxt 5"]))

    reader = SignReader(tmp_path, lambda: cpus)
    assert reader.read() is None
    stat((0, 0, 0, 0), 0)
    assert reader.read() is None
    (tmp_path / "stat").write_text(
        "cpu 0\n"
        + "\n".join(
            f"cpu{number} {busy} 0 0 {200 - busy - 20} 0 0 20 0 0 0" for number, busy in enumerate((80, 80, 80, 0))
        )
    )
    signs = reader.read()
    assert signs is not None
    assert signs.cpus == 4
    assert signs.softirq_cpus == pytest.approx(4 * 20 / 100)
    assert signs.siblings_busy is not None
    assert 0.0 < signs.siblings_busy < 1.0
    (tmp_path / "stat").write_text("garbage")
    assert reader.read() is None
