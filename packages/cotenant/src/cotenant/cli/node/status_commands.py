"""`cotenant node status`, `watch`, `explain` and `knobs`: from the agent where one runs, else read from the node
itself.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic, sleep, time

from cotenant.cli import tables
from cotenant.cli.node.card_lines import card_lines
from cotenant.drivers.cgroup.layout import CgroupLayout, detect
from cotenant.drivers.leasefile.audit import changes
from cotenant.drivers.nri.state_file import PATH as HOOK_STATE
from cotenant.model.counted import counted
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient
from cotenant.model.json_object import JsonMapping
from cotenant.model.machine.knob import LeaseState
from cotenant.model.machine.node_state import GroupUse
from cotenant.services.agent_settings.config import read_config
from cotenant.services.clients.agent import AgentClient
from cotenant.services.knobs.host import Left, put_back, read_left
from cotenant.services.nodeview.capabilities import MEASURE, WRITE, capabilities, of_agent
from cotenant.services.nodeview.node_reading import NodeLooker, ObservedInterval

_INTERVAL_S = 1.0
_OVER = (LeaseState.RESTORED, LeaseState.YIELDED, LeaseState.GONE)
_GIB = 1 << 30


def status(agent: str, groups: int, config: Path | None, as_json: bool) -> int:
    """The machine, its busiest groups, what the agent holds, and what this machine can and cannot do."""
    _check_groups(groups)
    layout = detect()
    answer = _of_agent(agent)
    look = _looked(layout, _INTERVAL_S)
    found = capabilities(layout, hook_state(config, answer))
    gaps = _gaps(answer)
    if gaps is not None:
        found = of_agent(found, gaps)
    if as_json:
        print(
            json.dumps(
                {
                    "agent": answer,
                    "cgroups": layout.kind.value,
                    "interval_us": look.interval_us,
                    "host": asdict(look.host),
                    "groups": [asdict(group) for group in look.groups[:groups]],
                    "gpus": [asdict(gpu_counters) for gpu_counters in look.gpus],
                    "capabilities": [asdict(capability) for capability in found],
                }
            )
        )
        return 0
    host = look.host
    memory = f"memory {host.memory_used_bytes / _GIB:.1f} of {host.memory_total_bytes / _GIB:.1f} GiB"
    tables.print_line(
        f"{_cpu(host.cpu_m)} of {host.cpus} CPUs in use, {memory}; cgroups: {layout.kind.value}", strong=True
    )
    tables.print_line(
        f"some task waited: for a CPU {_share(host.cpu_stall_ppm)} of the time, for memory "
        f"{_share(host.memory_stall_ppm)}, for I/O "
        f"{_share(host.io_stall_ppm)}; stolen by the hypervisor {_share(host.steal_ppm)}"
    )
    for line in card_lines(look.gpus, answer):
        tables.print_folded(line)
    print_agent(agent, answer)
    _print_groups(look.groups[:groups], answer)
    if look.more or len(look.groups) > groups:
        tables.print_line(
            f"the busiest {min(groups, len(look.groups))} of {len(look.groups)}{' or more' if look.more else ''} groups"
        )
    print()
    for kind, title in ((MEASURE, "measures"), (WRITE, "writes")):
        there = [capability.what for capability in found if capability.kind == kind and capability.is_there]
        tables.print_folded(f"{title}: {', '.join(there) or 'nothing'}")
    lacking: dict[str, list[str]] = {}
    for capability in found:
        if not capability.is_there:
            lacking.setdefault(capability.needs, []).append(capability.what)
    if lacking:
        tables.print_words(
            ("not available here", "requires"), [(", ".join(what), needs) for needs, what in lacking.items()]
        )
    return 0


def watch(agent: str, groups: int, every_s: float, count: int | None, as_json: bool) -> int:
    """The same repeatedly, until interrupted or `count` times."""
    _check_groups(groups)
    if not 0.1 <= every_s <= 3600:
        raise InvalidInput("--every", every_s, "seconds, 0.1 to 3600")
    if count is not None and count < 1:
        raise InvalidInput("--count", count, "1 or more")
    layout = detect()
    done = 0
    try:
        with NodeLooker(layout) as looker:
            looker.interval()
            due = monotonic() + every_s
            while count is None or done < count:
                sleep(max(0.0, due - monotonic()))
                due = max(due + every_s, monotonic())
                look = looker.interval()
                if look is None:
                    continue
                done += 1
                answer = _of_agent(agent)
                if as_json:
                    line = {"at_s": round(time(), 3), "agent": answer, "host": asdict(look.host)}
                    print(json.dumps(line | {"groups": [asdict(group) for group in look.groups[:groups]]}), flush=True)
                    continue
                if sys.stdout.isatty():
                    print("\033[H\033[2J", end="")
                _print_moment(look, groups, answer)
                sys.stdout.flush()
    except KeyboardInterrupt:
        return 0
    return 0


def _check_groups(groups: int) -> None:
    if groups < 0:
        raise InvalidInput("--groups", groups, "0 or more")


def explain(subject: str, agent: str, state_dir: Path, as_json: bool) -> int:
    """Why a group or pod is limited: the agent's explanation, else the contents of the state folder."""
    if not subject.strip("/"):
        raise InvalidInput("GROUP", subject, "a group's path, a pod's namespace/name, or its UID")
    client = AgentClient(agent)
    try:
        try:
            explanation = client.get("/v1/explain", group=subject)
        except Permanent:
            explanation = client.get("/v1/explain", pod=subject)
    except Transient as error:
        return _explain_without(subject.strip("/"), str(error), state_dir, as_json)
    if as_json:
        print(json.dumps(explanation))
        return 0
    for line in explanation["text"]:
        tables.print_folded(line)
    return 0


