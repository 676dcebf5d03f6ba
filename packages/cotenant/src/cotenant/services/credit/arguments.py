"""What a person asks of `cotenant credit serve`, and the checks that need nothing else: a refused value costs no more than the command line (services/scheduler/arguments.py)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.http.address import Address
from cotenant.model.errors import InvalidInput
from cotenant.services.kube_process.identity import check_lease_namespace
from cotenant.services.logs import check_logging


@dataclass(frozen=True, slots=True)
class CreditArguments:
    """The arguments of `cotenant credit serve`."""

    kubeconfig: Path | None = None
    context: str = ""
    store: str = ""
    listen: str = "127.0.0.1:10265"
    token_file: Path | None = None
    report_account: str = ""  # NAMESPACE/NAME of the agents' service account
    period_s: float = 60.0
    half_life_s: int = 86_400
    bound: int = 100
    writes_standing: bool = True
    leader_elect: bool = True
    lease_namespace: str = ""
    state_dir: Path | None = None
    log_level: str = "info"
    log_format: str = "text"
    tls_cert: Path | None = None
    tls_key: Path | None = None


def check(request: CreditArguments) -> Address:
    """The address to listen on. Raises `InvalidInput` for a value that cannot be."""
    address = Address.parse("--listen", request.listen)
    if address.path:
        raise InvalidInput("--listen", request.listen, "HOST:PORT")
    if not 1 <= request.period_s <= 86_400:
        raise InvalidInput("--period-s", request.period_s, "1 to 86400 seconds")
    if not 1 <= request.bound <= 10**9:
        raise InvalidInput("--bound", request.bound, f"1 to {10**9} credits")
    if request.half_life_s < 60:
        raise InvalidInput("--half-life-s", request.half_life_s, "60 seconds or more")
    check_lease_namespace(request.lease_namespace)
    check_logging(request.log_level, request.log_format)
    return address
