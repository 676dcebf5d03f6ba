"""The evidence of each signal: which share of a service's trouble each candidate explains.

A candidate is another pod, the service's own load, or work outside the pods, and no single signal distinguishes them on
every node. Samples are split into bad ones (above the threshold) and calm ones. Blame compares who ran while the
service waited, per second of its CPU time, between the two. Every other signal is fitted on all candidates' activity
together, as differences from calm; a candidate's share is what its coefficient explains of the mean excess, times the
quality of the fit. What no candidate explains remains unexplained. A signal that did not rise gives no evidence.
A sample counts by how much its level was measured over, since looks between two ticks are short and a tick of a busy
machine may be ten seconds late.
Where a service executes slower, and does not wait, neighbours count by their work: whoever is slowed too uses more CPU
time for the same.
Limits: without calm samples only blame is evidence.

What candidates did at each sample: activity.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log, sqrt
from statistics import pstdev

from cotenant.model.devices.card_sample import CardPath
from cotenant.model.machine.node_state import PPM
from cotenant.policy.interference.attribution.activity import (
    ActivityMeasure,
    Own,
    Pairs,
    column,
    demand_of,
    mean,
    of_pod,
    window,
    work_of,
)
from cotenant.policy.interference.attribution.cards import NO_POD, ON_CARD, beside
from cotenant.policy.interference.attribution.regression import explained, nonnegative_fit
from cotenant.policy.interference.attribution.samples import AttributionSample, NodeSamples, ServiceSample
from cotenant.policy.interference.attribution.settings import FLOORS_PPM, AttributionSettings, EvidenceSignal

_OF_REQUESTS = (EvidenceSignal.LATENCY, EvidenceSignal.SELF_TIME)
_PER_CPU_TIME = (EvidenceSignal.RUN_DELAY,)
_MAX_RELUCTANCE = 1000.0


@dataclass(frozen=True, slots=True)
class Split:
    """A service's samples in the window, and which of them are bad by the deciding signal. An earlier trouble, that
    calm samples separate from the present one, is in `pairs` only. `earlier`: bad samples of the present one that are
    not asked about, since only its end is.
    """

    uid: str
    signal: EvidenceSignal
    threshold_ppm: int
    pairs: Pairs
    bad: Pairs
    calm: Pairs
    earlier: Pairs = ()

    @property
    def level_ppm(self) -> int:
        """Mean of the deciding signal over the bad samples."""
        return round(mean([sample.levels[self.signal] for _, sample in self.bad]))

    def telling(self, signal: EvidenceSignal, settings: AttributionSettings) -> Pairs:
        """The bad samples that show by which means it came to them: what a service waits for is gone as soon as it is
        held, while its requests are late for some seconds more.
        """
        if signal in _OF_REQUESTS:
            return self.bad
        free = tuple(pair for pair in self.bad if not _holds(pair[0], settings))
        return free or self.bad

    def disk_pressure_rise_ppm(self) -> int:
        """How much more of the time somebody on the machine waited for a disk in the bad samples; 0 if not known."""
        during, before = (
            mean([float(sample.disk_stall_ppm) for sample, _ in part if sample.disk_stall_ppm is not None])
            for part in (self.bad, self.calm)
        )
        return round(during - before)

    def card_means(self) -> tuple[ActivityMeasure, ...]:
        """The paths on the service's cards that were measured in all samples."""
        return tuple(
            means
            for means in ActivityMeasure
            if means.path is not None and all(means.path in sample.beside.taken for sample, _ in self.pairs)
        )

    def card_gaps(self) -> tuple[str, ...]:
        """The other paths, where the service has cards at all, with the last reason."""
        reasons = {path: why for sample, _ in self.pairs for path, why in sample.beside.gaps.items()}
        return tuple(f"{path}: {why}" for path, why in reasons.items())

    def full_paths(self, settings: AttributionSettings) -> frozenset[CardPath]:
        """The paths on which the fullest of the service's cards became full with the trouble."""
        found = []
        for path in ON_CARD:
            before, during = (
                mean([float(sample.beside.fullest.get(path, 0)) for sample, _ in part])
                for part in (self.calm, self.bad)
            )
            if during >= settings.min_card_full_permille and during - before >= settings.min_card_rise_permille:
                found.append(path)
        return frozenset(found)

    def growth_ppm(self) -> int | None:
        """Growth of the service's demand from calm to bad samples: of requests, else instructions, else CPU use.

        None without calm samples.
        """
        if not self.calm:
            return None
        demand = demand_of(self.pairs)
        before, during = (mean([demand(sample) for _, sample in part]) for part in (self.calm, self.bad))
        return round((during - before) * PPM / before) if before > 0 else None


