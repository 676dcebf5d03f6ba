"""Starting a scheduler process: arguments are checked, logging and signals set up.

Problem: a wrong argument must be one clear line before any request to a server. Choice: everything is checked here, then one event
loop runs until SIGTERM or SIGINT. A second signal does not wait for the hand-over. Limits: logs are lines on standard error.
"""

from __future__ import annotations

import asyncio
import logging
import time

from cotenant.drivers.http.address import bind
from cotenant.drivers.http.tls import tls_of
from cotenant.drivers.http.tokens import read_token
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.workload.declarations import workload_kinds
from cotenant.drivers.seals.seals import read_seal
from cotenant.engine.rehearsal import rehearse
from cotenant.policy.overcommit.predicted_use import PredictedUseSettings
from cotenant.services.kernels import bring_kernels
from cotenant.services.kube_process.identity import kept_identity, lease_name, new_identity
from cotenant.services.kube_process.leadership import Leadership, leadership
from cotenant.services.kube_process.span_export import span_target
from cotenant.services.logs import log_to_stderr
from cotenant.services.reporting.identity import report_user
from cotenant.services.running import raise_descriptors, run_until_signal
from cotenant.services.scheduler.arguments import DEFAULT_SPREADS, SchedulerArguments, check
from cotenant.services.scheduler.device_settings import device_settings
from cotenant.services.scheduler.load_aware import read_settings
from cotenant.services.scheduler.names import by_requests, cluster_profile, predicts_use, read_names
from cotenant.services.scheduler.options import Options
from cotenant.services.scheduler.process import SchedulerProcess

_log = logging.getLogger(__name__)


def run(request: SchedulerArguments) -> int:
    """Run until a signal. Raises `InvalidInput`."""
    address = check(request)
    written = cluster_profile("--profile", request.profile)
    profile = by_requests(written)
    names = read_names(request.scheduler_names, profile)
    spans_to = span_target(request.otlp_traces, request.otlp_traces_token_file, request.otlp_traces_ca)
    devices = device_settings(request.device_strategy, request.usual_gpu_pods)
    sealer, seals = read_seal(request.seal)
    kinds = workload_kinds(request.workload_kinds)
    log_to_stderr(request.log_level, request.log_format)
    bring_kernels()
    access = load_access(request.kubeconfig, request.context)
    options = Options(
        schedulers=tuple(names),
        profiles=names,
        binds_in_flight=request.binds_in_flight,
        qps=request.qps,
        burst=int(request.burst),
        notices_per_s=request.notices_per_s,
        listen=address,
        tls=tls_of(request.tls_cert, request.tls_key),
        report_token=request.report_token_file,
        report_user=report_user(request.report_account, request.report_token_file),
        debug_token=request.debug_token_file,
        load_aware=read_settings(request.load_aware) if request.load_aware is not None else None,
        predicted_use=PredictedUseSettings(risk=request.predicted_use_risk_pct / 100.0)
        if predicts_use(written)
        else None,
        quotas=request.quotas,
        devices=devices,
        default_spread=DEFAULT_SPREADS[request.default_spread],
        span_target=spans_to,
        sealer=sealer,
        seals=seals,
        workload_kinds=kinds,
    )
    for option, path in (("--report-token-file", options.report_token), ("--debug-token-file", options.debug_token)):
        if path is not None:
            read_token(path, option)  # a broken file is reported before anything that takes seconds
    raise_descriptors()
    listening = bind(address)  # so is an address in use
    if sealer is None:
        _log.info(
            "no key: what pods are given is not sealed, and what they say that they hold is believed as far as they are entitled to it"
        )
    namespace = request.lease_namespace or access.namespace
    lease = lease_name(next(iter(names)))
    identity = (
        kept_identity(request.state_dir, access.server, namespace, lease) if request.state_dir else new_identity()
    )

    began_s = time.perf_counter()
    for each in {one.name: one for one in (profile, *names.values())}.values():
        rehearse(each)
    _log.info("rehearsed in %.1f s", time.perf_counter() - began_s)

    def connect() -> Client:
        return Client(access, qps=float("inf"), burst=10, in_flight=2, user_agent="cotenant-scheduler/leader-election")

    def elected(_: Client) -> Leadership:
        return leadership(connect, namespace, lease, identity, request.election, elect=request.leader_elect)

    async def main(stop: asyncio.Event) -> None:
        await SchedulerProcess(access, profile, options, identity, elected, listening=listening).run(stop)

    run_until_signal(main)
    return 0
