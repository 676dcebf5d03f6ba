"""The facts about kubelet and systemd that this process reads for itself: for a keeper, a client's word does not count.

Which devices it has given the kubelet is asked. Its checkpoints say with which policies it started, and win over its
configuration file, which has the rest.
Limits: what only the kubelet's own answer has (`services/agent/discovery/kubelet.py`) is not known here; files are read
again after some seconds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cotenant.drivers.kubelet.configuration import CONFIG_NAME, MEMORY_STATE_NAME, config_of_file, memory_manager_of
from cotenant.drivers.kubelet.cpu_manager import STATE, read_cpu_manager
from cotenant.drivers.kubelet.given_devices import Given
from cotenant.model.kubelet.facts import KubeletFacts

# Another policy is seen within this where the folder is visible; a file that is mounted by itself is as of the mount.
_AGE_S = 10.0
_log = logging.getLogger(__name__)


class NodeFactsReader:
    """The facts now: `systemd` is asked each time, the kubelet's files beside this checkpoint read again after some
    seconds.
    """

    def __init__(
        self,
        cgroup_version: int | None,
        systemd: Callable[[], int | None],
        checkpoint: Path = STATE,
        clock: Callable[[], float] = time.monotonic,
        devices: Callable[[], Given] = tuple,
    ) -> None:
        self._version = cgroup_version or 2
        self._systemd = systemd
        self._checkpoint = checkpoint
        self._clock = clock
        self._devices = devices
        self._read = KubeletFacts(self._version)
        self._read_at_s = float("-inf")
        self._said = False
        self._config, self._config_changed = KubeletFacts(), (0, 0)

    def __call__(self) -> KubeletFacts:
        """The facts."""
        now_s = self._clock()
        if now_s - self._read_at_s >= _AGE_S:
            self._read, self._read_at_s = self._of_files(), now_s
        return replace(self._read, systemd=self._systemd())

    def _say_if_replaced(self) -> None:
        """The kubelet replaces its checkpoint; a file that is mounted by itself is the old one from then on."""
        try:
            replaced = self._checkpoint.stat().st_nlink == 0
        except OSError:
            return
        if replaced and not self._said:
            self._said = True
            _log.warning(
                "the kubelet has replaced %s since it was mounted: CPUs that it gives or takes, and another policy, "
                "are seen after a restart of this container",
                self._checkpoint,
            )

    def _of_files(self) -> KubeletFacts:
        self._say_if_replaced()
        manager = read_cpu_manager(self._checkpoint)
        memory = memory_manager_of(self._checkpoint.parent / MEMORY_STATE_NAME)
        started = KubeletFacts(
            cpu_manager=manager.policy,
            memory_manager=memory,
            given_cpus=manager.given,
            given_devices=self._devices(),
        )
        return KubeletFacts(self._version).joined(self._of_config()).joined(started)

    def _of_config(self) -> KubeletFacts:
        """Parsed where it changed: YAML is slow."""
        path = self._checkpoint.parent / CONFIG_NAME
        try:
            status = path.stat()
        except OSError:
            return KubeletFacts()
        changed = (status.st_mtime_ns, status.st_size)
        if changed != self._config_changed:
            self._config, self._config_changed = config_of_file(path), changed
        return self._config
