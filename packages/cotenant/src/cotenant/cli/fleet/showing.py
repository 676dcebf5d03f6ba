"""How answers of a fleet are shown: tables for people, one JSON object for programs."""

from __future__ import annotations

import sys

import msgspec

from cotenant.cli import tables
from cotenant.model.fleet.configuration import USUAL_FUNCTIONS
from cotenant.model.fleet.group import GroupOutcome
from cotenant.model.fleet.host import HostContainer
from cotenant.model.fleet.methods import MethodList
from cotenant.model.fleet.requests import GroupRow, HostRow, Inspected, Limited, Listed, Member, Spread
from cotenant.model.fleet.states import AgentState
from cotenant.model.printable import printable

_MIB = 1 << 20
FAILED = 1


def show_outcome(outcome: GroupOutcome, asked: str, as_json: bool) -> int:
    """The end of `up`, `down` or `restart`."""
    is_up = asked == "up"
    failed = bool(outcome.left) or (is_up and not outcome.guids)
    if as_json:
        _print_json(outcome)
        return FAILED if failed else 0
    if is_up and outcome.guids:
        print(f"{outcome.name} is up")
        for appkey, guid in outcome.guids.items():
            print(f"  {appkey}: {guid}")
    elif is_up:
        print(f"{outcome.name} is not up: {outcome.reason}", file=sys.stderr)
        if not outcome.left:
            print("  nothing of it is left", file=sys.stderr)
    elif not failed:
        print(f"{outcome.name} is gone")
    for line in outcome.left:
        print(f"  left, and removed when that is possible: {line}", file=sys.stderr)
    return FAILED if failed else 0


def show_containers(listed: Listed, as_json: bool) -> int:
    """One line for each container."""
    if as_json:
        _print_json(listed)
        return 0
    rows = [
        _container(host, status)
        for host in listed.hosts
        for status in (host.beat.containers if host.beat is not None else ())
    ]
    if rows:
        headings = ("guid", "group", "appkey", "state", "host", "CPU", "memory", "limits")
        tables.print_words(headings, sorted(rows, key=lambda row: (row[1], row[2])), right=("CPU", "memory"))
    else:
        print("no containers")
    for group in listed.groups:
        if not group.done or group.reason:
            print(_group(group))
    return 0


def show_hosts(listed: Listed, as_json: bool) -> int:
    """One line for each host."""
    if as_json:
        _print_json(listed)
        return 0
    if not listed.hosts:
        print("no hosts: does an agent run (cotenant fleet agent)?")
        return 0
    headings = ("guid", "host", "state", "role", "platform", "tags", "containers", "CPU", "load", "off or at fault")
    tables.print_words(headings, [_host(row) for row in listed.hosts], right=("containers", "CPU", "load"))
    for row in listed.hosts:
        for reason in row.beat.refused if row.beat is not None else ():
            print(f"{row.registration.guid} refuses its configuration: {reason}")
    return 0


def show_inspected(guid: str, answer: Inspected, as_json: bool) -> int:
    """Facts by name."""
    if as_json:
        _print_json(answer)
        return 0
    print(guid)
    facts = dict(answer.facts)
    if answer.status is not None:
        status = answer.status
        facts = {"state": f"{status.state.value}{f' ({status.detail})' if status.detail else ''}", **facts}
        if status.group:
            facts["group"] = f"{status.group}, as {status.appkey}"
        if status.host_ports:
            facts["ports"] = ", ".join(status.host_ports)
        if status.limits:
            facts["limits"] = ", ".join(status.limits)
    for name, value in facts.items():
        print(f"  {name}: {value}")
    return 0


def show_group(listed: Listed, as_json: bool) -> int:
    """One group: where it is to be, and each member, there or not."""
    (group,) = listed.groups
    if as_json:
        _print_json(group)
        return 0
    there = {
        status.guid: f"{status.state.value}{f' ({status.detail})' if status.detail else ''}"
        for host in listed.hosts
        for status in (host.beat.containers if host.beat is not None else ())
    }
    hosts = {host.registration.guid: host.registration.hostname for host in listed.hosts}
    print(group.name)
    print(f"  state: {'up' if group.done and group.goal == 'up' else _group(group).partition(': ')[2]}")
    for member in group.members:
        place = f"{member.image}, on {hosts.get(member.agent, member.agent)}"
        print(printable(f"  {member.appkey}: {member.guid}, {there.get(member.guid, 'not there')}, {place}"))
    return 0


