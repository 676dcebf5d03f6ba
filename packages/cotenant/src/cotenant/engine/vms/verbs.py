"""When a machine may be told a verb, and when what was told has come about: the same for every platform.

A platform refuses by itself what does not fit, but not always, and not in words that say what to do: Nova answers a
start of a running server with a conflict, KubeVirt accepts a pause of a machine that stops.
"""

from __future__ import annotations

from cotenant.model.vms.machine import Machine, MachineState, MachineVerb

_UP = frozenset({MachineState.RUNNING, MachineState.PAUSED})
_FROM = {
    MachineVerb.START: frozenset({MachineState.STOPPED, MachineState.FAILED}),
    MachineVerb.STOP: frozenset(MachineState) - {MachineState.STOPPED},
    MachineVerb.RESTART: _UP | {MachineState.STARTING, MachineState.FAILED},
    MachineVerb.PAUSE: frozenset({MachineState.RUNNING}),
    MachineVerb.UNPAUSE: frozenset({MachineState.PAUSED}),
    MachineVerb.MIGRATE: frozenset({MachineState.RUNNING}),
    MachineVerb.RESIZE: frozenset(MachineState) - {MachineState.MIGRATING},
}


def why_not(verb: MachineVerb, machine: Machine) -> str:
    """Why the machine cannot be told this now; empty = it can."""
    allowed = _FROM[verb]
    if machine.state in allowed:
        return ""
    states = " or ".join(state.value for state in MachineState if state in allowed)
    return f"it is {machine.state.value}, and {verb.value} needs one that is {states}"


def is_done(verb: MachineVerb, before: Machine, now: Machine) -> bool:
    """Whether what was told has come about."""
    match verb:
        case MachineVerb.START:
            return now.state is MachineState.RUNNING
        case MachineVerb.STOP:
            return now.state is MachineState.STOPPED
        case MachineVerb.RESTART:
            return now.state is MachineState.RUNNING and now.incarnation != before.incarnation
        case MachineVerb.PAUSE:
            return now.state is MachineState.PAUSED
        case MachineVerb.UNPAUSE:
            return now.state is MachineState.RUNNING
        case MachineVerb.MIGRATE:
            arrived = now.node != before.node if before.node else now.incarnation != before.incarnation
            return now.state is MachineState.RUNNING and arrived
        case MachineVerb.RESIZE:
            changed = bool(now.pending) or now.size != before.size
            return changed and now.state is not MachineState.MIGRATING


def why_failed(verb: MachineVerb, before: Machine, now: Machine, has_moved: bool) -> str:
    """Why it will not come about; empty = it may. `has_moved`: the machine was seen on its way to a node."""
    if verb is not MachineVerb.STOP and now.state is MachineState.FAILED and before.state is not MachineState.FAILED:
        return f"it has failed: {now.why}" if now.why else "it has failed"
    if has_moved and now.state is before.state and verb in (MachineVerb.MIGRATE, MachineVerb.RESIZE):
        return "it is back where it was: the platform has given up"
    return ""
