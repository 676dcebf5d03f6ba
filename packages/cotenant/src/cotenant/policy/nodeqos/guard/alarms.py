"""Alarms since the last sample, as signals of the pods that they are about.

An alarm says that a group, or the machine, was stalled a moment ago, and the sample does not show it yet. It takes the
place of a pod's signal where it is worse; one of the machine is a signal of no pod.
Limits: of several alarms of one pod the longest counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.model.machine.node_state import NodeState, PodUse
from cotenant.policy.nodeqos.amounts import percent_text
from cotenant.policy.nodeqos.cpu.suppression import is_below
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.signals import PodSignal
from cotenant.policy.nodeqos.guard.step import CLOSE, PRESSED

MACHINE = ""  # in place of a pod's uid


@dataclass(frozen=True, slots=True)
class Alarms:
    """Stalled share of the alarm's window, millionths, by pod (uid)."""

    pods: Mapping[str, int]
    machine: int | None  # None: no alarm of the machine
    mild_below_ppm: int  # a shorter stall only keeps the ceiling from growing

    @classmethod
    def of(cls, state: NodeState, pods: Sequence[PodUse], config: GuardConfig, yielding: bool) -> Alarms:
        """The CPU alarms of these pods and of the machine. `yielding`: best-effort work is in the idle class
        already.
        """
        by_pod: dict[str, int] = {}
        machine: int | None = None
        for alarm in state.alarms:
            if alarm.what != "cpu":
                continue
            if not alarm.group:
                machine = max(machine or 0, alarm.stall_ppm)
                continue
            for entry in pods:
                if entry.pod.group and is_below(alarm.group, entry.pod.group):
                    by_pod[entry.pod.uid] = max(by_pod.get(entry.pod.uid, 0), alarm.stall_ppm)
        return cls(by_pod, machine, config.stall_cut_ppm if yielding else 0)

    def over(
        self, pods: Sequence[PodUse], signals: Mapping[str, PodSignal], with_machine: bool
    ) -> tuple[PodSignal, ...]:
        """The signals of these pods, in order, each with its alarm; the machine's is the last."""
        found = []
        for entry in pods:
            signal, stall = signals[entry.pod.uid], self.pods.get(entry.pod.uid)
            if stall is not None and signal.severity < self._severity(stall):
                signal = self._signal(entry.pod.key, stall)
            found.append(signal)
        if with_machine and self.machine is not None:
            found.append(self._signal("", self.machine))
        return tuple(found)

    def stalls(self, with_machine: bool) -> Mapping[str, int]:
        """The stalled shares by uid, and the machine's under `MACHINE`."""
        return {**self.pods, MACHINE: self.machine} if with_machine and self.machine is not None else self.pods

    def _severity(self, stall_ppm: int) -> int:
        return CLOSE if stall_ppm < self.mild_below_ppm else PRESSED

    def _signal(self, pod_key: str, stall_ppm: int) -> PodSignal:
        text = f"{pod_key or 'the machine'} was stalled on CPU for {percent_text(stall_ppm)} of the alarm window"
        return PodSignal(pod_key, self._severity(stall_ppm), "alarm", text)
