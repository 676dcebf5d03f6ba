"""`cotenant fleet experiment`: experiments with containers of the fleet."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from cotenant.cli.fleet.commands import BusAddress, app, bus_options
from cotenant.cli.options import Json

_BUS = BusAddress()
experiments = App(name="experiment", help="Experiments with containers of the fleet.", help_format="plaintext")
app.command(experiments)


@experiments.command
def binding(
    service: Annotated[str, Parameter(help="Guid of a container whose demand for CPU goes up and down.")],
    hog: Annotated[str, Parameter(help="Guid of a container of the same host that uses all CPU it gets.")],
    /,
    *,
    cpu: Annotated[int, Parameter(help="The CPU that both are bound to.")] = 0,
    seconds: Annotated[float, Parameter(help="Of each of the three phases, in rounds of a period or more.")] = 40.0,
    period: Annotated[float, Parameter(help="Of the service's demand, in seconds of the clock.")] = 20.0,
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """Bind a service and a hog to one CPU and measure the service alone, together with the hog, and regulated.

    Regulated, the hog is an idle task: it runs when the service does not. All is given back at the end, or, where this
    command is killed, when its time is over. Exit status 1 where regulation does not restore the service.
    """
    from cotenant.cli import tables
    from cotenant.services.fleet.binding_trial import TrialOptions, run_trial

    options = TrialOptions(service, hog, cpu, seconds, period)
    result = run_trial(bus_options(connection), options, lambda line: print(line, file=sys.stderr))
    if json:
        print(msgspec.json.encode(result).decode())
        return 0 if result.is_restored else 1
    rows = [
        (
            phase.name,
            f"{phase.service_milli / 1000:.2f}",
            f"{phase.swing_milli / 1000:.2f}",
            f"{phase.correlation:.2f}",
            f"{phase.hog_milli / 1000:.2f}",
        )
        for phase in result.phases
    ]
    headings = ("phase", "service CPU", "swing", "like alone", "hog CPU")
    tables.print_words(headings, rows, right=headings[1:])
    print(f"the hog {'disturbs' if result.is_disturbed else 'does not disturb'} the service")
    print(
        f"regulation {'restores' if result.is_restored else 'does not restore'} it, and the hog gets "
        f"{100 * result.hog_share:.0f} % of what it leaves"
    )
    return 0 if result.is_restored else 1
