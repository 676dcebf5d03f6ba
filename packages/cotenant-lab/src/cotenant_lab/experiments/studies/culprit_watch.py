"""Attribution over an experiment's own groups: what the agent would read and conclude, without acting.

Sets of signals are to be compared on the same seconds. One reading of the groups, one state of the node, and the
agent's own attribution with several lists of signals side by side; the first pod that each names counts.
Limits: the eBPF probe is used where the kernel accepts it; without it there is no blame.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
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
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, NodeState, PodUse, ServiceHealth
from cotenant.policy.interference.attribution.answer import Attribution
from cotenant.policy.interference.attribution.attribute import attribute
from cotenant.policy.interference.attribution.samples import NodeSamples, extended
from cotenant.policy.interference.attribution.settings import AttributionSettings, EvidenceSignal
from cotenant_lab.experiments.site.site import now_us

ALL, NO_PROBE, NO_LATENCY = "all", "without the probe", "without latency"
# At the pace of the experiment, with a sample every half second and bursts of half a second, two bad samples of six are
# trouble.
_PACE = AttributionSettings(trouble_samples=2, trouble_of=6)
METHODS: Mapping[str, AttributionSettings] = {
    ALL: _PACE,
    NO_PROBE: replace(_PACE, signals=tuple(signal for signal in EvidenceSignal if signal is not EvidenceSignal.BLAME)),
    NO_LATENCY: replace(_PACE, signals=(EvidenceSignal.RUN_DELAY, EvidenceSignal.STALL, EvidenceSignal.BLAME)),
}


@dataclass(slots=True)
class SignalConclusions:
    """What one list of signals concluded so far."""

    settings: AttributionSettings
    history: NodeSamples = field(default_factory=NodeSamples)
    named: str | None = None  # the first pod, by its group
    named_us: int | None = None
    reason: str = ""
    causes: dict[str, int] = field(default_factory=dict)  # samples in trouble by cause
    last: Attribution | None = None


class WindowFile:
    """The newest window of a `windowed_service`'s file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._last: dict[str, int] | None = None

    def health(self, at_us: int) -> ServiceHealth | None:
        """The newest complete line as a report; None before the first."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                complete, newline, _ = file.read().rpartition(b"\n")
            if newline:
                self._read += len(complete) + 1
                self._last = json.loads(complete.rsplit(b"\n", 1)[-1])
        last = self._last
        if last is None:
            return None
        return ServiceHealth(
            last["window_us"], last["requests"], last["p99_us"], last["over"], max(0, at_us - last["end_us"])
        )


class CulpritWatch:
    """Reads the groups at each `sample`; a context manager. `service` and `batch` are paths of groups. Raises
    `Unsupported`.
    """

    def __init__(
        self, layout: CgroupLayout, service: str, batch: Sequence[str], objective_us: int, latency: WindowFile
    ) -> None:
        self._service = NodePod(
            service,
            "experiment",
            service.rpartition("/")[2],
            service,
            QoSClass.LS,
            priority_class=PriorityClass.PROD,
            objective_p99_us=objective_us,
        )
        self._batch = tuple(
            NodePod(
                group, "experiment", group.rpartition("/")[2], group, QoSClass.BE, priority_class=PriorityClass.FREE
            )
            for group in batch
        )
        self._latency = latency
        self._rates = Rates()
        self._stack = ExitStack()
        self._probe: RunQueue | None = None
        self.why_no_probe = ""
        self.methods = {name: SignalConclusions(settings) for name, settings in METHODS.items()}
        try:
            reader, host, delays = CgroupReader(layout), HostReader(), RunDelayReader(layout)
            for cgroup_reader in (reader, host, delays):
                self._stack.callback(cgroup_reader.close)
            self._sensor = NodeSensor(reader, host, now_us, time.time, run_delays=delays)
            self._start_probe(layout)
        except BaseException:
            self._stack.close()
            raise

    def _start_probe(self, layout: CgroupLayout) -> None:
        tree = layout.by_controller.get("cpu") or layout.unified
        try:
            if tree is None:
                raise Unsupported("eBPF", "the cpu controller")
            self._probe = self._stack.enter_context(RunQueue(tree.path, tree.version))
            self._probe.watch({self._service.group: None})
        except Unsupported as error:
            self.why_no_probe = str(error)

    def sample(self, ask: bool) -> NodeState | None:
        """Take a sample. With `ask`, attribute the service's trouble, if any. Returns the state, None at the first
        sample.
        """
        taken = self._sensor.sample((self._service.group, *(pod.group for pod in self._batch)))
        if self._probe is not None:
            taken = replace(taken, run_queue=self._probe.read())
        rates = self._rates.advance(taken)
        if rates is None or not rates.interval_us:
            return None
        health = self._latency.health(taken.at_us)
        entries = [PodUse(self._service, _use(rates.groups, self._service), health=health)]
        entries += [PodUse(pod, _use(rates.groups, pod)) for pod in self._batch]
        state = NodeState(taken.at_us, rates.interval_us, rates.host, tuple(entries), blame=rates.blame)
        for method in self.methods.values():
            self._step(method, state, ask)
        return state

    def _step(self, method: SignalConclusions, state: NodeState, ask: bool) -> None:
        method.history = extended(method.history, state, method.settings)
        if not ask or not method.history.in_trouble(self._service.uid, method.settings):
            return
        found = attribute(method.history, state, state.pods[0], method.settings)
        if found is None:
            return
        method.last = found
        method.causes[found.cause.value] = method.causes.get(found.cause.value, 0) + 1
        if found.culprit is not None and method.named is None:
            method.named, method.named_us, method.reason = found.culprit.uid, state.at_us, found.reason.text

    def __enter__(self) -> CulpritWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def _use(groups: Mapping[str, GroupUse], pod: NodePod) -> GroupUse:
    return groups.get(pod.group) or GroupUse(pod.group)
