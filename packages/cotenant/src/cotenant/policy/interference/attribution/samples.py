"""What attribution keeps of each interval of the node: levels of every signal per service, activity per pod, and who
ran while a service waited.

Evidence needs a minute of history of many services and pods in little memory. One value per interval with only the
numbers that are used; samples older than the window are dropped. The usual level of signals without an objective is a
running mean and deviation, updated while the service is not in trouble.
Limits: at most `MAX_SAMPLES` samples; with a period below a quarter of a second the window is shorter than configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import sqrt

from cotenant.model.machine.node_state import PPM, NodeState, PodUse
from cotenant.policy.interference.attribution.cards import NO_CARDS, BesideCards, CardLoad, card_loads
from cotenant.policy.interference.attribution.held import HeldUse, held_pods
from cotenant.policy.interference.attribution.settings import (
    FLOORS_PPM,
    MAX_SAMPLES,
    AttributionSettings,
    EvidenceSignal,
)
from cotenant.policy.interference.series import BlameSample, blame_samples
from cotenant.policy.interference.settings import VictimSignal
from cotenant.policy.interference.signals import victim_level_ppm

_WITHOUT_OBJECTIVE = {
    EvidenceSignal.CPI: VictimSignal.CPI,
    EvidenceSignal.RUN_DELAY: VictimSignal.RUN_DELAY,
    EvidenceSignal.STALL: VictimSignal.STALL,
}
_LEARNED = (*_WITHOUT_OBJECTIVE, EvidenceSignal.IO_STALL)  # whose usual level is known from calm samples
OF_REQUESTS = frozenset({EvidenceSignal.LATENCY, EvidenceSignal.SELF_TIME})
_AVERAGED = 60  # samples that the usual level averages over


@dataclass(frozen=True, slots=True)
class ServiceSample:
    """One service over one interval."""

    uid: str
    levels: Mapping[EvidenceSignal, int]  # millionths; without those that are not known
    cpu_m: int
    throttled_ppm: int
    rate_milli: int | None = None  # thousandths of requests per second; None where it reports none
    burn_milli: int | None = None  # requests over the objective per request allowed, thousandths; None where unknown
    window_us: int = 0  # of its latency
    age_us: int = 0  # since that window ended
    is_small: bool = False  # that window has fewer requests than a p99 takes; its latency counts since most were late


@dataclass(frozen=True, slots=True)
class AttributionSample:
    """The node over one interval."""

    at_us: int  # its end
    length_us: int
    services: Mapping[str, ServiceSample]  # by uid
    activity: Mapping[str, int]  # milli-CPU of every pod, by uid
    blame: Mapping[str, BlameSample] | None  # by the victim's uid; None without the probe
    outside_m: int  # milli-CPU of the machine outside all pods
    steal_ppm: int
    workloads: Mapping[str, str] = field(default_factory=dict)  # of best-effort pods that one object made, by uid
    disk: Mapping[str, int] = field(default_factory=dict)  # bytes per second that pods read and wrote, by uid
    disk_stall_ppm: int | None = None  # of the machine
    cpi_milli: Mapping[str, int] = field(default_factory=dict)  # cycles per instruction of pods, by uid, where known
    held: Mapping[str, HeldUse] = field(default_factory=dict)  # best-effort pods that a limit of ours holds, by uid
    ours: frozenset[str] = frozenset()  # uids of the agent's own pods
    cpus: int = 1
    cards: tuple[CardLoad, ...] = ()
    beside: BesideCards = NO_CARDS  # as one service sees its cards; only where its trouble is looked at (evidence.py)

    def free_m(self, uid: str) -> int:
        """What a pod used, or would have used as before it was held, milli-CPU."""
        held = self.held.get(uid)
        return max(self.activity.get(uid, 0), 0 if held is None else held.cpu_m)


@dataclass(frozen=True, slots=True)
class UsualLevel:
    """Running mean and variance of one signal of one service while it is not in trouble."""

    samples: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def with_level(self, level: int) -> UsualLevel:
        """After one more sample."""
        samples = min(self.samples + 1, _AVERAGED)
        mean = self.mean + (level - self.mean) / samples
        spread = (level - self.mean) * (level - mean)
        return UsualLevel(samples, mean, self.variance + (spread - self.variance) / samples)

    def threshold_ppm(self, settings: AttributionSettings) -> int | None:
        """The level above which a sample is bad; None while too few were seen."""
        if self.samples < settings.usual_samples:
            return None
        return round(self.mean + settings.sigmas * sqrt(max(0.0, self.variance)))


@dataclass(frozen=True, slots=True)
class NodeSamples:
    """The window of samples, oldest first, and usual levels by service and signal."""

    samples: tuple[AttributionSample, ...] = ()
    usual: Mapping[tuple[str, EvidenceSignal], UsualLevel] = field(default_factory=dict)

    def threshold_ppm(self, uid: str, signal: EvidenceSignal, settings: AttributionSettings) -> int | None:
        """The threshold of a service's signal; None while it is not known, which only CPI needs."""
        floor = FLOORS_PPM[signal]
        known = self.usual.get((uid, signal))
        usual = None if known is None else known.threshold_ppm(settings)
        if usual is None:
            return None if signal is EvidenceSignal.CPI else floor
        return max(floor, usual)

    def without_small_windows(self, uid: str) -> NodeSamples:
        """The same where windows of few requests tell no latency of this service."""

        def counted(sample: AttributionSample) -> AttributionSample:
            service = sample.services.get(uid)
            if service is None or not service.is_small:
                return sample
            levels = {signal: level for signal, level in service.levels.items() if signal not in OF_REQUESTS}
            kept = replace(service, levels=levels, window_us=0, age_us=0, burn_milli=None, is_small=False)
            return replace(sample, services={**sample.services, uid: kept})

        return replace(self, samples=tuple(map(counted, self.samples)))

    def of(self, uid: str) -> tuple[tuple[AttributionSample, ServiceSample], ...]:
        """The samples that contain a service, oldest first."""
        return tuple((sample, sample.services[uid]) for sample in self.samples if uid in sample.services)

    def deciding(self, uid: str, settings: AttributionSettings) -> EvidenceSignal | None:
        """The signal that decides whether the service is in trouble: the first one that its last sample has; None
        where there is none.
        """
        last = self.samples[-1].services.get(uid) if self.samples else None
        return None if last is None else self._first_of(last, settings)

    def exceeds(self, service: ServiceSample, settings: AttributionSettings) -> bool:
        """Whether one sample is above the threshold of the first signal that it has itself."""
        signal = self._first_of(service, settings)
        threshold = None if signal is None else self.threshold_ppm(service.uid, signal, settings)
        return signal is not None and threshold is not None and service.levels[signal] > threshold

    def _first_of(self, service: ServiceSample, settings: AttributionSettings) -> EvidenceSignal | None:
        for signal in settings.signals:
            if signal in service.levels and self.threshold_ppm(service.uid, signal, settings) is not None:
                # Own time alone does not show that users wait: the whole latency decides, where it is known.
                return (
                    EvidenceSignal.LATENCY
                    if signal is EvidenceSignal.SELF_TIME and EvidenceSignal.LATENCY in service.levels
                    else signal
                )
        return None

    def in_trouble(self, uid: str, settings: AttributionSettings) -> bool:
        """Whether enough of its last samples exceed the threshold."""
        signal = self.deciding(uid, settings)
        if signal is None:
            return False
        threshold = self.threshold_ppm(uid, signal, settings)
        last = self.of(uid)[-settings.trouble_of :]
        bad = sum(threshold is not None and sample.levels.get(signal, 0) > threshold for _, sample in last)
        return bad >= settings.trouble_samples