@dataclass(frozen=True, slots=True)
class SignalEvidence:
    """What one signal shows: shares of the excess by candidate, in 0..1, with a sum of at most 1."""

    signal: EvidenceSignal
    shares: Mapping[str, float] = field(default_factory=dict)
    by_disk: Mapping[str, float] = field(default_factory=dict)  # the part of a pod's share that its disk use explains
    by_card: Mapping[tuple[str, CardPath], float] = field(default_factory=dict)  # and what it takes of a card


def split(history: NodeSamples, uid: str, settings: AttributionSettings, since_us: int = 0) -> Split | None:
    """A service's samples by its deciding signal, with the bad ones since an instant; None where it has none or no bad
    sample.
    """
    signal = history.deciding(uid, settings)
    threshold = None if signal is None else history.threshold_ppm(uid, signal, settings)
    if signal is None or threshold is None:
        return None
    pairs = tuple(
        (_seen_by(uid, _as_if_free(sample) if service.levels[signal] > threshold else sample), service)
        for sample, service in history.of(uid)
        if signal in service.levels
    )
    present = _present(pairs, signal, threshold, settings.trouble_of)
    calm = tuple(pair for pair in pairs if pair[1].levels[signal] <= threshold)
    bad = tuple(pair for pair in present if pair[0].at_us > since_us)
    if not bad:
        return None
    earlier = present[: len(present) - len(bad)]
    return Split(uid, signal, threshold, pairs, bad, calm if len(calm) >= settings.min_calm else (), earlier)


def _holds(sample: AttributionSample, settings: AttributionSettings) -> bool:
    return sum(held.cpu_m for held in sample.held.values()) >= settings.min_suspect_cpu_m


def _seen_by(uid: str, sample: AttributionSample) -> AttributionSample:
    """The sample with what pods take of this service's cards."""
    return replace(sample, beside=beside(sample.cards, uid)) if sample.cards else sample


def _as_if_free(sample: AttributionSample) -> AttributionSample:
    """The sample with pods that are held as active as before."""
    if not sample.held:
        return sample
    return replace(sample, activity={**sample.activity, **{uid: sample.free_m(uid) for uid in sample.held}})


def _present(pairs: Pairs, signal: EvidenceSignal, threshold_ppm: int, calm_samples: int) -> Pairs:
    """The bad samples since the last stretch of so many calm ones: who was absent from an earlier trouble may well
    have caused this one.
    """
    found: list[tuple[AttributionSample, ServiceSample]] = []
    calm = 0
    for pair in reversed(pairs):
        if pair[1].levels[signal] > threshold_ppm:
            found.append(pair)
            calm = 0
        else:
            calm += 1
        if found and calm >= calm_samples:
            break
    return tuple(reversed(found))


def suspects(
    parts: Split, settings: AttributionSettings, means: ActivityMeasure = ActivityMeasure.CPU
) -> tuple[str, ...]:
    """The pods that used CPU, disks, or its cards while the service was in trouble, the most active ones, by uid."""
    used: dict[str, float] = {}
    for sample, _ in parts.bad:
        for uid, amount in _amounts(sample, means).items():
            if uid not in (parts.uid, NO_POD):
                used[uid] = used.get(uid, 0.0) + amount / len(parts.bad)
    active = [uid for uid, amount in used.items() if amount >= min_activity(settings, means)]
    return tuple(sorted(sorted(active, key=lambda uid: (-used[uid], uid))[: settings.max_suspects]))


def _amounts(sample: AttributionSample, means: ActivityMeasure) -> Mapping[str, int]:
    if means.path is not None:
        return sample.beside.taken.get(means.path, {})
    return sample.disk if means is ActivityMeasure.DISK else sample.activity


def min_activity(settings: AttributionSettings, means: ActivityMeasure) -> int:
    """The mean activity in the bad samples below which a pod is no suspect."""
    if means.path is not None:
        return settings.min_suspect_pcie_bps if means is ActivityMeasure.PCIE else settings.min_suspect_card_permille
    return settings.min_suspect_disk_bps if means is ActivityMeasure.DISK else settings.min_suspect_cpu_m


