"""Samples for the search, made from the agent's intervals, and the window of recent samples.

Evaluating every second would find an outlier every minute by chance. As published, one sample per minute over ten
seconds, means weighted by time. Victims and suspects share one record per sample, so that memory is samples x (victims
+ suspects).
Limits: a pod that appears within a sample has the mean over its part of it.

Source: Zhang et al., CPI2, EuroSys'13, section 4 (10 s of every 60 s).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.node_state import NodeState, PodUse
from cotenant.model.machine.run_queue import NoCulprit
from cotenant.policy.interference.settings import InterferenceSettings
from cotenant.policy.interference.signals import activity, victim_level_ppm

Amounts = tuple[tuple[str, int], ...]  # by pod


@dataclass(frozen=True, slots=True)
class VictimSample:
    """A protected pod over one sample."""

    uid: str
    job: str  # pods of one job share their usual values
    level_ppm: int
    cpu_m: int
    throttled_ppm: int


@dataclass(frozen=True, slots=True)
class BlameSample:
    """Groups that ran while one victim waited, microseconds; unattributed time and the victim itself separately."""

    victim: str  # uid
    by_pod: Amounts  # uids of others
    by_others: int  # groups that belong to no pod of this node, and unknown ones
    itself: int


@dataclass(frozen=True, slots=True)
class SampleSlice:
    """One sample of the whole node."""

    at_us: int  # its end
    victims: tuple[VictimSample, ...]
    activity: Amounts  # of best-effort pods, by uid
    blame: tuple[BlameSample, ...] = ()

    def victim(self, uid: str) -> VictimSample | None:
        """The sample of one victim."""
        return next((sample for sample in self.victims if sample.uid == uid), None)


@dataclass(frozen=True, slots=True)
class SampleWindow:
    """The window of samples, oldest first, and the intervals of the current sample."""

    slices: tuple[SampleSlice, ...] = ()
    sample: int = -1  # index of the sample that `taken` is part of
    taken: tuple[tuple[int, SampleSlice], ...] = ()  # length in us, and the interval as a slice


def is_informative(sample: VictimSample, settings: InterferenceSettings) -> bool:
    """Whether a sample can show interference: the victim ran enough, and was not throttled by its own quota."""
    return sample.cpu_m >= settings.min_victim_cpu_m and sample.throttled_ppm <= settings.own_throttled_ppm


def job_of(entry: PodUse) -> str:
    """The workload that the pod is an instance of: its namespace with its application label, else its own name."""
    labels = entry.pod.labels
    name = labels.get("app.kubernetes.io/name") or labels.get("app") or entry.pod.name
    return f"{entry.pod.namespace}/{name}"


def extend(
    series: SampleWindow, state: NodeState, settings: InterferenceSettings
) -> tuple[SampleWindow, SampleSlice | None]:
    """Add an interval; returns the sample that it completed, if any."""
    index, into_us = divmod(state.at_us - 1, settings.every_us)
    done = None
    if series.taken and index != series.sample:
        done = _mean(series.taken)
        series = SampleWindow(_recent((*series.slices, done), state.at_us, settings), index)
    if into_us < settings.sample_us:
        taken = (*series.taken, (state.interval_us, _interval(state, settings)))
        series = SampleWindow(series.slices, index, taken)
    elif series.taken:
        done = _mean(series.taken)
        series = SampleWindow(_recent((*series.slices, done), state.at_us, settings), index)
    return series, done


def _recent(slices: tuple[SampleSlice, ...], now_us: int, settings: InterferenceSettings) -> tuple[SampleSlice, ...]:
    return tuple(slice_ for slice_ in slices if now_us - slice_.at_us <= settings.window_us)


def _interval(state: NodeState, settings: InterferenceSettings) -> SampleSlice:
    victims = []
    for entry in state.services:
        level = victim_level_ppm(settings.victim_signal, entry)
        if level is not None and entry.use.cpu_m is not None:
            victims.append(
                VictimSample(entry.pod.uid, job_of(entry), level, entry.use.cpu_m, entry.use.throttled_ppm or 0)
            )
    amounts = []
    for entry in state.best_effort_pods:
        amount = activity(settings.suspect_signal, entry)
        if amount is not None:
            amounts.append((entry.pod.uid, amount))
    return SampleSlice(state.at_us, tuple(victims), tuple(amounts), blame_samples(state))


def blame_samples(state: NodeState) -> tuple[BlameSample, ...]:
    """The blame over the interval, by pods."""
    if state.blame is None:
        return ()
    owners = {entry.pod.group: entry.pod.uid for entry in state.pods if entry.pod.group}
    samples: dict[str, tuple[dict[str, int], list[int]]] = {}
    for entry in state.blame:
        victim = _owner(entry.victim, owners)
        if victim is None or entry.culprit is NoCulprit.IDLE:
            continue
        pods, unattributed = samples.setdefault(victim, ({}, [0, 0]))
        culprit = None if isinstance(entry.culprit, NoCulprit) else _owner(entry.culprit, owners)
        if culprit is None:
            unattributed[0] += entry.ran_us
        elif culprit == victim:
            unattributed[1] += entry.ran_us
        else:
            pods[culprit] = pods.get(culprit, 0) + entry.ran_us
    return tuple(
        BlameSample(victim, tuple(sorted(pods.items())), others, itself)
        for victim, (pods, (others, itself)) in sorted(samples.items())
    )


def _owner(group: str, owners: dict[str, str]) -> str | None:
    while group:
        if group in owners:
            return owners[group]
        group = group.rpartition("/")[0]
    return None


def _mean(taken: tuple[tuple[int, SampleSlice], ...]) -> SampleSlice:
    """Means by time of levels and activities, sums of blame."""
    victims: dict[str, list[tuple[int, VictimSample]]] = {}
    amounts: dict[str, list[tuple[int, int]]] = {}
    blame: dict[str, list[BlameSample]] = {}
    for length_us, part in taken:
        for sample in part.victims:
            victims.setdefault(sample.uid, []).append((length_us, sample))
        for uid, amount in part.activity:
            amounts.setdefault(uid, []).append((length_us, amount))
        for blamed in part.blame:
            blame.setdefault(blamed.victim, []).append(blamed)
    return SampleSlice(
        taken[-1][1].at_us,
        tuple(
            VictimSample(
                uid,
                parts[-1][1].job,
                _weighted([(length, sample.level_ppm) for length, sample in parts]),
                _weighted([(length, sample.cpu_m) for length, sample in parts]),
                _weighted([(length, sample.throttled_ppm) for length, sample in parts]),
            )
            for uid, parts in victims.items()
        ),
        tuple((uid, _weighted(parts)) for uid, parts in amounts.items()),
        tuple(_summed(uid, parts) for uid, parts in blame.items()),
    )


def _weighted(parts: list[tuple[int, int]]) -> int:
    return sum(length * value for length, value in parts) // max(1, sum(length for length, _ in parts))


def _summed(victim: str, parts: list[BlameSample]) -> BlameSample:
    pods: dict[str, int] = {}
    for part in parts:
        for uid, ran_us in part.by_pod:
            pods[uid] = pods.get(uid, 0) + ran_us
    return BlameSample(
        victim,
        tuple(sorted(pods.items())),
        sum(part.by_others for part in parts),
        sum(part.itself for part in parts),
    )
