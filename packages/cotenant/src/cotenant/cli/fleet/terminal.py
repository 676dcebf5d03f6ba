"""`cotenant fleet exec`: a terminal into a container of the fleet or of a pod."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.fleet.commands import BusAddress, app, bus_options

_BUS = BusAddress()


@app.command(name="exec")
def execute(
    guid: Annotated[str, Parameter(help="Guid of a container, or a pod: [NAMESPACE/]NAME, NAMESPACE/NAME/CONTAINER.")],
    command: Annotated[tuple[str, ...], Parameter(help="A program and its arguments, after -- ; default: sh.")] = (),
    /,
    *,
    connection: BusAddress = _BUS,
) -> int:
    """Open a terminal in a container: run a command there, by default a shell.

    Needs the verb `exec` and the agent's function `terminals`, which is off unless its configuration names it; for a
    pod also `pod_runtime` there. The agent records what is shown. Exit status: the command's; 1 where the terminal was
    ended.
    """
    from cotenant.model.fleet.terminals import USUAL_COMMAND
    from cotenant.services.fleet.terminal_here import run_terminal

    return run_terminal(bus_options(connection), guid, command or USUAL_COMMAND)
