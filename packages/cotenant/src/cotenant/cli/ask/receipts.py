"""`cotenant receipts`: what was suggested and done to sizes, by moves and by lending, by whose leave, and what came of
it; approve and undo.

Only signatures and help texts are here; what a command does is imported when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import Json
from cotenant.services.options import Context, Kubeconfig

app = App(
    name="receipts",
    help="What was suggested and done to sizes, by moves and by lending, by whose leave, what came of it.",
    help_format="plaintext",
)
Sizing = Annotated[
    str,
    Parameter(help="NAMESPACE/NAME of a RightSizing, name of a move (a PodMigrationJob), or a pool with --lending."),
]
Lending = Annotated[bool, Parameter(help="NAME is a pool that lends: `cluster`, or one of the nodeConfigs.")]


@app.default
def receipts(
    *,
    namespace: Annotated[str, Parameter(help="Default: all.")] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    json: Json = False,
) -> int:
    """List RightSizings and pools that lend with what stands, and the receipts of all and of moves, newest first."""
    from cotenant.cli.ask import receipts_showing
    from cotenant.services.autonomy.lending import LendingReceipts
    from cotenant.services.autonomy.moves import MoveReceipts
    from cotenant.services.autonomy.sizes import SizingClient

    moves = MoveReceipts(kubeconfig, context).all(namespace)
    lending = () if namespace else LendingReceipts(kubeconfig, context).all()
    return receipts_showing.show(SizingClient(kubeconfig, context).all(namespace), moves, lending, json)


@app.command
def approve(
    sizing: Sizing,
    suggestion: Annotated[str, Parameter(name="ID", help="Of the suggestion. Default: the one that stands.")] = "",
    /,
    *,
    lending: Lending = False,
    by: Annotated[str, Parameter(help="Who allows it, for the receipt. Default: this user.")] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Allow what is suggested to be carried out (mode approve, or earned)."""
    from getpass import getuser

    from cotenant.services.autonomy.lending import LendingReceipts
    from cotenant.services.autonomy.moves import MoveReceipts
    from cotenant.services.autonomy.sizes import SizingClient

    if lending:
        approved = LendingReceipts(kubeconfig, context).approve(sizing, suggestion, by or getuser())
        print(f"pool {sizing}: {approved} is approved")
        return 0
    if "/" not in sizing:
        MoveReceipts(kubeconfig, context).approve(sizing, by or getuser())
        print(f"{sizing} is approved")
        return 0
    found = SizingClient(kubeconfig, context).approve(sizing, suggestion, by or getuser())
    assert found.status.suggestion is not None
    print(f"{sizing}: {found.status.suggestion.id} is approved")
    return 0


@app.command
def undo(
    sizing: Sizing,
    change: Annotated[str, Parameter(name="ID", help="Of the receipt. Default with --lending: today.")] = "",
    /,
    *,
    lending: Lending = False,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Take the last change back: every pod gets the size that it had, and a pool lends nothing until that is approved
    anew. A move has no undo: that would be another move, and the scheduler places pods.
    """
    from cotenant.model.errors import InvalidInput
    from cotenant.services.autonomy.lending import LendingReceipts
    from cotenant.services.autonomy.sizes import SizingClient

    if lending:
        day = LendingReceipts(kubeconfig, context).undo(sizing, change)
        print(f"pool {sizing}: {day} is taken back; nothing is lent there until it is approved")
        return 0
    if "/" not in sizing:
        hint = "a move has no undo: to bring the pod back is another eviction, and the scheduler says where it goes"
        raise InvalidInput("NAMESPACE/NAME", sizing, "a RightSizing", hint)

    SizingClient(kubeconfig, context).undo(sizing, change)
    print(f"{sizing}: {change} is taken back")
    return 0