def knobs(agent: str, state_dir: Path, restore: bool, as_json: bool) -> int:
    """The held knobs and their original values; with `restore`, restore those left by an agent that no longer runs."""
    if restore:
        return _restore(state_dir, as_json)
    left = Left()
    why = ""
    try:
        found = AgentClient(agent).get("/v1/leases")["leases"]
        source = f"the agent at {agent}"
    except Transient as error:
        why = f"{error}; "
        if not state_dir.is_dir():
            raise Permanent(f"{why}and there is no folder {state_dir}: the held knobs are not known") from None
        left = read_left(state_dir)
        found = [_plain(asdict(lease)) for lease in left.leases]
        source = str(state_dir)
    if as_json:
        faults = [str(fault) for fault in left.faults]
        answer = {"source": source, "keeper": left.keeper, "leases": found, "earlier_boot": left.earlier_boot}
        print(json.dumps(answer | {"faults": faults, "aside": [str(path) for path in left.aside]}))
        return 0
    for fault in left.faults:
        tables.print_folded(f"unreadable: {fault}")
    for path in left.aside:
        tables.print_folded(f"an earlier unreadable state file is kept as {path}; inspect and remove it")
    if left.earlier_boot:
        tables.print_line(f"{left.earlier_boot} of an earlier boot: their groups no longer exist")
    if not found:
        tables.print_folded(f"{why}no knob is held, according to {source}")
        return 0
    rows = [
        (
            f"/{entry['target']['group']}",
            entry["target"]["knob"],
            entry["before"] or entry["raw_before"] or "(empty)",
            entry["value"],
            entry["state"],
            entry["reason"]["rule"],
        )
        for entry in found
    ]
    tables.print_words(("group", "knob", "before", "held at", "state", "rule"), rows)
    tables.print_line(f"{len(found)} held, according to {source}")
    if source == str(state_dir) and left.keeper is None:
        tables.print_folded(
            f"No running keeper holds them. To restore them: cotenant node knobs --restore --state-dir {state_dir}"
        )
    return 0


def _restore(state_dir: Path, as_json: bool) -> int:
    if not os.path.isdir(state_dir):  # after a crash, "nothing was held" would be misleading
        raise InvalidInput("--state-dir", str(state_dir), "the state folder of a keeper, or of an agent with --single")
    try:
        done = put_back(state_dir, None)
    except OSError as error:
        raise Permanent(
            f"{state_dir}: {error.strerror}; restoring knobs requires the keeper's user, usually root"
        ) from error
    answers = done.answers
    left = [lease_answer for lease_answer in answers if lease_answer.state not in _OVER]
    if as_json:
        answer = [_plain(asdict(lease_answer)) for lease_answer in answers]
        faults = [str(fault) for fault in done.faults]
        counts = {"restored": len(answers) - len(left), "left": len(left), "faults": faults}
        print(json.dumps(counts | {"aside": str(done.aside) if done.aside else None, "answers": answer}))
    else:
        rows = [
            (
                f"/{lease_answer.target.group}",
                lease_answer.target.knob.value,
                lease_answer.state.value,
                lease_answer.detail,
            )
            for lease_answer in answers
        ]
        if rows:
            tables.print_words(("group", "knob", "now", "detail"), rows)
        tables.print_line(
            f"{len(answers) - len(left)} over, {len(left)} still to be restored" if rows else "nothing was held"
        )
        for fault in done.faults:
            tables.print_folded(f"unreadable, kept in {done.aside}: {fault}")
    return 1 if left or done.faults else 0


def _explain_without(group: str, why: str, state_dir: Path, as_json: bool) -> int:
    if state_dir.exists() and not state_dir.is_dir():
        raise InvalidInput("--state-dir", str(state_dir), "a folder")
    held = [knob_lease for knob_lease in read_left(state_dir).leases if knob_lease.target.group == group]
    trail = [knob_change for knob_change in changes(state_dir) if knob_change.target.group == group][-20:]
    if not held and not trail:
        raise Permanent(f"{why}, and {state_dir} has nothing about /{group}")
    if as_json:
        answer = {
            "held": [_plain(asdict(knob_lease)) for knob_lease in held],
            "changes": [_plain(asdict(knob_change)) for knob_change in trail],
        }
        print(json.dumps({"group": group, "agent": why} | answer))
        return 0
    tables.print_line(f"/{group}", strong=True)
    tables.print_folded(f"{why}; this is from {state_dir}")
    for lease in held:
        tables.print_folded(
            f"  {lease.target.knob} is held at {lease.value}, originally {lease.before or lease.raw_before}: "
            f"{lease.reason.text}"
        )
    for change in trail:
        tables.print_folded(
            f"  {change.target.knob} {change.before} -> {change.after} ({change.result}): {change.cause.text}"
        )
    return 0


