"""What a person asks of `cotenant rebalancer run`, and the checks that need nothing else: a refused value costs no more than the command line (services/scheduler/arguments.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.model.errors import InvalidInput
from cotenant.services.kube_process.identity import check_lease_namespace
from cotenant.services.logs import check_logging


@dataclass(frozen=True, slots=True)
class RunArguments:
    """The command's arguments."""

    kubeconfig: Path | None = None
    context: str = ""
    config: Path | None = None
    act: bool | None = None  # None = as the configuration says, else a dry run
    interval_s: float | None = None  # None = as the configuration says
    watch_s: float | None = None
    scheduler_names: tuple[str, ...] = ("cotenant", "default-scheduler")
    profile: str = "cotenant"
    load_aware: Path | None = None
    workload_kinds: Path | None = None  # folder of declarations beside the package's
    listen: str = "127.0.0.1:10264"
    leader_elect: bool = True
    lease_namespace: str = ""
    election: Timing = field(default_factory=Timing)
    state_dir: Path | None = None
    log_level: str = "info"
    log_format: str = "text"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    otlp_traces: str = ""  # URL; "" = no spans
    otlp_traces_token_file: Path | None = None
    otlp_traces_ca: Path | None = None


def check(request: RunArguments) -> Address:
    """The address to listen on. Raises `InvalidInput` for a value that cannot be."""
    address = Address.parse("--listen", request.listen)
    if address.path:
        raise InvalidInput("--listen", request.listen, "HOST:PORT")
    for option, value in (("--interval-s", request.interval_s), ("--watch-s", request.watch_s)):
        if value is not None and not (value > 0 and isfinite(value)):
            raise InvalidInput(option, value, "more than 0 seconds")
    check_lease_namespace(request.lease_namespace)
    check_logging(request.log_level, request.log_format)
    return address
