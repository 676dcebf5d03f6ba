"""A command that brings a group up or down.

It says for what it waits and for how long, how far the group is, and what to do when nobody came.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass

from cotenant.drivers.nats.contract import Bus
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.model.fleet.durations import duration_s
from cotenant.model.fleet.group import GroupGoal, GroupOutcome
from cotenant.model.fleet.refusal import NobodyAnswers, Overdue
from cotenant.model.fleet.requests import Down, List, Listed, Restart, Up
from cotenant.services.fleet.operator import ANEW_S, CONNECT_S, CONTROLLER_S, Waiting, ask, connected
from cotenant.services.fleet.places import BusOptions
from cotenant.services.fleet.rpc import LONGEST_S, call
from cotenant.services.running import cancelled

_LIST_S = 3.0
_GOALS: dict[str, str] = {
    GroupGoal.UP: "on its way up",
    GroupGoal.AGAIN: "being removed, to be made again",
    GroupGoal.GONE: "being removed",
}


@dataclass(frozen=True, slots=True)
class GroupWait:
    """How long a command waits: `wait_s` for a bus and a controller to be there, `timeout_s` for the outcome."""

    wait_s: float = CONTROLLER_S
    timeout_s: float = LONGEST_S

    @classmethod
    def read(cls, wait: str, timeout: str) -> GroupWait:
        """As a command was told. Raises `InvalidInput`."""
        wait_s, timeout_s = duration_s("--wait", wait), duration_s("--timeout", timeout)
        if not 1 <= timeout_s <= LONGEST_S:
            raise InvalidInput("--timeout", timeout, f"1s to {LONGEST_S / 60:g}m")
        return cls(wait_s, timeout_s)


def bring_group(options: BusOptions, verb: str, request: Up | Down | Restart, waits: GroupWait) -> GroupOutcome:
    """The outcome, by whichever controller is there then. Raises what was answered."""

    async def asked() -> GroupOutcome:
        async with connected(options, max(CONNECT_S, waits.wait_s)) as (bus, operator):
            return await bring(bus, operator, verb, request, waits, _tell)

    return asyncio.run(asked())


async def bring(
    bus: Bus,
    operator: str,
    verb: str,
    request: Up | Down | Restart,
    waits: GroupWait,
    tell: Callable[[str], None],
) -> GroupOutcome:
    """As `bring_group`, on a connection. `tell`: what happens meanwhile."""
    name = request.template.name if isinstance(request, Up) else request.name
    watching = asyncio.create_task(_watch(bus, operator, name, tell), name="progress")
    loop, waiting = asyncio.get_running_loop(), Waiting(waits.wait_s, tell)
    try:
        return await ask(
            bus, operator, verb, request, GroupOutcome, waits.timeout_s, loop.time, anew_s=ANEW_S, waiting=waiting
        )
    except NobodyAnswers as error:
        wait = f"start one (`cotenant fleet serve`), or wait longer (--wait {_longer(waits.wait_s)})"
        raise Transient(f"no controller answered within {waits.wait_s:g} s; {wait}") from error
    except Overdue as error:
        raise Overdue(
            f"group {name} is not where it is to be within {waits.timeout_s:g} s, and it goes on; "
            f"`cotenant fleet inspect {name}` says how far it is, --timeout waits longer"
        ) from error
    finally:
        await cancelled([watching])


async def _watch(bus: Bus, operator: str, name: str, tell: Callable[[str], None]) -> None:
    """Tell how far the group is, where it takes longer, as often as that changes."""
    said = ""
    while True:
        await asyncio.sleep(ANEW_S)
        try:
            found = progress(name, await call(bus, f"fleet.{operator}.rpc.list", List(name), Listed, _LIST_S))
        except CotenantError:
            continue  # no right to look, or nobody there, which is told elsewhere
        if found and found != said:
            said = found
            tell(said)


def progress(name: str, listed: Listed) -> str:
    """How far a group is, in one line; empty where it is where it is to be, or is not there."""
    group = next((group for group in listed.groups if group.name == name), None)
    if group is None or group.done:
        return ""
    there = {container.guid: container for row in listed.hosts if row.beat for container in row.beat.containers}
    states = []
    for member in group.members:
        status = there.get(member.guid)
        detail = f" ({status.detail})" if status is not None and status.detail else ""
        states.append(f"{member.appkey} {status.state.value if status is not None else 'not there'}{detail}")
    return "; ".join(part for part in (f"{name} is {_GOALS[group.goal]}", ", ".join(states), group.reason) if part)


def _tell(text: str) -> None:
    print(f"cotenant: {text}", file=sys.stderr, flush=True)


def _longer(wait_s: float) -> str:
    return "1m" if wait_s < 60 else f"{round(wait_s * 2)}s"
