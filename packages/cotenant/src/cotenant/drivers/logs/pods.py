"""Logs of a Kubernetes node's pods: FOLDER/NAMESPACE_POD_UID/CONTAINER/RESTARTS.log.

Source: Kubernetes, pkg/kubelet/kuberuntime, "BuildContainerLogsDirectory".
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PodLog:
    """The log of one start of a container."""

    namespace: str
    pod: str
    uid: str
    container: str
    path: Path


def pod_logs(folder: Path) -> tuple[PodLog, ...]:
    """All that are there; empty where there is no such folder."""
    found: list[PodLog] = []
    for pod in _names(folder):
        parts = pod.split("_")
        if len(parts) != 3:
            continue
        for container in _names(folder / pod):
            found.extend(
                PodLog(parts[0], parts[1], parts[2], container, folder / pod / container / file)
                for file in _names(folder / pod / container)
                if file.endswith(".log") and file.removesuffix(".log").isdecimal()
            )
    return tuple(found)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
