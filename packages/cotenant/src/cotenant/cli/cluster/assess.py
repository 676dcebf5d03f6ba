"""`cotenant assess`: what would be different on a cluster, without installing anything.

Only signatures and help texts are here; the implementation is imported when a command runs, so that `--help` stays
quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.access import check_access
from cotenant.services.assess.arguments import ReadArguments, check, check_output
from cotenant.services.options import GIVEN

app = App(
    name="assess",
    help="Say what a cluster wastes, could lend and would place elsewhere; reads once, writes nothing.",
    help_format="plaintext",
)


@app.command
def dump(
    out: Path,
    /,
    *,
    request: Annotated[ReadArguments, GIVEN] = ReadArguments(),
    anonymise: Annotated[
        bool, Parameter(negative=(), help="Put words for all names, images and labels; amounts stay.")
    ] = False,
) -> int:
    """Write a copy of the cluster to OUT, a zip, for `cotenant assess report` on another machine.

    Reads with get and list only: nodes, pods, their owners, budgets, volumes, quotas and groups; no Secret, ConfigMap,
    environment or argument. Exit status: 0 written, 1 no answer, 2 bad input, 3 written, but some kinds could not be
    read.
    """
    check(request)
    check_output("OUT", out)
    check_access(request.kubeconfig, request.context)
    from cotenant.cli.cluster import assess_showing

    return assess_showing.dump(request, out, anonymise)
