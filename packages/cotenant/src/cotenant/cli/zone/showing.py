"""Zones as text, for `cotenant zone` and `cotenant explain zone`. The values are those of
services/zones/state_file.py.
"""

from __future__ import annotations

import time

from cotenant.model.json_object import JsonObject


def summary(state: JsonObject) -> str:
    """One line: state, setting, whether it runs."""
    running = "" if state["running"] or state["state"] == "gone" else " (its process ended)"
    return f"{state['zone']}: {state['state']}, {state['setting']}, {_groups(len(state['rows']))}{running}"


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
    lines += [_pod(name, pod) for name, pod in state.get("pods", {}).items()]
    reading = state["reading"]
    if not state["rows"]:
        lines.append("  no pod of this node is selected now")
    for group, row in state["rows"].items():
        seen = (reading or {"groups": {}})["groups"].get(group)
        use = f"; {seen['late']} late dispatches, {seen['cpuUs'] / 1e6 / reading['seconds']:.2f} CPUs" if seen else ""
        lines.append(f"  {group}: {_row(row)}{use}")
    lines += [f"  not tried again for {left:.0f} s: {setting}" for setting, left in state["banned"].items()]
    return lines


def _pod(name: str, pod: JsonObject) -> str:
    if pod["running"]:
        now = "runs, ready" if pod["ready"] else "runs, not ready"
    else:
        now = "not started" if pod["exit"] is None else f"ended with status {pod['exit']}"
    last = f"; {pod['log'][-1]}" if pod["log"] and not pod["running"] else ""
    return f"  pod {name}: {now}, started again {pod['restarts']} times{last}"


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


def _row(row: dict[str, object]) -> str:
    return (
        f"{row['class']}, weight {row['weight'] or 'own'}, slice {row['sliceUs'] or 'usual'} us,"
        f" late above {row['lateUs'] or '-'} us"
    )


def _groups(number: int) -> str:
    return "1 group" if number == 1 else f"{number} groups"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
