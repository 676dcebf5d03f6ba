"""`cotenant logs`: lines of a container or pod, wherever in the fleet it runs."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.fleet.commands import BusAddress, bus_options

_BUS = BusAddress()
app = App(name="logs", help_format="plaintext")


@app.default
def logs(
    name: Annotated[str, Parameter(help="A container's guid, or a pod as NAME or NAMESPACE/NAME.")],
    /,
    *,
    since: Annotated[
        str, Parameter(help="Lines of the last so long, as 10m; default: all that the agent keeps.", show_default=False)
    ] = "",
    grep: Annotated[
        str, Parameter(help="Lines in which this expression (RE2's syntax) is found.", show_default=False)
    ] = "",
    tail: Annotated[int | None, Parameter(help="The last so many lines only.")] = None,
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), negative=(), help="Go on as lines come.")] = False,
    times: Annotated[bool, Parameter(negative=(), help="Show when each line was written.")] = False,
    connection: BusAddress = _BUS,
    json: Annotated[bool, Parameter(name="--json", negative=(), help="Print one JSON object for each line.")] = False,
) -> int:
    """Show the log of a container or pod of the fleet, as its host's agent keeps it.

    What was dropped or could not be read is said on standard error.
    """
    from cotenant.services.fleet.log_reading import LogOptions, show_logs

    return show_logs(bus_options(connection), name, LogOptions(since, grep, tail, follow, times, json))
