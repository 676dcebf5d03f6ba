"""Which of the hosts that an operator reaches may be used for a group now, and which each container goes to."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.engine.fleet.placing import HostRoom, check_volumes, place
from cotenant.engine.fleet.registry import RegisteredHost
from cotenant.model.errors import Permanent, Transient
from cotenant.model.fleet.states import AgentState
from cotenant.model.fleet.template import GroupTemplate


def placed_on(
    template: GroupTemplate, hosts: Sequence[RegisteredHost], *, is_young: bool, is_alone: bool
) -> dict[str, str]:
    """Agent by appkey. `is_young`: there may be hosts that were not heard yet, unless the fleet is of one (`is_alone`).

    Raises `Permanent` that says why none takes it, `Transient` where a moment may change that.
    """
    rooms, unfit, suspect, starting = [], [], [], []
    for host in hosts:
        if host.state is AgentState.AWAY:
            continue
        said = host.registration
        fault = _unfit(host)
        if host.state is AgentState.SUSPECT:
            suspect.append(said.guid)
        elif _is_starting(host):
            starting.append(said.guid)
        elif fault:
            unfit.append(f"{said.guid}: {fault}")
        else:
            rooms.append(HostRoom(said.guid, said.cpu_milli, said.memory_bytes, said.tags, host.containers))
    if starting and not rooms:
        raise Transient("no host can run containers yet; starting: " + ", ".join(starting[:3]))
    if unfit and not rooms:
        raise Permanent("no host can run containers now: " + "; ".join(unfit[:3]))
    if suspect and not rooms:
        raise Transient("no host is alive just now; heartbeats are missed of " + ", ".join(suspect[:3]))
    if (
        is_young
        and not is_alone
        and any(mount.is_volume for container in template.containers for mount in container.mounts)
    ):
        raise Transient("which host has a volume is said once all hosts were heard; this controller has just begun")
    try:
        check_volumes(template, {host.registration.guid: host.registration.tags for host in hosts})
        return dict(place(template, rooms))
    except Permanent as error:
        if is_young:
            raise Transient(f"{error}, among those heard since this controller began a moment ago") from None
        raise


def _is_starting(host: RegisteredHost) -> bool:
    """Whether its agent has just begun: its first heartbeats are sent before it can run containers."""
    functions = host.beat.functions if host.beat is not None else ()
    return any(function.name == "containers" and function.is_starting for function in functions)


def _unfit(host: RegisteredHost) -> str:
    """Why this host's agent can run no container now; empty where it can."""
    for function in host.beat.functions if host.beat is not None else ():
        if function.name == "containers" and (function.fault or not function.is_on):
            return function.fault or "its configuration switches containers off"
    return ""
