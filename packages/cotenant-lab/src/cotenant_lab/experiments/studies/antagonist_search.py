"""The search for antagonists over an experiment's own groups: what the agent would read and conclude, without acting.

Several methods of naming a culprit are to be compared on the same seconds. One reading of the groups, one state of the
node, and the agent's own policy with different signals side by side.
Limits: the eBPF probe is used where the kernel accepts it; without it, its method is missing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.schedstat import RunDelayReader
from cotenant.drivers.cgroup.sensor import NodeSensor
from cotenant.drivers.ebpf.runqueue import RunQueue
from cotenant.drivers.proc.host import HostReader
from cotenant.engine.node.rates import Rates
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.errors import Unsupported
from cotenant.model.machine.knob import SetKnob
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, NodeState, PodUse
from cotenant.policy.interference.antagonist import CauseHistory, decide, suspects
from cotenant.policy.interference.settings import InterferenceSettings, SuspectSignal, VictimSignal
from cotenant_lab.experiments.site.site import now_us

STEP_US = 500_000
LEARNING = 8  # samples of the service alone
RUN_DELAY, STALL, BLAME = "run_delay", "psi", "blame"

# The published rule at a pace suitable for an experiment: a sample every half second, and a service of a sixth of a
# core.
_PACE = InterferenceSettings(
    every_us=STEP_US,
    sample_us=STEP_US,
    window_us=24_000_000,
    outlier_window_us=8_000_000,
    min_victim_cpu_m=40,
    usual_samples=LEARNING,
)
METHODS: Mapping[str, InterferenceSettings] = {
    RUN_DELAY: replace(_PACE, victim_signal=VictimSignal.RUN_DELAY, suspect_signal=SuspectSignal.CPU),
    STALL: replace(_PACE, victim_signal=VictimSignal.STALL, suspect_signal=SuspectSignal.CPU),
    BLAME: replace(_PACE, victim_signal=VictimSignal.RUN_DELAY, suspect_signal=SuspectSignal.BLAME),
}


@dataclass(slots=True)
class CulpritSearch:
    """One method of naming a culprit, and the group that it would have capped first."""

    settings: InterferenceSettings
    memory: CauseHistory = field(default_factory=CauseHistory)
    capped: str | None = None  # a group
    capped_us: int | None = None
    cap: SetKnob | None = None  # the cap that it would have set
    said: str = ""


class AntagonistSearch:
    """Reads the groups at each `sample`; a context manager. `service` and `batch` are paths of groups. Raises
    `Unsupported`.
    """

    def __init__(self, layout: CgroupLayout, service: str, batch: Sequence[str]) -> None:
        self._service, self._batch = service, tuple(batch)
        self._rates = Rates()
        self._stack = ExitStack()
        self._probe: RunQueue | None = None
        self.why_no_probe = ""
        try:
            reader, host, delays = CgroupReader(layout), HostReader(), RunDelayReader(layout)
            for cgroup_reader in (reader, host, delays):
                self._stack.callback(cgroup_reader.close)
            self._sensor = NodeSensor(reader, host, now_us, time.time, run_delays=delays)
            self._start_probe(layout)
        except BaseException:
            self._stack.close()
            raise
        self.methods = {
            name: CulpritSearch(settings)
            for name, settings in METHODS.items()
            if name != BLAME or self._probe is not None
        }

    def _start_probe(self, layout: CgroupLayout) -> None:
        tree = layout.by_controller.get("cpu") or layout.unified
        try:
            if tree is None:
                raise Unsupported("eBPF", "the cpu controller")
            self._probe = self._stack.enter_context(RunQueue(tree.path, tree.version))
            self._probe.watch({self._service: None})
        except Unsupported as error:
            self.why_no_probe = str(error)

    def first(self, name: str) -> str | None:
        """The top-ranked group by one method, over the current window; None while no group scores above 0."""
        method = self.methods[name]
        victim = PodUse(_pod(self._service, QoSClass.LS, PriorityClass.PROD), GroupUse(self._service))
        places = suspects(victim, method.settings, method.memory)
        return places[0].uid if places and places[0].score_ppm > 0 else None

    def sample(self) -> dict[str, GroupUse]:
        """Take a sample and run every method. Returns each group's use since the last sample, empty at the first."""
        taken = self._sensor.sample((self._service, *self._batch))
        if self._probe is not None:
            taken = replace(taken, run_queue=self._probe.read())
        rates = self._rates.advance(taken)
        if rates is None or not rates.interval_us:
            return {}
        pods = [_pod(self._service, QoSClass.LS, PriorityClass.PROD)]
        pods += [_pod(group, QoSClass.BE, PriorityClass.FREE) for group in self._batch]
        entries = tuple(PodUse(pod, rates.groups.get(pod.group) or GroupUse(pod.group)) for pod in pods)
        state = NodeState(taken.at_us, rates.interval_us, rates.host, entries, blame=rates.blame)
        for method in self.methods.values():
            verdict, method.memory = decide(state, method.settings, method.memory)
            if method.capped is None and method.memory.caps.active:
                method.capped = method.memory.caps.active[0].uid
                method.capped_us = taken.at_us
                method.cap = next(iter(verdict.knobs), None)
                method.said = verdict.reasons[-1].text
        return rates.groups

    def close(self) -> None:
        """Close all files and the probe."""
        self._stack.close()

    def __enter__(self) -> AntagonistSearch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _pod(group: str, qos: QoSClass, priority_class: PriorityClass) -> NodePod:
    return NodePod(group, "experiment", group.rpartition("/")[2], group, qos, priority_class=priority_class)