def by_blame(parts: Split, settings: AttributionSettings) -> SignalEvidence | None:
    """Excess waiting per CPU time behind each candidate. None without the probe, or where waiting did not rise."""
    during, before = _waiting(parts.bad), _waiting(parts.calm)
    if during is None:
        return None
    before = before or {}
    excess = {name: max(0.0, amount - before.get(name, 0.0)) for name, amount in during.items()}
    total = sum(excess.values())
    if total * PPM < settings.min_waiting_ppm:
        return None
    return SignalEvidence(EvidenceSignal.BLAME, {name: amount / total for name, amount in excess.items()})


def _waiting(pairs: Pairs) -> dict[str, float] | None:
    """Seconds waited behind each candidate per second of the service's CPU time."""
    waited: dict[str, float] = {}
    used_us = 0.0
    for sample, service in pairs:
        if sample.blame is None:
            continue
        used_us += service.cpu_m * sample.length_us / 1000
        blamed = sample.blame.get(service.uid)
        if blamed is not None:
            for uid, ran_us in blamed.by_pod:
                waited[uid] = waited.get(uid, 0.0) + ran_us
            waited[Own.OUTSIDE] = waited.get(Own.OUTSIDE, 0.0) + blamed.by_others
            waited[Own.LOAD] = waited.get(Own.LOAD, 0.0) + blamed.itself
    return {name: amount / used_us for name, amount in waited.items()} if used_us > 0 else None


def by_fit(
    parts: Split,
    signal: EvidenceSignal,
    threshold_ppm: int,
    settings: AttributionSettings,
    ways: Sequence[ActivityMeasure],
) -> SignalEvidence | None:
    """Shares of one signal's excess by a joint fit on the pods' activity by these means.

    None without calm samples, or where the signal did not rise.
    """
    telling = parts.telling(signal, settings)
    calm_at, bad_at, told_at = ({sample.at_us for sample, _ in some} for some in (parts.calm, parts.bad, telling))
    silent_at = bad_at - told_at
    known = [pair for pair in parts.pairs if signal in pair[1].levels and pair[0].at_us not in silent_at]
    if not parts.calm or len(known) < 2 * settings.min_calm:
        return None
    calm = [at for at, (sample, _) in enumerate(known) if sample.at_us in calm_at]
    bad = [at for at, (sample, _) in enumerate(known) if sample.at_us in bad_at]
    if len(calm) < settings.min_calm or not bad:
        return None
    amounts = [_measured(signal, sample, service) for sample, service in known]
    # Latency of a queue grows far more than the activity that fills it.
    target = _from_calm([log(1 + service.levels[signal] / threshold_ppm) for _, service in known], calm, amounts)
    excess = _mean_at(target, bad, amounts)
    levels = [float(service.levels[signal]) for _, service in known]
    if _mean_at(levels, bad, amounts) <= threshold_ppm or excess <= 0:
        return None
    averaged = signal in _OF_REQUESTS
    pods = [(uid, means) for means in ways for uid in suspects(parts, settings, means)]
    on_cpu = ActivityMeasure.WORK if ActivityMeasure.WORK in ways else ActivityMeasure.CPU
    names: list[tuple[str, ActivityMeasure]] = [*pods, *((name, on_cpu) for name in (Own.LOAD, Own.OUTSIDE, "stolen"))]
    on_cards = [means for means in ways if means.path is not None]
    names += [(Own.OUTSIDE, means) for means in on_cards]
    names += [(Own.LOAD, means) for means in on_cards if _fills_itself(parts, means)]
    columns = [_from_calm(column(name, known, parts.pairs, averaged, means), calm, amounts) for name, means in names]
    rises = [_mean_at(column, bad, amounts) for column in columns]
    earlier_at = {sample.at_us for sample, _ in parts.earlier}
    before = [at for at, (sample, _) in enumerate(known) if sample.at_us in earlier_at]
    most = [max(rise, _mean_at(column, before, amounts)) for rise, column in zip(rises, columns, strict=True)]
    target, *columns = (
        [value * sqrt(amount) for value, amount in zip(values, amounts, strict=True)] for values in (target, *columns)
    )
    coefficients = nonnegative_fit(columns, target, _reluctance(names, most))
    quality = explained(columns, target, coefficients)
    shares: dict[str, float] = {}
    by_disk: dict[str, float] = {}
    by_card: dict[tuple[str, CardPath], float] = {}
    for (name, means), rise, coefficient in zip(names, rises, coefficients, strict=True):
        share = max(0.0, coefficient * rise) / excess
        key = Own.OUTSIDE if name == "stolen" else name
        shares[key] = shares.get(key, 0.0) + share
        if means is ActivityMeasure.DISK:
            by_disk[name] = share
        elif means.path is not None:
            by_card[name, means.path] = share
    part = quality / max(1.0, sum(shares.values()))
    return SignalEvidence(
        signal,
        {name: share * part for name, share in shares.items()},
        {name: share * part for name, share in by_disk.items()},
        {place: share * part for place, share in by_card.items()},
    )


