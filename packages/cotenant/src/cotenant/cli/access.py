"""A kubeconfig that cannot be used is refused before a process's engine is loaded."""

from __future__ import annotations

from pathlib import Path


def check_access(kubeconfig: Path | None, context: str) -> None:
    """Raises `InvalidInput` as the process would. No request is sent."""
    from cotenant.drivers.kube.client.access import load_access

    load_access(kubeconfig, context)