def extended(history: NodeSamples, state: NodeState, settings: AttributionSettings) -> NodeSamples:
    """The history with one more interval. A first interval and one that was already seen (an alarm) add nothing."""
    if state.interval_us <= 0 or state.alarms:
        return history
    if history.samples and state.at_us <= history.samples[-1].at_us:
        history = NodeSamples(usual=history.usual)  # the clock went back
    sample = _sample(state, settings, history.samples[-1] if history.samples else None)
    recent = tuple(entry for entry in history.samples if sample.at_us - entry.at_us < settings.window_us)
    after = NodeSamples((*recent, sample)[-MAX_SAMPLES:], history.usual)
    usual = {key: level for key, level in history.usual.items() if key[0] in sample.services}
    for uid, service in sample.services.items():
        if not after.in_trouble(uid, settings) and service.throttled_ppm <= settings.own_throttled_ppm:
            for signal in _LEARNED:
                if signal in service.levels:
                    # A single bad sample is no trouble yet; it counts as the threshold, so that it does not raise the
                    # usual level by much.
                    before = usual.get((uid, signal), UsualLevel())
                    most = before.threshold_ppm(settings)
                    level = service.levels[signal]
                    usual[uid, signal] = before.with_level(level if most is None else min(level, most))
    return NodeSamples(after.samples, usual)


