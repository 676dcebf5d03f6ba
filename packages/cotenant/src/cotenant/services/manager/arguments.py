"""What a person asks of `cotenant manager`, and the checks that need nothing else: a refused value costs no more than the command line (services/scheduler/arguments.py)."""

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
class ManagerArguments:
    """The command's arguments."""

    kubeconfig: Path | None = None
    context: str = ""
    listen: str = "127.0.0.1:10263"
    config_namespace: str = "koordinator-system"
    config_name: str = "slo-controller-config"
    writes_per_s: float = 50.0
    leader_elect: bool = True
    lease_namespace: str = ""
    election: Timing = field(default_factory=Timing)
    state_dir: Path | None = None
    log_level: str = "info"
    log_format: str = "text"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_service: str = ""  # serve TLS with a certificate that this process makes for the Service
    certificates_for: tuple[str, ...] = ()  # Services of other parts
    authorities_in: str = ""  # NAMESPACE/NAME of a ConfigMap
    otlp_traces: str = ""  # URL; "" = no spans
    otlp_traces_token_file: Path | None = None
    otlp_traces_ca: Path | None = None


def check(request: ManagerArguments) -> Address:
    """The address to listen on. Raises `InvalidInput` for a value that cannot be."""
    address = Address.parse("--listen", request.listen)
    if address.path:
        raise InvalidInput("--listen", request.listen, "HOST:PORT")
    if not (request.writes_per_s > 0 and isfinite(request.writes_per_s)):
        raise InvalidInput("--writes-per-s", request.writes_per_s, "a number above 0")
    for option, name in (("--config-namespace", request.config_namespace), ("--config-name", request.config_name)):
        if not name or "/" in name:
            raise InvalidInput(option, name, "a name")
    check_lease_namespace(request.lease_namespace)
    if request.tls_service and request.tls_cert is not None:
        raise InvalidInput("--tls-service", request.tls_service, "not together with --tls-cert", "made here, or given")
    check_logging(request.log_level, request.log_format)
    return address
