"""`cotenant receipts`: what was suggested and done to sizes and by moves, by whose leave, and what came of it; approve
and undo.

Only signatures and help texts are here; what a command does is imported when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import Json
from cotenant.services.options import Context, Kubeconfig

app = App(
    name="receipts",
    help="What was suggested and done to sizes of containers and by moves of pods, by whose leave, what came of it.",
    help_format="plaintext",
)
Sizing = Annotated[str, Parameter(help="NAMESPACE/NAME of a RightSizing, or the name of a move (a PodMigrationJob).")]


@app.default
def receipts(
    *,
    namespace: Annotated[str, Parameter(help="Default: all.")] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    json: Json = False,
) -> int:
    """List RightSizings with what stands, and the receipts of their changes and of moves, the newest first."""
    from cotenant.cli.ask import receipts_showing
    from cotenant.services.autonomy.moves import MoveReceipts
    from cotenant.services.sizes.receipts import SizingClient

    moves = MoveReceipts(kubeconfig, context).all(namespace)
    return receipts_showing.show(SizingClient(kubeconfig, context).all(namespace), moves, json)


@app.command
def approve(
    sizing: Sizing,
    suggestion: Annotated[str, Parameter(name="ID", help="Of the suggestion. Default: the one that stands.")] = "",
    /,
    *,
    by: Annotated[str, Parameter(help="Who allows it, for the receipt. Default: this user.")] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Allow what is suggested to be carried out (mode approve, or earned)."""
    from getpass import getuser

    from cotenant.services.autonomy.moves import MoveReceipts
    from cotenant.services.sizes.receipts import SizingClient

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
    change: Annotated[str, Parameter(name="ID", help="Of the receipt.")] = "",
    /,
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Take the last change back: every pod gets the size that it had. A move has no undo: that would be another move,
    and the scheduler places pods.
    """
    from cotenant.model.errors import InvalidInput
    from cotenant.services.sizes.receipts import SizingClient

    if "/" not in sizing:
        hint = "a move has no undo: to bring the pod back is another eviction, and the scheduler says where it goes"
        raise InvalidInput("NAMESPACE/NAME", sizing, "a RightSizing", hint)

    SizingClient(kubeconfig, context).undo(sizing, change)
    print(f"{sizing}: {change} is taken back")
    return 0
