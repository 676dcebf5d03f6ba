"""Where the parts of a local cluster are reached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses of the cluster."""

    url: str
    kubeconfig: Path
    scheduler_port: int = 0  # 0 = not running
    extender_port: int = 0
    manager_port: int = 0
    console: str = ""  # the link that logs in once
    otlp_http_port: int = 0
    otlp_grpc_port: int = 0
    rebalancer_port: int = 0
    credit_port: int = 0
