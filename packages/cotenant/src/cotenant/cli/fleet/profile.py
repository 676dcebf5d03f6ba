"""`cotenant fleet profile`: in which lines a container's programs spend their time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.fleet.commands import Bus, app, bus_options
from cotenant.cli.options import Json

_BUS = Bus()


@app.command
def profile(
    guid: Annotated[str, Parameter(help="Guid of a container.")],
    /,
    *,
    seconds: Annotated[int, Parameter(help="How long.")] = 10,
    rate: Annotated[int, Parameter(help="Samples a second.")] = 100,
    out: Annotated[
        Path | None, Parameter(help="Also write the stacks as pprof (gzipped): for `go tool pprof`, Speedscope.")
    ] = None,
    idle: Annotated[bool, Parameter(negative=(), help="Count threads that wait, too.")] = False,
    rows: Annotated[int, Parameter(help="Lines of the table.")] = 20,
    connection: Bus = _BUS,
    json: Json = False,
) -> int:
    """In which lines the Python programs of a container spend their time, without a change of them.

    Needs the verb `profile`, the agent's function `profiles`, which is off unless its configuration names it, and
    py-spy there.
    """
    import sys

    from cotenant.cli.cluster.profile_code_showing import show_code
    from cotenant.model.fleet.profiles import Profile, Profiled
    from cotenant.services.fleet.operator import ask_controller
    from cotenant.services.profiling.code import merged

    request = Profile(guid, seconds, rate, idle)
    found = ask_controller(bus_options(connection), "profile", request, Profiled, seconds + 45.0)
    if found.left_out:
        print(f"cotenant: {found.left_out} samples of rare stacks are left out", file=sys.stderr)
    return show_code(merged(guid, found.pids, found.stacks, found.at_s, seconds, rate, out), rows, json)
