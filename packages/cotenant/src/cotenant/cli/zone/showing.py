"""Zones as text, for `cotenant zone` and `cotenant explain zone`. The values are those of
services/zones/state_file.py.
"""

from __future__ import annotations

import time

from cotenant.model.counted import counted
from cotenant.model.json_object import JsonObject
from cotenant.services.zones.state_file import lacking_mib


def summary(state: JsonObject) -> str:
    """One line: state, setting, whether it runs."""
    running = "" if state["running"] or state["state"] == "gone" else " (its process ended)"
    return f"{state['zone']}: {state['state']}, {state['setting']}, {counted(len(state['rows']), 'group')}{running}"


def inspected(state: JsonObject) -> list[str]:
    """Setting, rows and the last reading."""
    running = f"process {state['pid']}" if state["running"] else "does not run"
    lines = [f"{state['zone']}: {state['state']}, {state['setting']}, {running}"]
    if "vm" in state:
        vm = state["vm"]
        lines.append(
            f"  virtual machine: Linux {vm['kernel']} under {vm['accelerator']}, {vm['cpus']} CPU, {vm['memoryMib']} "
            "MiB,"
            f" ready in {vm['bootSeconds']} s, host group {vm['group'] or 'of the keeper'}"
        )
        if "preempt" in vm:
            lines.append(f"  kernel: preempt={vm['preempt'] or 'unknown'}, {vm['hz']} ticks a second")
        lines += _quotas(vm, state.get("machines", {}))
    lines += monitors(state.get("monitors", {}))
    lines += [_pod(name, pod) for name, pod in state.get("pods", {}).items()]
    reading = state["reading"]
    if not state["rows"]:
        lines.append("  no pod of this node is selected now")
    for group, row in state["rows"].items():
        seen = (reading or {"groups": {}})["groups"].get(group)
        use = ""
        if seen:
            late = counted(int(seen["late"]), "late dispatch", "late dispatches")
            use = f"; {late}, {seen['cpuUs'] / 1e6 / reading['seconds']:.2f} CPUs{_felt(seen)}"
        lines.append(f"  {group}: {_row(row)}{use}")
    lines += [f"  {state['unprotected']}"] if "unprotected" in state else []
    for group, series in state.get("reclaimed", {}).items():
        rest = ", let alone: its memory is in use" if series["inUse"] else ""
        lines.append(f"  {group}: {int(series['askedBytes']) >> 20} MiB asked for by reclaim until now{rest}")
    lines += _scenes(state.get("scenes"), "/" in state["setting"])
    lines += [f"  not tried again for {left:.0f} s: {setting}" for setting, left in state["banned"].items()]
    return lines


def _quotas(machine: JsonObject, together: JsonObject) -> list[str]:
    """What a machine may have besides its memory and vCPUs, and all machines of the host against the keeper's most."""
    lines = []
    if "diskMib" in machine:
        cpu = f"{machine['cpuMilli'] / 1000:g} CPUs at most" if machine["cpuMilli"] else "no limit of CPU time"
        used = f"images take {machine['diskBytes'] / (1 << 20):.0f} of {machine['diskMib']} MiB"
        lines.append(f"  limits: {cpu}, {used}")
    if together:
        memory, vcpus, disk = together["memoryMib"], together["vcpus"], together["diskMib"]
        lines.append(
            f"  all machines of this host: {memory[0]} of {memory[1]} MiB, {vcpus[0]} of {vcpus[1]} vCPUs, "
            f"{disk[0]} of {disk[1]} MiB for images"
        )
        lacking = lacking_mib(together)
        if lacking:
            kept = f"  pods may take {lacking} MiB of it: this node keeps {together['keptBackMib']} MiB back from them"
            lines.append(f"{kept}; raise systemReserved of its kubelet")
    return lines


def _felt(seen: JsonObject) -> str:
    """What a group's objective and its memory and disk say, where they are known."""
    burn = f", burn rate {seen['burn']:.2f}" if "burn" in seen else ""
    if "memoryStall" not in seen:
        return burn
    return f"{burn}, waited {_percent(seen['memoryStall'])} for memory, {_percent(seen['ioStall'])} for its disk"


