"""`cotenant withdraw`: what must end before an installation is removed.

Only signatures and help texts are here; the implementation is imported when the command runs, so that `--help` stays quick.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.options import Context, Kubeconfig


def withdraw(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    webhooks: Annotated[
        str, Parameter(help="Name of the webhook configurations to delete; empty: none.")
    ] = "cotenant-webhook",
    config: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of the manager's ConfigMap, which is printed and deleted, so that the manager takes all amounts back; empty: it stays."
        ),
    ] = "koordinator-system/slo-controller-config",
    within_s: Annotated[float, Parameter(help="Seconds to wait until no node offers batch or mid resources.")] = 120.0,
) -> int:
    """Withdraw webhooks and lending before the processes are removed; the chart runs it as `helm uninstall` begins.

    Knobs are given back by the keepers as they stop. Exit status: 0, 1 where a node still offers resources, 2 bad input.
    """
    import asyncio
    from math import isfinite

    from cotenant.drivers.kube.client.access import load_access
    from cotenant.drivers.kube.client.client import Client
    from cotenant.model.errors import InvalidInput
    from cotenant.services.withdrawal import withdrawing

    namespace, _, name = config.partition("/")
    if config and (not namespace or not name or "/" in name):
        raise InvalidInput("--config", config, "NAMESPACE/NAME of a ConfigMap")
    if "/" in webhooks:
        raise InvalidInput("--webhooks", webhooks, "a name")
    if not (isfinite(within_s) and within_s >= 0):
        raise InvalidInput("--within-s", within_s, "seconds, 0 or more")
    access = load_access(kubeconfig, context)

    async def run() -> None:
        async with Client(access, qps=float("inf"), burst=10, in_flight=2, user_agent="cotenant-withdraw") as client:
            where = (namespace, name) if config else None
            await withdrawing.withdraw(client, webhooks, where, within_s, lambda line: print(line, flush=True))

    asyncio.run(run())
    return 0
