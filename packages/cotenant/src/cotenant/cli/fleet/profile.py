"""`cotenant fleet profile`: in which lines a container's programs spend their time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.fleet.commands import BusAddress, app, bus_options
from cotenant.cli.options import Json
from cotenant.services.options import GIVEN
from cotenant.services.profiling.profiling_arguments import SlowArguments

_BUS = BusAddress()


@app.command
def profile(
    guid: Annotated[str, Parameter(help="Guid of a container.")],
    /,
    *,
    seconds: Annotated[int, Parameter(help="How long.")] = 10,
    rate: Annotated[int, Parameter(help="Samples a second.")] = 100,
    out: Annotated[
        Path | None, Parameter(help="Also write the stacks: FILE.otlp as OTLP profiles, else as pprof (gzipped).")
    ] = None,
    otlp: Annotated[
        str, Parameter(help="Also send them to this collector (OTLP/HTTP profiles), as http://HOST:4318.")
    ] = "",
    idle: Annotated[bool, Parameter(negative=(), help="Count threads that wait, too.")] = False,
    slow: Annotated[SlowArguments, GIVEN] = SlowArguments(),
    rows: Annotated[int, Parameter(help="Lines of the table.")] = 20,
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """In which lines the programs of a container spend their time, without a change of them.

    Needs the verb `profile`, the agent's function `profiles`, which is off unless its configuration names it, and there
    py-spy for Python, perf for other programs. With --slow Python's stacks are joined with the spans of the requests
    that `cotenant traces` kept meanwhile: which frames hold the slow ones' time.
    """
    from cotenant.cli.fleet.profile_running import profile as run_profile
    from cotenant.services.profiling.output import Output

    return run_profile(bus_options(connection), guid, seconds, rate, Output(out, otlp), idle, slow, rows, json)
