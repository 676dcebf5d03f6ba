"""Knobs of cgroups, each held by the means that its owner leaves: through systemd where the group is a unit of its,
else by the group's files.

Systemd rewrites the files of its units from their properties; a file written beside it lasts until then. The owner's
table (model/kubelet) decides once for each lease, when its original value is read, and the lease's raw value says which
it was, so that it is restored the same way, also by a later keeper. Where systemd does not know the group or does not
answer, the file is written; the keeper's watch then writes again what systemd undoes.
Limits: a lease keeps its means; one taken while the bus was away goes over to systemd when it is taken anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.systemd.knobs import SystemdKnobs, is_of_systemd
from cotenant.drivers.systemd.manager import SystemdManager
from cotenant.model.errors import CotenantError
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.kubelet.ruling import HoldingMeans, ruling
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished

_log = logging.getLogger(__name__)


class OwnedKnobs:
    """Implements engine/node/interfaces.KnobPort and KnobIdentity for `KnobScope.CGROUP`."""

    def __init__(self, files: CgroupKnobs, systemd: SystemdManager, facts: Callable[[], KubeletFacts]) -> None:
        self._files = files
        self._systemd = SystemdKnobs(systemd, files)
        self._facts = facts
        self._through_systemd: set[KnobTarget] = set()  # means of the knobs whose original value was read
        self._reported: set[str] = set()

    def supported(self, knob: Knob) -> Gap | None:
        """As the files' driver."""
        return self._files.supported(knob)

    def read(self, target: KnobTarget) -> str:
        """The current value: what the kernel has, whoever wrote it."""
        try:
            return self._files.read(target)
        except Vanished:
            self._through_systemd.discard(target)
            raise

    def raw(self, target: KnobTarget) -> str:
        """What `restore` needs; decides how the knob is held from now on."""
        self._through_systemd.discard(target)
        if target.knob.undoable and ruling(target, self._facts()).means is HoldingMeans.SYSTEMD:
            try:
                raw = self._systemd.raw(target)
            except CotenantError as error:
                self._report(f"{target.group} is held by its files, not through systemd: {error}")
            else:
                self._through_systemd.add(target)
                return raw
        return self._files.raw(target)

    def write(self, target: KnobTarget, value: str) -> None:
        """Set the knob by the means of its lease."""
        if target in self._through_systemd:
            self._systemd.write(target, value)
        else:
            self._files.write(target, value)

    def restore(self, target: KnobTarget, raw: str) -> None:
        """Write back what `raw` returned, by the means with which it was read."""
        if is_of_systemd(raw):
            self._systemd.restore(target, raw)
        else:
            self._files.restore(target, raw)
        self._through_systemd.discard(target)

    def yielded(self, target: KnobTarget) -> None:
        """The lease ended because another process wrote a value of its own: that is systemd's from now on, too."""
        if target not in self._through_systemd:
            return
        self._through_systemd.discard(target)
        try:
            self._systemd.hand_over(target, self._files.read(target))
        except CotenantError as error:
            self._report(f"{target}: systemd still has the value that was held: {error}")

    def identity(self, target: KnobTarget) -> str:
        """The identity of the group."""
        try:
            return self._files.identity(target)
        except Vanished:
            self._through_systemd.discard(target)  # leases of a group that is gone end without a restore
            raise

    def _report(self, line: str) -> None:
        if line not in self._reported and len(self._reported) < 64:
            self._reported.add(line)
            _log.warning("%s", line)
