"""What a person asks of `cotenant scheduler`, and the checks that need nothing else.

Problem: a refused option should cost no more than the command line itself, and the engine's kernels take seconds to load. Choice: the arguments and the checks of single
values are apart from `main.py`, which checks what names profiles and files. Limits: whether an address is free is found when it is bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.engine.plugins.quotas.settings import DEFAULTS as QUOTAS_AS_USUAL
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.model.errors import InvalidInput
from cotenant.services.kube_process.identity import check_lease_namespace
from cotenant.services.logs import check_logging

DEFAULT_SPREADS = {"profile": None, "system": True, "none": False}


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
    workload_kinds: Path | None = None  # folder of declarations beside the package's
    seal: Path | None = None  # folder of the key and the certificate; None = what pods are given is not sealed


def check(request: SchedulerArguments) -> Address:
    """The address to listen on. Raises `InvalidInput` for a value that cannot be."""
    address = Address.parse("--listen", request.listen)
    if address.path:
        raise InvalidInput("--listen", request.listen, "HOST:PORT")
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
    check_logging(request.log_level, request.log_format)
    if request.default_spread not in DEFAULT_SPREADS:
        raise InvalidInput("--default-spread", request.default_spread, f"one of {', '.join(DEFAULT_SPREADS)}")
    return address
