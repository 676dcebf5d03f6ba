"""The search for antagonists as one node policy: detect a victim, rank suspects, cap the first, and check whether the
cap helped.

A service is slower than it should be, and a best-effort pod may or may not be the reason. The published loop. A sample
above the service's usual values is an outlier; three in five minutes are an anomaly; then best-effort pods are ranked,
and the first one is capped if its score is high enough. A service that ran little or was throttled by its own quota
blames no pod; where another service is to blame, no pod is capped.
Limits: acts on CPU only; finds one antagonist at a time.

Source: Zhang et al., CPI2, EuroSys'13.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_state import PPM, NodeState, PodUse
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.interference import capping
from cotenant.policy.interference.capping import RULE, Cap, Caps
from cotenant.policy.interference.ranking import Suspect, by_blame, by_correlation
from cotenant.policy.interference.series import SampleSlice, SampleWindow, VictimSample, extend, is_informative, job_of
from cotenant.policy.interference.settings import InterferenceSettings, SuspectSignal, VictimSignal
from cotenant.policy.interference.usual import UsualValues, learn

_SIGNAL_TEXT = {
    VictimSignal.CPI: "cycles per instruction",
    VictimSignal.RUN_DELAY: "waiting per CPU time",
    VictimSignal.STALL: "stalled share of time",
    VictimSignal.LATENCY: "p99 over objective",
}
_SUSPECT_TEXT = {
    SuspectSignal.CPU: "correlation of CPU use",
    SuspectSignal.IO: "correlation of I/O",
    SuspectSignal.BLAME: "share of the waiting",
}


@dataclass(frozen=True, slots=True)
class CauseHistory:
    """State of the search; bounded by its settings and the pods on the node."""

    series: SampleWindow = field(default_factory=SampleWindow)
    usual: UsualValues = field(default_factory=UsualValues)
    outliers: tuple[tuple[str, tuple[int, ...]], ...] = ()  # victim: when
    caps: Caps = field(default_factory=Caps)
    searched_us: int | None = None
    last: tuple[Reason, ...] = ()  # of the last sample


def decide(
    state: NodeState, settings: InterferenceSettings, memory: CauseHistory
) -> tuple[PolicyVerdict, CauseHistory]:
    """The knobs and evictions that the search desires now."""
    caps, released = capping.release(memory.caps, state, settings)
    memory = replace(memory, caps=caps)
    if state.interval_us > 0 and not state.alarms:  # with alarms, the state was already evaluated
        series, done = extend(memory.series, state, settings)
        memory = replace(memory, series=series)
        if done is not None:
            memory = _judge(state, settings, replace(memory, caps=capping.observe(caps, done, settings)), done)
            memory = replace(memory, usual=learn(memory.usual, done, settings))
    best_effort = state.best_effort_pods
    verdict = PolicyVerdict(
        reasons=(*released, *memory.last) or (Reason(RULE, "no sample is complete yet"),),
        knobs=capping.knobs(memory.caps, best_effort, settings),
        evictions=capping.evictions(memory.caps, best_effort, state.at_us, settings),
    )
    return verdict, memory


def suspects(entry: PodUse, settings: InterferenceSettings, memory: CauseHistory) -> tuple[Suspect, ...]:
    """Ranking of all suspects for one victim over the current window, whether or not there is an anomaly; () while
    no threshold is known.
    """
    threshold = _threshold(entry, settings, memory)
    if threshold is None:
        return ()
    rank = by_blame if settings.direct else by_correlation
    return rank(memory.series.slices, entry.pod.uid, threshold, settings)


def _threshold(entry: PodUse, settings: InterferenceSettings, memory: CauseHistory) -> int | None:
    values = memory.usual.of(job_of(entry))
    return settings.threshold_ppm or (values.threshold_ppm(settings) if values else None)


def _judge(state: NodeState, settings: InterferenceSettings, memory: CauseHistory, done: SampleSlice) -> CauseHistory:
    """Evaluate each victim's new sample, and search where there is an anomaly."""
    entries = {entry.pod.uid: entry for entry in state.pods}
    earlier = dict(memory.outliers)
    reasons: list[Reason] = []
    kept: dict[str, tuple[int, ...]] = {}
    for sample in done.victims:
        entry = entries.get(sample.uid)
        if entry is None:
            continue
        threshold = _threshold(entry, settings, memory)
        reason = _calm(entry, sample, threshold, settings)
        seen = tuple(at for at in earlier.get(sample.uid, ()) if done.at_us - at < settings.outlier_window_us)
        if reason is None and threshold is not None:
            seen = (*seen, done.at_us)
            since_us = settings.search_gap_us if memory.searched_us is None else done.at_us - memory.searched_us
            if len(seen) < settings.outliers:
                reason = _reason(entry, sample, threshold, settings, f"outlier {len(seen)} of {settings.outliers}")
            elif since_us < settings.search_gap_us:
                reason = _reason(entry, sample, threshold, settings, "an anomaly, but the last search was too recent")
            else:
                cap, reason = _search(entry, sample, threshold, entries, settings, memory, state.at_us)
                memory = replace(memory, searched_us=done.at_us)
                if cap is not None:
                    memory = replace(memory, caps=replace(memory.caps, active=(*memory.caps.active, cap)))
                    seen = ()
        if seen:
            kept[sample.uid] = seen
        if reason is not None:
            reasons.append(reason)
    if not reasons:
        reasons.append(Reason(RULE, "no service has a signal"))
    return replace(memory, outliers=tuple(sorted(kept.items())), last=tuple(reasons))


