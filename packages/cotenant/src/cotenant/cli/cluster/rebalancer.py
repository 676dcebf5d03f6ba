"""`cotenant rebalancer`: moves pods to better nodes, and shows which would move.

Only signatures and help texts are here; the implementation is imported when a command runs, so that `--help` stays
quick.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import App

from cotenant.cli.access import check_access
from cotenant.cli.options import Json
from cotenant.services.options import GIVEN
from cotenant.services.rebalancer.rebalancer_arguments import PlanArguments, RunArguments, check, check_plan

app = App(
    name="rebalancer",
    help="Move pods of overloaded nodes, pods that violate rules or miss objectives, and pods in the way of others; "
    "or show which would move.",
    help_format="plaintext",
)


@app.command
def plan(*, request: Annotated[PlanArguments, GIVEN] = PlanArguments(), json: Json = False) -> int:
    """Print the moves of the next round with reasons and expected effect, and what is not moved and why.

    Reads nodes, pods, NodeMetrics, workloads and budgets, simulates each move on the scheduling engine, and writes
    nothing. Where interference is known, the predicted effect on objectives is shown. Exit status: 0 planned, also
    without a move; 1 no answer of the API server; 2 bad input.
    """
    check_plan(request)
    check_access(request.kubeconfig, request.context)
    from cotenant.cli.cluster import rebalancer_showing

    return rebalancer_showing.plan(request, json)


@app.command
def run(*, request: Annotated[RunArguments, GIVEN] = RunArguments()) -> int:
    """Plan a round at each interval and carry its moves out as PodMigrationJobs: reserve, evict, wait for the
    replacement, measure.

    A dry run unless --act or `dryRun: false` is given. Jobs that others create are carried out too. Serves /metrics,
    /healthz and /readyz. Exit status: 0 after SIGTERM or Ctrl-C, 2 bad input.
    """
    check(request)
    check_access(request.kubeconfig, request.context)
    from cotenant.services.rebalancer import main

    return main.run(request)
