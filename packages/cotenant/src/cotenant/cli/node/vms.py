"""`cotenant node vms`: what each virtual machine of this host costs it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict

import msgspec

from cotenant.cli import tables
from cotenant.drivers.perf.tracepoints import ThreadTracepoints
from cotenant.drivers.qemu.processes import find_machines
from cotenant.engine.vms.cost import TRACEPOINTS, MachineCost, machine_cost
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.vms.host_machine import HostMachine

_MAX_S = 3600.0


def vms(
    seconds: float,
    as_json: bool,
    find: Callable[[], tuple[HostMachine, ...]] = find_machines,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Look twice, `seconds` apart. Raises `InvalidInput`."""
    if not 0.1 <= seconds <= _MAX_S:
        raise InvalidInput("--seconds", seconds, f"0.1 to {_MAX_S:g}")
    before = {machine.pid: machine for machine in find()}
    with ExitStack() as open_counters:
        counting, lacking = _counters(tuple(before.values()), open_counters)
        begun_s = time.monotonic()
        if before:
            sleep(seconds)
        counts = {pid: counters.read() for pid, counters in counting.items()}
        length_s = max(time.monotonic() - begun_s, 1e-6)
    costs = [machine_cost(before[now.pid], now, counts.get(now.pid), length_s) for now in find() if now.pid in before]
    costs.sort(key=lambda cost: -cost.cpus)
    if as_json:
        page = {
            "seconds": round(length_s, 3),
            "machines": [{**asdict(cost), "kicks_per_notification": cost.kicks_per_notification} for cost in costs],
            "notCounted": lacking,
        }
        print(msgspec.json.format(msgspec.json.encode(page)).decode())
    else:
        _show(costs, lacking)
    return 0


def _counters(machines: tuple[HostMachine, ...], stack: ExitStack) -> tuple[dict[int, ThreadTracepoints], list[str]]:
    """Counters of the machines under KVM, by process; and why there are none, or not all."""
    counting: dict[int, ThreadTracepoints] = {}
    lacking: dict[str, None] = {}
    for machine in machines:
        if machine.accelerator != "KVM":
            continue
        try:
            counters = ThreadTracepoints(machine.threads, TRACEPOINTS)
        except CotenantError as error:
            lacking[str(error)] = None
            continue
        stack.callback(counters.close)
        counting[machine.pid] = counters
        lacking |= {f"this kernel has no tracepoint {name}": None for name in counters.missing}
    return counting, list(lacking)


def _show(costs: list[MachineCost], lacking: list[str]) -> None:
    if not costs:
        print("no virtual machine of QEMU runs on this host")
        return
    headings = (
        "machine",
        "CPUs",
        "vCPUs",
        "stolen",
        "devices",
        "vhost",
        "exits/s",
        "kicks/s",
        "notified/s",
        "ratio",
    )
    tables.print_words(headings, [_row(cost) for cost in costs], right=headings[1:])
    for cost in costs:
        where = f"pod {cost.pod_uid}, " if cost.pod_uid else ""
        tables.print_folded(f"{cost.name}: {where}group {cost.group}, process {cost.pid}, {_vcpus(cost)}")
    for why in lacking:
        tables.print_folded(f"not counted: {why}")


def _row(cost: MachineCost) -> tuple[str, ...]:
    def rate(value: float | None, digits: int = 0) -> str:
        return "-" if value is None else f"{value:,.{digits}f}"

    return (
        cost.name,
        f"{cost.cpus:.2f}",
        f"{sum(vcpu.cpus for vcpu in cost.vcpus):.2f}" if cost.vcpus else "-",
        "-" if cost.stolen is None else f"{100 * cost.stolen:.1f} %",
        f"{cost.device_cpus:.2f}",
        f"{cost.vhost_cpus:.2f}",
        rate(cost.exits_per_s),
        rate(cost.kicks_per_s),
        rate(cost.notifications_per_s),
        rate(cost.kicks_per_notification, 2),
    )


def _vcpus(cost: MachineCost) -> str:
    if not cost.vcpus:
        return "vCPUs not told apart: QEMU was started without debug-threads=on"
    worst = max(cost.vcpus, key=lambda vcpu: vcpu.stolen)
    number = f"{len(cost.vcpus)} vCPU" + ("s" if len(cost.vcpus) > 1 else "")
    return f"{cost.accelerator}, {number}, most stolen of vCPU {worst.number}: {100 * worst.stolen:.1f} %"