def _of_agent(agent: str) -> dict[str, object]:
    """The agent's state, pods and knobs; where no agent answers, the error."""
    client = AgentClient(agent)
    try:
        state = client.get("/v1/state")
        return {"up": True, "said": "", "state": state, "holds": client.get("/v1/holds")["holds"]}
    except CotenantError as error:
        if isinstance(error, InvalidInput):
            raise
        return {"up": False, "said": str(error)}


def _gaps(answer: dict[str, object]) -> dict[str, str] | None:
    """What the agent that answered lacks; None where none did."""
    state = answer.get("state")
    if not isinstance(state, dict):
        return None
    return {str(gap["what"]): str(gap["needs"]) for gap in state.get("gaps") or ()}


def hook_state(config: Path | None, answer: dict[str, object]) -> Path:
    """Where the runtime hook says how it is: as the named file has it, else the agent that runs, else as usual.

    Raises `InvalidInput`.
    """
    if config is not None:
        try:
            return read_config(config).runtime_hook.state_file
        except InvalidInput as error:
            raise error.of("--config") from None
    state = answer.get("state")
    said = state.get("runtime_hook_state") if isinstance(state, dict) else None
    return Path(str(said)) if said else HOOK_STATE


def _looked(layout: CgroupLayout, seconds: float) -> ObservedInterval:
    with NodeLooker(layout) as looker:
        looker.interval()
        sleep(seconds)
        look = looker.interval()
    if look is None:
        raise Permanent("the clock stood still between two samples")
    return look


def _print_moment(look: ObservedInterval, groups: int, answer: JsonMapping) -> None:
    host = look.host
    tables.print_line(
        f"{_cpu(host.cpu_m)} of {host.cpus} CPUs; waited: CPU {_share(host.cpu_stall_ppm)}, memory "
        f"{_share(host.memory_stall_ppm)}, I/O "
        f"{_share(host.io_stall_ppm)}; agent {'up' if answer['up'] else 'down'}",
        strong=True,
    )
    _print_groups(look.groups[:groups], answer)


def print_agent(agent: str, answer: JsonMapping) -> None:
    """What an agent answered, or that none did."""
    if not answer["up"]:
        tables.print_folded(answer["said"])
        return
    state = answer["state"]
    shares = state.get("gpu_shares")
    for line in (state.get("remark"), *state.get("failing", ()), state.get("kubelet"), state.get("holdings"), shares):
        if line:
            tables.print_folded(line)
    keeper = {
        True: "its keeper is up",
        False: f"its keeper is unreachable ({state['keeper_said']})",
        None: "it holds nothing",
    }
    tables.print_folded(
        f"agent: {state['node']}, mode {state['mode']}, {counted(len(state['pods']), 'pod')}, "
        f"{counted(len(answer['holds']), 'knob')}; {keeper[state['keeper_up']]}"
    )


def _print_groups(groups: Sequence[GroupUse], answer: JsonMapping) -> None:
    pods = {entry["group"]: entry for entry in answer["state"]["pods"]} if answer["up"] else {}
    held: dict[str, list[str]] = {}
    for entry in answer.get("holds", ()):
        if entry["state"] == "held":
            held.setdefault(entry["target"]["group"], []).append(f"{entry['target']['knob']}={entry['value']}")
    rows = []
    for use in groups:
        pod = pods.get(use.group, {})
        row = [
            _short(use.group),
            _cpu(use.cpu_m),
            _share(use.run_delay_ppm),
            _share(use.cpu_stall_ppm),
            _bytes(use.working_set_bytes),
            "–" if use.tasks is None else str(use.tasks),
        ]
        if answer["up"]:
            row += [pod.get("qos", ""), ", ".join(held.get(use.group, ()))]
        rows.append(row)
    headings = ["group", "CPU", "waiting", "stalled", "memory", "tasks", *(("class", "held") if answer["up"] else ())]
    if rows:
        tables.print_words(headings, rows, right=("CPU", "waiting", "stalled", "memory", "tasks"))


def _plain(value: object) -> object:
    return json.loads(json.dumps(value, default=str))


def _short(group: str, most: int = 44) -> str:
    return f"/{group}" if len(group) < most else f"…{group[-most + 1 :]}"


def _cpu(milli: int | None) -> str:
    return "–" if milli is None else f"{milli / 1000:.2f}"


def _share(ppm: int | None) -> str:
    return "–" if ppm is None else f"{ppm / 10_000:.0f} %"


def _bytes(value: int | None) -> str:
    if value is None:
        return "–"
    return f"{value / _GIB:.1f} GiB" if value >= _GIB else f"{value / (1 << 20):.0f} MiB"
