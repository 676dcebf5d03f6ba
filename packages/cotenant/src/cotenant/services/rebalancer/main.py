"""The command `cotenant rebalancer run`: arguments are checked, parts joined, signals set up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.tls import tls_of
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.kinds.workload.declarations import workload_kinds
from cotenant.drivers.seals.seals import read_seals
from cotenant.engine.migration.outcomes import MAX_RECEIPTS
from cotenant.model.autonomy.autonomy import MoveMode
from cotenant.services.kernels import bring_kernels
from cotenant.services.kube_process.replica import open_replica
from cotenant.services.kube_process.span_target import span_target
from cotenant.services.logs import log_to_stderr
from cotenant.services.rebalancer.configuration import DEFAULT, read_settings
from cotenant.services.rebalancer.options import COMPONENT, RebalancerOptions
from cotenant.services.rebalancer.rebalancer_arguments import RunArguments, check
from cotenant.services.rebalancer.rebalancer_process import RebalancerProcess
from cotenant.services.running import run_until_signal
from cotenant.services.scheduling.load_aware import read_settings as read_load_aware
from cotenant.services.scheduling.names import by_requests, cluster_profile, read_names


def run(request: RunArguments) -> int:
    """Run until a signal. Raises `InvalidInput`."""
    options = options_of(request, check(request))
    log_to_stderr(request.log_level, request.log_format)
    bring_kernels()
    access = load_access(request.kubeconfig, request.context)
    replica = open_replica(request, access, options.listen, COMPONENT, request.election)

    async def main(stop: asyncio.Event) -> None:
        process = RebalancerProcess(access, options, replica.identity, replica.elected, listening=replica.listening)
        process.kube.spare_collections()
        await process.run(stop)

    run_until_signal(main)
    return 0


def options_of(request: RunArguments, address: Address) -> RebalancerOptions:
    """What the arguments and the configuration say. Raises `InvalidInput`."""
    profile = by_requests(cluster_profile("--profile", request.profile))
    settings = DEFAULT if request.config is None else read_settings(request.config)
    acting = settings.acting
    if request.interval_s is not None:
        acting = replace(acting, interval_s=request.interval_s)
    if request.watch_s is not None:
        migration = replace(acting.migration, watch_s=request.watch_s)
        acting = replace(acting, migration=migration)
    mode = MoveMode(request.mode)
    if mode is not MoveMode.ACT:
        acting = replace(acting, migration=replace(acting.migration, receipts=MAX_RECEIPTS))
    acts = request.act if request.act is not None else acting.acts
    return RebalancerOptions(
        profile=profile,
        names=read_names(request.scheduler_names, profile),
        listen=address,
        tls=tls_of(request.tls_cert, request.tls_key),
        settings=replace(settings, acting=acting),
        load_aware=read_load_aware(request.load_aware) if request.load_aware is not None else None,
        workload_kinds=workload_kinds(request.workload_kinds),
        seals=read_seals(request.seal_certificate),
        acts=bool(acts),
        mode=mode,
        span_target=span_target(request.otlp_traces, request.otlp_traces_token_file, request.otlp_traces_ca),
    )
