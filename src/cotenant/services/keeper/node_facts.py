"""The facts about kubelet and systemd that a keeper reads for itself: a client's word does not count here."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cotenant.drivers.kubelet.cpu_manager import STATE, read_cpu_manager
from cotenant.model.kubelet.facts import KubeletFacts

_AGE_S = 10.0  # a kubelet that restarts with another policy is seen within this


class NodeFacts:
    """The facts now: `systemd` is asked each time, the kubelet's checkpoint read again after some seconds."""

    def __init__(
        self,
        cgroup_version: int | None,
        systemd: Callable[[], int | None],
        checkpoint: Path = STATE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._version = cgroup_version or 2
        self._systemd = systemd
        self._checkpoint = checkpoint
        self._clock = clock
        self._policy = ""
        self._read_at_s = float("-inf")

    def __call__(self) -> KubeletFacts:
        """The facts."""
        now_s = self._clock()
        if now_s - self._read_at_s >= _AGE_S:
            self._policy, self._read_at_s = read_cpu_manager(self._checkpoint).policy, now_s
        return KubeletFacts(self._version, cpu_manager=self._policy, systemd=self._systemd())