def monitors(figures: JsonObject) -> list[str]:
    """A line for the guest's side of a machine and one for the host's; none before the second reading."""
    if not figures:
        return []
    front, back = figures["frontEnd"], figures["backEnd"]
    kicks = ", queues not traced"
    if back["kicks_per_s"] is not None:
        ratio = back["kicks_per_notification"]
        mean = "" if ratio is None else f", {ratio:.2f} kicks a notification"
        kicks = f", {back['kicks_per_s']:.0f} kicks and {back['notifications_per_s']:.0f} notifications a second{mean}"
    exits = "" if back["exits_per_s"] is None else f", {back['exits_per_s']:.0f} exits a second"
    return [
        f"  front end: {_shown(front['runnable'], '')} runnable, {_shown(front['wait_ms'], ' ms')} waited a turn, "
        f"softirq {_shown(front['softirq_cpus'], ' CPUs')}, steal {_shown(front['steal_cpus'], ' CPUs')}, "
        f"pressure of CPU {_percent(front['cpu_pressure'])}, memory {_percent(front['memory_pressure'])}, io "
        f"{_percent(front['io_pressure'])}",
        f"  back end: vCPUs {back['vcpu_cpus']:.2f} CPUs, {_percent(back['stolen'])} stolen, devices "
        f"{back['device_cpus']:.2f}, virtiofsd {back['share_cpus']:.2f}, vhost {back['vhost_cpus']:.2f}{kicks}{exits}",
    ]


def _shown(value: float | None, unit: str) -> str:
    return "?" if value is None else f"{value:g}{unit}"


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.1f} %"


def _scenes(scenes: JsonObject | None, loads: bool) -> list[str]:
    """The scene now with its evidence, and what each mode brought in each scene. `loads`: a kernel scheduler runs."""
    if scenes is None:
        return ["  scenes: not learned; policy: {scenes: true} in its file switches it on"] if loads else []
    evidence = ", ".join(f"{name} {value}" for name, value in scenes["evidence"].items())
    lines = [f"  scene: {scenes['now']} ({evidence})"] if scenes["now"] else []
    if scenes["learned"]:
        kept = f", {scenes['restored']} of them before the last start" if scenes["restored"] else ""
        lines.append(f"    learned of {counted(int(scenes['readings']), 'reading')}{kept}; outcomes 0 to 1:")
    for scene, modes in scenes["learned"].items():
        found = sorted(modes.items(), key=lambda pair: -float(pair[1]["outcome"]))
        told = ", ".join(f"{mode} {known['outcome']:.3f} of {known['readings']}" for mode, known in found)
        lines.append(f"    {scene}: {told}")
    return lines


def _pod(name: str, pod: JsonObject) -> str:
    if pod["running"]:
        now = "runs, ready" if pod["ready"] else "runs, not ready"
    else:
        now = "not started" if pod["exit"] is None else f"ended with status {pod['exit']}"
    last = f"; {pod['log'][-1]}" if pod["log"] and not pod["running"] else ""
    return f"  pod {name}{ports(pod)}: {now}, started again {counted(int(pod['restarts']), 'time')}{last}"


def ports(pod: JsonObject) -> str:
    """Where a pod's ports are reached, in brackets."""
    told = [
        f"{port['address']}:{port['host']} -> {port['container']}" if port.get("host") else str(port["container"])
        for port in pod.get("ports") or ()
    ]
    return f" ({', '.join(told)})" if told else ""


def story(change: JsonObject) -> list[str]:
    """A change as its event, its rule, what was changed, and what that brought."""
    verdict = {True: "kept", False: "undone", None: "on trial"}[change["kept"]]
    outcome = str(change["outcome"]).removeprefix("kept: ")
    lines = [f"{_clock(change['at'])} {change['what']}"]
    if change["event"] != change["reason"]:
        lines.append(f"  event   {change['event']}")
    lines.append(f"  rule    {change['rule']}: {change['reason']}")
    for group, row in change["rows"].items():
        lines.append(f"  row     {group}: {_row(row['before'])} -> {_row(row['after'])}")
    lines.append(f"  result  {verdict}{f': {outcome}' if outcome else ''}")
    return lines


def logged(entry: JsonObject) -> str:
    """A line of a zone's log."""
    return f"{_clock(entry['at'])} {entry['text']}"


def _row(row: JsonObject) -> str:
    return (
        f"{row['class']}, weight {row['weight'] or 'own'}, slice {row['sliceUs'] or 'usual'} us,"
        f" late above {row['lateUs'] or '-'} us"
        + (f", memory.low {int(row['memoryLowBytes']) >> 20} MiB" if "memoryLowBytes" in row else "")
        + (f", io.weight {row['ioWeight']}" if "ioWeight" in row else "")
        + (f", reclaimed to {int(row['reclaimToBytes']) >> 20} MiB" if "reclaimToBytes" in row else "")
        + (f", party {row['party']}" if "party" in row else "")
        + "".join(f", {name} {kind}" for name, kind in row.get("threads", {}).items())
    )


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
