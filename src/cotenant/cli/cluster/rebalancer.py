"""`cotenant rebalancer`: which pods of overloaded nodes should move, and where they would land.

Only signatures and help texts are here; the implementation is imported when a command runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

app = App(
    name="rebalancer",
    help="Which pods of overloaded nodes should move, and where they would land. A dry run: nothing is evicted.",
    help_format="plaintext",
)


@app.command
def plan(
    *,
    config: Annotated[
        Path | None,
        Parameter(
            help="DeschedulerConfiguration (YAML) with LowNodeLoad, and MigrationController's filters and limits. Default: low cpu 45, memory 60, high cpu 65, memory 85 percent."
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None, Parameter(help="Default: $KUBECONFIG, ~/.kube/config, or the pod's service account.")
    ] = None,
    context: Annotated[str, Parameter(help="Default: the file's current context.")] = "",
    scheduler_name: Annotated[
        tuple[str, ...],
        Parameter(
            help="Pods with this spec.schedulerName may move; may be repeated, NAME=PROFILE as for `cotenant scheduler`."
        ),
    ] = ("cotenant", "default-scheduler"),
    profile: Annotated[
        str, Parameter(help="The scheduler's placement profile, by which landings are simulated.")
    ] = "cotenant",
    load_aware: Annotated[Path | None, Parameter(help="The scheduler's file of load thresholds.")] = None,
    within_s: Annotated[float, Parameter(help="Seconds for reading the cluster.")] = 60.0,
    json: Annotated[
        bool, Parameter(name="--json", negative=(), help="Print exactly one JSON object and nothing else.")
    ] = False,
) -> int:
    """Print the moves of the next round with reasons and expected effect, and what is not moved and why.

    Reads nodes, pods, NodeMetrics, workloads and budgets, simulates each move on the scheduling engine, and writes nothing.
    Exit status: 0 planned, also without a move; 1 no answer of the API server; 2 bad input.
    """
    from cotenant.cli.cluster import rebalancer_showing
    from cotenant.services.rebalancer.planning import PlanArguments

    return rebalancer_showing.plan(
        PlanArguments(kubeconfig, context, config, scheduler_name, profile, load_aware, within_s), json
    )
