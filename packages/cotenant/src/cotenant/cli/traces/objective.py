"""`cotenant objective`: list and show what `cotenant traces` counts; convert objectives of other systems.

Only signatures and help texts are here; what a command does is imported when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.traces.commands import Ca, Json, TokenFile, Url

app = App(
    name="objective",
    help="Objectives of services: how they stand, and those of OpenSLO, Pyrra and Sloth as ServiceObjectives.",
    help_format="plaintext",
)


@app.command(name="list")
def list_(*, url: Url = "", token_file: TokenFile = None, ca: Ca = None, json: Json = False) -> int:
    """Every objective: state, budget left, burn rates, the worst replica."""
    from cotenant.cli.traces import objective_showing

    return objective_showing.objectives(url, token_file, ca, json)


@app.command
def show(
    objective: Annotated[str, Parameter(help="NAMESPACE/NAME.")],
    /,
    *,
    url: Url = "",
    token_file: TokenFile = None,
    ca: Ca = None,
    json: Json = False,
) -> int:
    """One objective: burn rate by window, alerts, replicas, the last action."""
    from cotenant.cli.traces import objective_showing

    return objective_showing.objective(objective, url, token_file, ca, json)


@app.command
def convert(
    file: Annotated[
        Path, Parameter(help="YAML of OpenSLO v1, Pyrra (ServiceLevelObjective) or Sloth (PrometheusServiceLevel).")
    ],
    /,
    *,
    json: Json = False,
) -> int:
    """Print the objectives of a file as ServiceObjectives, for `kubectl apply -f -`.

    What is guessed from a query is a comment beside it. An objective that cannot be converted (a budget of time slices,
    a query without a bound) is named on standard error, and the exit status is 1.
    """
    from cotenant.cli.traces import objective_showing

    return objective_showing.convert(file, json)
