"""Starting a scheduler process: arguments are checked, logging and signals set up.

A wrong argument must be one clear line before any request to a server. Everything is checked here, then one event loop
runs until SIGTERM or SIGINT. A second signal does not wait for the hand-over.
Limits: logs are lines on standard error.
"""

from __future__ import annotations

import asyncio
import logging
import time

from cotenant.drivers.http.tls import tls_of
from cotenant.drivers.http.tokens import read_token
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.kinds.workload.declarations import workload_kinds
from cotenant.drivers.seals.seals import read_seal
from cotenant.engine.rehearsal import rehearse
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.predicted_use import PredictedUseSettings
from cotenant.services.kernels import bring_kernels
from cotenant.services.kube_process.identity import lease_name
from cotenant.services.kube_process.replica import open_replica
from cotenant.services.kube_process.span_target import span_target
from cotenant.services.logs import log_to_stderr
from cotenant.services.reporting.accounts import report_user
from cotenant.services.running import run_until_signal
from cotenant.services.scheduler.configured_options import options_of, own_profile, profiles_of
from cotenant.services.scheduler.others_plugins import others_plugins
from cotenant.services.scheduler.scheduler_arguments import DEFAULT_SPREADS, SchedulerArguments, check, names_of
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduler.shadow.shadow_process import ShadowProcess
from cotenant.services.scheduler.shards.sharding import Sharding
from cotenant.services.scheduler_config.configuration_file import SchedulerConfig
from cotenant.services.scheduler_config.settings import SettingVerdict
from cotenant.services.scheduling.device_settings import device_settings
from cotenant.services.scheduling.load_aware import read_settings
from cotenant.services.scheduling.names import by_requests, cluster_profile, predicts_use, read_names
from cotenant.services.scheduling.options import Options

_log = logging.getLogger(__name__)


def run(request: SchedulerArguments, config: SchedulerConfig | None = None) -> int:
    """Run until a signal; `config` is what a configuration file says besides the arguments. Raises `InvalidInput`."""
    address = check(request)
    written = cluster_profile("--profile", request.profile) if config is None else own_profile(config)
    profile = by_requests(written)
    written_names, flag = names_of(request)
    names = read_names(written_names, profile, flag) if config is None else profiles_of(config)
    spans_to = span_target(request.otlp_traces, request.otlp_traces_token_file, request.otlp_traces_ca)
    devices = device_settings(
        request.device_strategy, request.usual_gpu_pods, request.only_enforced_gpu_shares, request.gpu_neighbours
    )
    plugins = others_plugins(request.plugins)
    sealer, seals = read_seal(request.seal)
    kinds = workload_kinds(request.workload_kinds)
    log_to_stderr(request.log_level, request.log_format)
    for setting in config.settings if config is not None else ():
        level = logging.WARNING if setting.verdict is SettingVerdict.NOT_SUPPORTED else logging.INFO
        _log.log(level, "%s: %s", request.config, setting)
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
        preempts_for_resizes=request.preempt_for_resizes,
        devices=devices,
        plugins=plugins,
        default_spread=DEFAULT_SPREADS[request.default_spread],
        **options_of(config),
        span_target=spans_to,
        sealer=sealer,
        seals=seals,
        workload_kinds=kinds,
    )
    if request.shards > 1 and any(extender.bind_verb for extender in options.extenders):
        hint = "a bind of theirs names no version of the pod, so that one that comes too late would count"
        raise InvalidInput("--shards", request.shards, "1, with extenders that bind", hint)
    for option, path in (("--report-token-file", options.report_token), ("--debug-token-file", options.debug_token)):
        if path is not None:
            read_token(path, option)  # a broken file is reported before anything that takes seconds
    replica = open_replica(
        request, access, address, "cotenant-scheduler", request.election, lease_name(next(iter(names)))
    )
    if sealer is None and not request.shadow:
        _log.info(
            "no key: what pods are given is not sealed, and what they say that they hold is believed as far as they "
            "are entitled to it"
        )
    began_s = time.perf_counter()
    for entry in {one.name: one for one in (profile, *names.values())}.values():
        rehearse(entry)
    _log.info("rehearsed in %.1f s", time.perf_counter() - began_s)

    async def watch(stop: asyncio.Event) -> None:
        share = request.shadow_cpu_share_pct / 100.0
        shadow = ShadowProcess(access, profile, options, replica.identity, share, listening=replica.listening)
        shadow.kube.spare_collections()
        await shadow.run(stop)

    async def main(stop: asyncio.Event) -> None:
        sharding = Sharding(request.shards, replica, request.election) if request.shards > 1 else None
        process = SchedulerProcess(
            access,
            profile,
            options,
            replica.identity,
            sharding.elected if sharding is not None else replica.elected,
            listening=replica.listening,
            sharding=sharding,
        )
        process.kube.spare_collections()
        await process.run(stop)

    run_until_signal(watch if request.shadow else main)
    return 0
