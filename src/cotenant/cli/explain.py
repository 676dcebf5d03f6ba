"""`cotenant explain`: why a pod waits or sits where it sits, what a quota may use and why, what a gang waits for.

Only signatures and words stand here; what a command does is imported when it runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

app = App(
    name="explain",
    help="Why: a pod's place or its waiting, a quota's runtime, a gang's state; asked of the running scheduler.",
    help_format="plaintext",
)

Scheduler = Annotated[
    str,
    Parameter(
        help="URL of the scheduler; default: the one beside $KUBECONFIG, that of `cotenant up`, or 127.0.0.1:10261."
    ),
]
TokenFile = Annotated[
    Path | None,
    Parameter(help="File with the token that the scheduler's --debug-token-file has; not needed on its machine."),
]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print exactly one JSON object and nothing else.")]


@app.command
def pod(
    name: Annotated[str, Parameter(help="NAMESPACE/NAME; without a slash: of the namespace default.")],
    /,
    *,
    what_if: Annotated[
        tuple[str, ...],
        Parameter(
            name="--if",
            negative=(),
            help="Suppose cpu=500m, memory=1Gi, priority=1000 or another resource=AMOUNT, or ask about node=NAME; may be repeated.",
        ),
    ] = (),
    scheduler: Scheduler = "",
    token_file: TokenFile = None,
    kubeconfig: Annotated[
        Path | None, Parameter(help="Ask the API server of this file, not a scheduler: what was written about the pod.")
    ] = None,
    context: Annotated[str, Parameter(help="With --kubeconfig; default: the file's current context.")] = "",
    json: Json = False,
) -> int:
    """Why a pod waits: filters with counts, what came nearest, what would help, when it is tried again; or why it is here and not there.

    Exit status: 0 told, 1 no scheduler, or the pod is not known, 2 bad input.
    """
    from cotenant.cli import explain_showing

    return explain_showing.pod(name, what_if, scheduler, token_file, kubeconfig, context, json)


@app.command
def quota(
    name: Annotated[str, Parameter(help="The quota's name.")],
    /,
    *,
    scheduler: Scheduler = "",
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """What a quota may use now, and each term of it."""
    from cotenant.cli import explain_showing

    return explain_showing.quota(name, scheduler, token_file, json)


@app.command
def gang(
    name: Annotated[str, Parameter(help="NAMESPACE/NAME; without a slash: of the namespace default.")],
    /,
    *,
    scheduler: Scheduler = "",
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """How a gang stands: its members, its minimum, and what it waits for."""
    from cotenant.cli import explain_showing

    return explain_showing.gang(name, scheduler, token_file, json)