def _sample(state: NodeState, settings: AttributionSettings, last: AttributionSample | None) -> AttributionSample:
    # A service whose group cannot be read may still report its latency.
    services = {entry.pod.uid: _service(entry, settings) for entry in state.services}
    activity = {entry.pod.uid: entry.use.cpu_m for entry in state.pods if entry.use.cpu_m is not None}
    blame = None if state.blame is None else {sample.victim: sample for sample in blame_samples(state)}
    outside_m = max(0, (state.host.cpu_m or 0) - sum(activity.values()))
    workloads = {entry.pod.uid: entry.pod.workload for entry in state.best_effort_pods if entry.pod.workload}
    steal_ppm = state.host.steal_ppm or 0
    disk = {
        entry.pod.uid: moved
        for entry in state.pods
        if (moved := (entry.use.io_read_bps or 0) + (entry.use.io_written_bps or 0))
    }
    return AttributionSample(
        at_us=state.at_us,
        length_us=state.interval_us,
        services=services,
        activity=activity,
        blame=blame,
        outside_m=outside_m,
        steal_ppm=steal_ppm,
        workloads=workloads,
        disk=disk,
        disk_stall_ppm=state.host.io_stall_ppm,
        cpi_milli={entry.pod.uid: entry.use.cpi_milli for entry in state.pods if entry.use.cpi_milli},
        held={} if last is None else held_pods(state, last.activity, last.held, settings),
        ours=frozenset(entry.pod.uid for entry in state.pods if entry.pod.ours),
        cpus=state.host.cpus,
        cards=card_loads(state),
    )


def _service(entry: PodUse, settings: AttributionSettings) -> ServiceSample:
    levels: dict[EvidenceSignal, int] = {}
    for signal, plain in _WITHOUT_OBJECTIVE.items():
        level = victim_level_ppm(plain, entry)
        if signal in settings.signals and level is not None:
            levels[signal] = 0 if signal is EvidenceSignal.RUN_DELAY and _hardly_waited(entry, settings) else level
    if EvidenceSignal.IO_STALL in settings.signals and entry.use.io_stall_ppm is not None:
        levels[EvidenceSignal.IO_STALL] = entry.use.io_stall_ppm
    health, objective_us = entry.health, entry.pod.objective_p99_us
    rate = burn = None
    window_us = age_us = 0
    is_small = False
    if health is not None and health.window_us and health.age_us <= settings.health_age_us:
        rate = health.requests * 1_000_000_000 // health.window_us
        if objective_us and health.tells(settings.min_requests):
            window_us, age_us = health.window_us, health.age_us
            is_small = health.requests < settings.min_requests
            budget_ppm = health.budget_ppm or settings.budget_ppm
            burn = health.over_objective * 1000 * PPM // (health.requests * budget_ppm)
            level = victim_level_ppm(VictimSignal.LATENCY, entry, settings.min_requests)
            if EvidenceSignal.LATENCY in settings.signals and level is not None:
                levels[EvidenceSignal.LATENCY] = level
            if EvidenceSignal.SELF_TIME in settings.signals and health.self_p99_us is not None:
                levels[EvidenceSignal.SELF_TIME] = health.self_p99_us * PPM // objective_us
    return ServiceSample(
        entry.pod.uid,
        levels,
        entry.use.cpu_m or 0,
        entry.use.throttled_ppm or 0,
        rate,
        burn,
        window_us,
        age_us,
        is_small,
    )


def _hardly_waited(entry: PodUse, settings: AttributionSettings) -> bool:
    """Whether its waiting is long only relative to next to no use, while nobody said how fast it has to be."""
    return entry.pod.objective_p99_us is None and (entry.use.run_delay_ppm or 0) < settings.min_waited_ppm
