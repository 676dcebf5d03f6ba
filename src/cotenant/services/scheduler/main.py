"""Starting a scheduler process: arguments are checked, logging and signals set up.

Problem: a wrong argument must be one clear line before any request to a server. Choice: everything is checked here, then one event
loop runs until SIGTERM or SIGINT. A second signal does not wait for the hand-over. Limits: logs are lines on standard error.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from cotenant.drivers.http.address import Address, bind
from cotenant.drivers.http.tls import tls_of
from cotenant.drivers.http.tokens import read_token
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.drivers.seals.seals import read_seal
from cotenant.engine.plugins.quotas.settings import DEFAULTS as QUOTAS_AS_USUAL
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.rehearsal import rehearse
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.predicted_use import PredictedUseSettings
from cotenant.services.kernels import bring_kernels
from cotenant.services.kube_process.identity import check_lease_namespace, kept_identity, lease_name, new_identity
from cotenant.services.kube_process.leadership import Leadership, leadership
from cotenant.services.kube_process.span_export import span_target
from cotenant.services.logs import log_to_stderr
from cotenant.services.reporting.identity import report_user
from cotenant.services.running import raise_descriptors, run_until_signal
from cotenant.services.scheduler.device_settings import device_settings
from cotenant.services.scheduler.load_aware import read_settings
from cotenant.services.scheduler.names import by_requests, cluster_profile, predicts_use, read_names
from cotenant.services.scheduler.options import Options
from cotenant.services.scheduler.process import SchedulerProcess

_DEFAULT_SPREADS = {"profile": None, "system": True, "none": False}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SchedulerArguments:
    """The command's arguments."""

    kubeconfig: Path | None
    context: str
    scheduler_names: tuple[str, ...]
    profile: str
    leader_elect: bool
    lease_namespace: str
    qps: float
    burst: float
    binds_in_flight: int
    notices_per_s: float
    listen: str
    report_token_file: Path | None
    log_level: str
    debug_token_file: Path | None = None
    load_aware: Path | None = None
    predicted_use_risk_pct: float = 1.0
    quotas: QuotaSettings = QUOTAS_AS_USUAL
    device_strategy: str = "binpack"
    usual_gpu_pods: str = ""
    election: Timing = field(default_factory=Timing)
    default_spread: str = "profile"
    state_dir: Path | None = None  # of this replica's identity; None = a new identity at each start
    log_format: str = "text"
    report_account: str = ""  # NAMESPACE/NAME; "" = no review of tokens
    tls_cert: Path | None = None
    tls_key: Path | None = None
    otlp_traces: str = ""  # URL; "" = no spans
    otlp_traces_token_file: Path | None = None
    otlp_traces_ca: Path | None = None
    seal: Path | None = None  # folder of the key and the certificate; None = what pods are given is not sealed


def run(request: SchedulerArguments) -> int:
    """Run until a signal. Raises `InvalidInput`."""
    written = cluster_profile("--profile", request.profile)
    profile = by_requests(written)
    address = Address.parse("--listen", request.listen)
    if address.path:
        raise InvalidInput("--listen", request.listen, "HOST:PORT")
    names = read_names(request.scheduler_names, profile)
    if request.binds_in_flight < 1:
        raise InvalidInput("--binds-in-flight", request.binds_in_flight, "1 or more")
    if not request.burst >= 1 or not isfinite(request.burst):
        raise InvalidInput("--burst", request.burst, "1 or more")
    if not request.qps > 0:
        raise InvalidInput("--qps", request.qps, "a number above 0, or inf")
    if not (request.notices_per_s > 0 and isfinite(request.notices_per_s)):
        raise InvalidInput("--notices-per-s", request.notices_per_s, "a number above 0")
    if not 0 < request.predicted_use_risk_pct < 50:
        raise InvalidInput("--predicted-use-risk", request.predicted_use_risk_pct, "percent, above 0 and below 50")
    check_lease_namespace(request.lease_namespace)
    if request.default_spread not in _DEFAULT_SPREADS:
        raise InvalidInput("--default-spread", request.default_spread, f"one of {', '.join(_DEFAULT_SPREADS)}")
    spans_to = span_target(request.otlp_traces, request.otlp_traces_token_file, request.otlp_traces_ca)
    devices = device_settings(request.device_strategy, request.usual_gpu_pods)
    sealer, seals = read_seal(request.seal)
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
        default_spread=_DEFAULT_SPREADS[request.default_spread],
        span_target=spans_to,
        sealer=sealer,
        seals=seals,
    )
    if sealer is None:
        _log.info(
            "no key: what pods are given is not sealed, and what they say that they hold is believed as far as they are entitled to it"
        )
    for option, path in (("--report-token-file", options.report_token), ("--debug-token-file", options.debug_token)):
        if path is not None:
            read_token(path, option)  # a broken file is reported before anything that takes seconds
    raise_descriptors()
    listening = bind(address)  # so is an address in use
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
