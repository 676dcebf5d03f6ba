"""`cotenant withdraw`: what must end before an installation is removed, and what it leaves behind.

Only signatures and help texts are here; the implementation is imported when the command runs, so that `--help` stays
quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.services.options import Context, Kubeconfig

Names = Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)]


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
            help="NAMESPACE/NAME of the manager's ConfigMap, which is printed and deleted, so that the manager takes "
            "all amounts back; empty: it stays."
        ),
    ] = "koordinator-system/slo-controller-config",
    agents: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of the agents' DaemonSet, to delete once nothing is lent: keepers restore every knob "
            "as they stop; default: it stays.",
            show_default=False,
        ),
    ] = "",
    priority_class: Annotated[
        Names, Parameter(help="A PriorityClass to delete unless a pod names it; may be given several times.")
    ] = (),
    swept: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of the DaemonSet that removes the keepers' folders, to wait for.", show_default=False
        ),
    ] = "",
    own_in: Annotated[
        str,
        Parameter(
            help="The installation's namespace, for --lease and --secret: its pods are waited for.", show_default=False
        ),
    ] = "",
    lease: Annotated[Names, Parameter(help="A Lease to delete; may be given several times.")] = (),
    secret: Annotated[Names, Parameter(help="A Secret to delete; may be given several times.")] = (),
    config_map: Annotated[
        Names, Parameter(help="NAMESPACE/NAME of a ConfigMap to delete; may be given several times.")
    ] = (),
    spare: Annotated[
        str, Parameter(help="The label `app` of pods that are not waited for, this one's.", show_default=False)
    ] = "",
    folder: Annotated[
        Path | None,
        Parameter(
            help="Remove this keeper's folder of this machine, unless knobs of it were not restored; nothing else is "
            "done then."
        ),
    ] = None,
    within_s: Annotated[
        float,
        Parameter(help="Seconds to wait for each: until no node offers batch or mid resources, until pods are gone."),
    ] = 120.0,
) -> int:
    """Withdraw webhooks and lending before the processes are removed; the chart runs it as `helm uninstall` begins, and
    to clear up as it ends.

    Knobs are given back by the keepers as they stop. Exit status: 0, 1 where a node still offers resources or an agent
    still runs, 2 bad input.
    """
    import asyncio

    from cotenant.drivers.kube.client.access import load_access
    from cotenant.drivers.kube.client.client import Client
    from cotenant.services.knobs.host import boot_id
    from cotenant.services.withdrawal import leftovers, withdrawing

    def say(line: str) -> None:
        print(line, flush=True)

    where = _pair("--config", config, "ConfigMap") if config else None
    daemons = _pair("--agents", agents, "DaemonSet") if agents else None
    sweep = _pair("--swept", swept, "DaemonSet") if swept else None
    maps = [_pair("--config-map", name, "ConfigMap") for name in config_map]
    _check(webhooks, bool(lease or secret), own_in, within_s)
    if folder is not None:
        leftovers.remove_folder(folder, boot_id(), say)
        return 0
    access = load_access(kubeconfig, context)

    async def run() -> None:
        async with Client(access, qps=float("inf"), burst=10, in_flight=2, user_agent="cotenant-withdraw") as client:
            await withdrawing.withdraw(client, webhooks, where, within_s, say)
            if daemons is not None:
                await leftovers.end_agents(client, daemons, within_s, say)
            if priority_class:
                await leftovers.remove_unused_classes(client, priority_class, say)
            if sweep is not None:
                await leftovers.wait_for_folders(client, sweep, within_s, say)
            if own_in or maps:
                await leftovers.remove_own(client, own_in, lease, secret, maps, spare, within_s, say)

    asyncio.run(run())
    return 0


def _check(webhooks: str, has_own: bool, own_in: str, within_s: float) -> None:
    from math import isfinite

    from cotenant.model.errors import InvalidInput

    if "/" in webhooks:
        raise InvalidInput("--webhooks", webhooks, "a name")
    if has_own and not own_in:
        raise InvalidInput("--own-in", own_in, "the namespace of --lease and --secret")
    if not (isfinite(within_s) and within_s >= 0):
        raise InvalidInput("--within-s", within_s, "seconds, 0 or more")


def _pair(option: str, given: str, of: str) -> tuple[str, str]:
    from cotenant.model.errors import InvalidInput

    namespace, _, name = given.partition("/")
    if not namespace or not name or "/" in name:
        raise InvalidInput(option, given, f"NAMESPACE/NAME of a {of}")
    return namespace, name