def _fills_itself(parts: Split, means: ActivityMeasure) -> bool:
    """Whether the service's own pod took more of its cards with the trouble, by more than any other. A neighbour makes
    its kernels last longer, too, but by less than it takes itself.
    """

    def rise(uid: str) -> float:
        amount = of_pod(uid, means)
        during, before = (mean([amount(sample) for sample, _ in part]) for part in (parts.bad, parts.calm))
        return during - before

    others = {uid for sample, _ in parts.bad for uid in _amounts(sample, means)} - {parts.uid}
    return rise(parts.uid) > max((0.0, *map(rise, others)))


def _reluctance(names: Sequence[tuple[str, ActivityMeasure]], rises: Sequence[float]) -> list[float]:
    """How unlikely each candidate is before anything is fitted: pods that rise together are told apart by how much
    they rose, since CPU time that one of them took is what the service lacked, whoever's it was. The service's own
    demand is no such amount.
    """
    most: dict[ActivityMeasure, float] = {}
    for (name, means), rise in zip(names, rises, strict=True):
        if name != Own.LOAD:
            most[means] = max(most.get(means, 0.0), rise)
    return [
        1.0 if name == Own.LOAD or rise <= 0 else min(_MAX_RELUCTANCE, (most[means] / rise) ** 2)
        for (name, means), rise in zip(names, rises, strict=True)
    ]


def rise_from(parts: Split, signal: EvidenceSignal, usual_ppm: int, settings: AttributionSettings) -> int:
    """The level that the mean of the bad samples exceeds where a signal has risen: the usual one of a single sample,
    or, where it is lower and requests tell which samples are calm, what the means of so many bad and calm samples may
    differ by. On a busy machine single samples scatter as widely as a culprit's harm; and a start under load spoils
    the usual level for long.
    """
    levels = [float(service.levels[signal]) for _, service in parts.calm if signal in service.levels]
    if signal in _OF_REQUESTS or parts.signal not in _OF_REQUESTS or len(levels) < settings.usual_samples:
        return usual_ppm
    bad = sum(signal in service.levels for _, service in parts.telling(signal, settings))
    scatter = pstdev(levels) * sqrt(1 / max(1, bad) + 1 / len(levels))
    return min(usual_ppm, max(FLOORS_PPM[signal], round(mean(levels) + settings.sigmas * scatter)))


def activity_of(parts: Split, uid: str, means: ActivityMeasure) -> list[float]:
    """A pod's activity at each sample over the window that the deciding signal describes."""
    averaged = parts.signal in _OF_REQUESTS
    return column(uid, parts.pairs, parts.pairs, averaged, means)


def highest_of(parts: Split, uid: str, means: ActivityMeasure) -> list[float]:
    """A pod's highest activity at each sample within the window that the deciding signal describes."""
    if parts.signal not in _OF_REQUESTS:
        return activity_of(parts, uid, means)
    amount = of_pod(uid, means) if means is not ActivityMeasure.WORK else work_of(uid, parts.pairs)
    found = []
    for sample, service in parts.pairs:
        begin_us, end_us = window(sample, service)
        inside = (
            other for other, _ in parts.pairs if begin_us < other.at_us and other.at_us - other.length_us < end_us
        )
        found.append(max(map(amount, inside), default=amount(sample)))
    return found


def _from_calm(values: Sequence[float], calm: Sequence[int], amounts: Sequence[float]) -> list[float]:
    base = _mean_at(values, calm, amounts)
    return [value - base for value in values]


def _mean_at(values: Sequence[float], places: Sequence[int], amounts: Sequence[float]) -> float:
    total = sum(amounts[at] for at in places)
    return sum(values[at] * amounts[at] for at in places) / total if total else 0.0


def _measured(signal: EvidenceSignal, sample: AttributionSample, service: ServiceSample) -> float:
    """How much a level was measured over: seconds, or, for waiting per CPU time, how long the service would have run.
    A look between two ticks is short, and what a service waited for each of three milliseconds that it needed is hardly
    anything but noise. One that got eight milliseconds of the second that it asked for is the clearest sample there is.
    """
    seconds = sample.length_us / 1_000_000
    if signal not in _PER_CPU_TIME:
        return seconds
    return seconds * max(1, service.cpu_m) / 1000 * (1 + service.levels[signal] / PPM)