def show_limits(guid: str, answer: Limited, as_json: bool) -> int:
    """What stands."""
    if as_json:
        _print_json(answer)
        return 0
    print(f"{guid}: {', '.join(answer.lines) or 'no limits'}")
    return 0


def show_all_limits(listed: Listed, as_json: bool) -> int:
    """What stands anywhere, one line for each container."""
    limited = {
        status.guid: status.limits
        for host in listed.hosts
        for status in (host.beat.containers if host.beat is not None else ())
        if status.limits
    }
    if as_json:
        _print_json(limited)
        return 0
    for guid, limits in limited.items():
        print(f"{guid}: {', '.join(limits)}")
    if not limited:
        print("no limits")
    return 0


def show_spread(role: str, platform: str, answer: Spread, as_json: bool) -> int:
    """Who uses a new configuration, and who does not."""
    if as_json:
        _print_json(answer)
    else:
        print(f"configuration {answer.revision} of {role} on {platform}: {answer.applied} agents use it")
        for guid, reason in answer.refused.items():
            print(f"  {guid}: {reason}")
    return FAILED if answer.refused else 0


def show_methods(guid: str, found: MethodList, as_json: bool) -> int:
    """Methods as signatures."""
    if as_json:
        _print_json(found)
        return 0
    print(printable(f"{guid}: {found.program} {found.version}"))
    for method in found.methods:
        parameters = ", ".join(
            f"{parameter.name}: {parameter.form}{'' if parameter.default is None else f' = {parameter.default}'}"
            for parameter in method.parameters
        )
        print(printable(f"  {method.name}({parameters}) -> {method.result}   within {method.deadline_s:g} s"))
        if method.about:
            print(printable(f"      {method.about}"))
    return 0


def show_result(result: bytes, as_json: bool) -> int:
    """A method's result: JSON, indented for people; a text as it is."""
    if as_json:
        print(result.decode())
        return 0
    found = msgspec.json.decode(result)
    shown = found if isinstance(found, str) else msgspec.json.format(result, indent=2).decode()
    for line in shown.split("\n"):
        print(printable(line))
    return 0


def _container(host: HostRow, status: HostContainer) -> tuple[str, ...]:
    return (
        status.guid,
        status.group,
        status.appkey,
        f"{status.state.value}{f' ({status.detail})' if status.detail else ''}",
        host.registration.hostname,
        f"{status.cpu_milli / 1000:.2f}" if status.cpu_milli is not None else "",
        f"{status.memory_bytes / _MIB:.1f} MiB" if status.memory_bytes is not None else "",
        ", ".join(status.limits),
    )


def _host(row: HostRow) -> tuple[str, ...]:
    beat, registration = row.beat, row.registration
    state = row.state.value if row.state is AgentState.ALIVE else f"{row.state.value} for {row.silent_s:.0f} s"
    functions = beat.functions if beat is not None else ()
    notes = ["two agents have this guid: start one with --guid"] if row.is_doubled else []
    notes += [
        f"{function.name}: {function.fault or 'off'}"
        for function in functions
        if function.fault or (not function.is_on and function.name in USUAL_FUNCTIONS)
    ]
    return (
        registration.guid,
        registration.hostname,
        state,
        registration.role,
        registration.platform,
        ", ".join(registration.tags),
        str(len(beat.containers)) if beat is not None else "",
        f"{beat.cpu_milli / 1000:.2f}" if beat is not None else "",
        f"{beat.load:.2f}" if beat is not None else "",
        "; ".join(notes),
    )


def group_of_labels(name: str, listed: Listed) -> GroupRow | None:
    """A group without a record, as after its store was lost; None where no container names it either."""
    members = tuple(
        Member(status.guid, host.registration.guid, status.appkey, status.image)
        for host in listed.hosts
        for status in (host.beat.containers if host.beat is not None else ())
        if status.group == name
    )
    said = f"known by its containers' labels only: cotenant fleet down {name} removes it"
    return GroupRow(name, "", False, said, len(members), members) if members else None


def _group(group: GroupRow) -> str:
    if not group.goal:
        return f"group {group.name}: {group.reason}"
    if group.goal == "gone":
        return f"group {group.name}: {'undone' if group.done else 'being undone'}: {group.reason}"
    return f"group {group.name}: on its way to {group.goal}"


def _print_json(answer: object) -> None:
    print(msgspec.json.encode(answer).decode())
