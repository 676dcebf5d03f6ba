"""`cotenant freeze`, `thaw` and `autonomy`: stop what acts on its own, let it go on, and see what is allowed.

Only signatures and help texts are here; what a command does is imported when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.options import Json
from cotenant.services.options import Context, Kubeconfig


def freeze(
    *,
    why: Annotated[str, Parameter(help="The reason, for those who find it.")],
    namespace: Annotated[tuple[str, ...], Parameter(help="Only there; may be repeated. Default: everywhere.")] = (),
    action: Annotated[
        tuple[str, ...],
        Parameter(help="Only sizes, lending, moves, recovery or weights; may be repeated. Default: all."),
    ] = (),
    by: Annotated[str, Parameter(help="Default: this user.")] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Stop everything that acts on its own; proofs and undoing go on."""
    from getpass import getuser

    from cotenant.services.autonomy.freezing import AutonomyClient

    AutonomyClient(kubeconfig, context).freeze(why, by or getuser(), namespace, action)
    print("frozen; `cotenant thaw` ends it")
    return 0


def thaw(*, kubeconfig: Kubeconfig = None, context: Context = "") -> int:
    """End a freeze."""
    from cotenant.services.autonomy.freezing import AutonomyClient

    print("thawed" if AutonomyClient(kubeconfig, context).thaw() else "nothing was frozen by `cotenant freeze`")
    return 0


def autonomy(*, kubeconfig: Kubeconfig = None, context: Context = "", json: Json = False) -> int:
    """How far the movers may go, when, what is frozen, and what sizes and moves have earned by namespace,
    and lending by pool.
    """
    import time

    from cotenant.cli.ask import autonomy_showing
    from cotenant.services.autonomy.freezing import AutonomyClient
    from cotenant.services.autonomy.standing import earned_by_namespace

    found = AutonomyClient(kubeconfig, context).all()
    return autonomy_showing.show(found, earned_by_namespace(kubeconfig, context), json, time.time())