def _calm(entry: PodUse, sample: VictimSample, threshold: int | None, settings: InterferenceSettings) -> Reason | None:
    """Why a sample is no outlier; None if it is one."""
    key = entry.pod.key
    if sample.throttled_ppm > settings.own_throttled_ppm:
        text = (
            f"{key} was throttled by its own quota in {sample.throttled_ppm / PPM:.0%} of its periods: no other "
            "pod is blamed"
        )
        return Reason(RULE, text, (DecisionTerm("throttled", sample.throttled_ppm, "ppm"),))
    if not is_informative(sample, settings):
        text = f"{key} used {sample.cpu_m} mCPU, too little for a sample"
        return Reason(
            RULE,
            text,
            (DecisionTerm("use", sample.cpu_m, "mCPU"), DecisionTerm("least", settings.min_victim_cpu_m, "mCPU")),
        )
    if threshold is None:
        return Reason(
            RULE, f"usual values of {key} are not known yet", (DecisionTerm("signal", sample.level_ppm, "ppm"),)
        )
    if sample.level_ppm <= threshold:
        return _reason(entry, sample, threshold, settings, "as usual")
    return None


def _reason(
    entry: PodUse, sample: VictimSample, threshold: int, settings: InterferenceSettings, outcome: str
) -> Reason:
    signal = _SIGNAL_TEXT[settings.victim_signal]
    text = f"{entry.pod.key}: {signal} {sample.level_ppm / PPM:.2f}, threshold {threshold / PPM:.2f}: {outcome}"
    return Reason(
        RULE, text, (DecisionTerm("signal", sample.level_ppm, "ppm"), DecisionTerm("threshold", threshold, "ppm"))
    )


def _search(
    entry: PodUse,
    sample: VictimSample,
    threshold: int,
    entries: dict[str, PodUse],
    settings: InterferenceSettings,
    memory: CauseHistory,
    now_us: int,
) -> tuple[Cap | None, Reason]:
    """Rank the suspects of an anomaly, and cap the first one if its score is high enough."""
    free = [
        place
        for place in suspects(entry, settings, memory)
        if place.uid in entries and not capping.exempt(memory.caps, place.uid, entry.pod.uid, now_us, settings)
    ]
    if not free:
        return None, _reason(entry, sample, threshold, settings, "an anomaly, but there are no suspects")
    top = free[0]
    suspect, score = entries[top.uid].pod, _SUSPECT_TEXT[settings.suspect_signal]
    found = _reason(entry, sample, threshold, settings, "an anomaly")
    text = f"{found.text}; first among {len(free)} is {suspect.key} with a {score} of {top.score_ppm / PPM:.2f}"
    terms = (*found.terms, *_terms(top), DecisionTerm("least score", settings.suspect_ppm, "ppm"))
    if top.score_ppm < settings.suspect_ppm:
        return None, Reason(RULE, f"{text}, below {settings.suspect_ppm / PPM:.2f}: no pod is capped", terms)
    if not suspect.best_effort:
        return None, Reason(RULE, f"{text}, which is itself a service: no pod is capped", terms)
    limit = capping.cap_m(suspect, settings)
    text = f"{text}: capped to {limit / 1000:g} CPU for {settings.cap_us // 1_000_000} s"
    reason = Reason(RULE, text, (*terms, DecisionTerm("cap", limit, "mCPU")))
    return Cap(suspect.uid, entry.pod.uid, now_us, now_us + settings.cap_us, sample.level_ppm, reason), reason


def _terms(place: Suspect) -> tuple[DecisionTerm, ...]:
    terms = (DecisionTerm("score", place.score_ppm, "ppm"), DecisionTerm("samples", place.samples))
    return terms if place.blame_us is None else (*terms, DecisionTerm("ran meanwhile", place.blame_us, "us"))
