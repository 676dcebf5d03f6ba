"""Who suffers, who causes it, what is done about it, and whether that helped: the search for antagonists as one node policy.

Problem: a service is slower than it should be and some best-effort pod is the reason, or none is. Choice: the published loop. A sample above what
is usual for the service is an outlier; three in five minutes are an anomaly; then best-effort pods are ranked, and the first one is capped if
its score is high enough. A service that ran little or was stopped by its own quota blames nobody; where another service is to blame, nobody is
capped. Limits: acts on CPU only; finds one antagonist at a time.

Source: Zhang et al., CPI2, EuroSys'13.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cotenant.model.machine.node_decision import Reason, Term
from cotenant.model.machine.node_state import PPM, NodeState, PodUse
from cotenant.model.machine.verdict import Verdict
from cotenant.policy.interference import capping
from cotenant.policy.interference.capping import RULE, Cap, Caps
from cotenant.policy.interference.ranking import Place, by_blame, by_correlation
from cotenant.policy.interference.series import Series, Slice, VictimSample, extend, job_of, tells
from cotenant.policy.interference.settings import Settings, SuspectSignal, VictimSignal
from cotenant.policy.interference.usual import UsualBook, learn

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
    """What the search remembers; bounded by its settings and the pods on the node."""

    series: Series = field(default_factory=Series)
    book: UsualBook = field(default_factory=UsualBook)
    outliers: tuple[tuple[str, tuple[int, ...]], ...] = ()  # victim: when
    caps: Caps = field(default_factory=Caps)
    searched_us: int | None = None
    last: tuple[Reason, ...] = ()  # of the last sample


def decide(state: NodeState, settings: Settings, memory: CauseHistory) -> tuple[Verdict, CauseHistory]:
    """Everything that the search wants to stand now."""
    caps, released = capping.release(memory.caps, state, settings)
    memory = replace(memory, caps=caps)
    if state.interval_us > 0 and not state.alarms:  # with alarms, the state is one that was seen before
        series, done = extend(memory.series, state, settings)
        memory = replace(memory, series=series)
        if done is not None:
            memory = _judge(state, settings, replace(memory, caps=capping.observe(caps, done, settings)), done)
            memory = replace(memory, book=learn(memory.book, done, settings))
    guests = state.best_effort_pods()
    verdict = Verdict(
        reasons=(*released, *memory.last) or (Reason(RULE, "no sample is complete yet"),),
        knobs=capping.knobs(memory.caps, guests, settings),
        evictions=capping.evictions(memory.caps, guests, state.at_us, settings),
    )
    return verdict, memory


def suspects(entry: PodUse, settings: Settings, memory: CauseHistory) -> tuple[Place, ...]:
    """Everybody's place for one victim over the window as it stands, whether or not that is an anomaly; () while no threshold is known."""
    threshold = _threshold(entry, settings, memory)
    if threshold is None:
        return ()
    rank = by_blame if settings.direct else by_correlation
    return rank(memory.series.slices, entry.pod.uid, threshold, settings)


def _threshold(entry: PodUse, settings: Settings, memory: CauseHistory) -> int | None:
    usual = memory.book.of(job_of(entry))
    return settings.threshold_ppm or (usual.threshold_ppm(settings) if usual else None)


def _judge(state: NodeState, settings: Settings, memory: CauseHistory, done: Slice) -> CauseHistory:
    """Look at each victim's new sample, and search for those that have an anomaly."""
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
                reason = _told(entry, sample, threshold, settings, f"outlier {len(seen)} of {settings.outliers}")
            elif since_us < settings.search_gap_us:
                reason = _told(entry, sample, threshold, settings, "an anomaly, but a search was just made")
            else:
                cap, reason = _search(entry, sample, threshold, entries, settings, memory, state.at_us)
                memory = replace(memory, searched_us=done.at_us)
                if cap is not None:
                    memory = replace(memory, caps=replace(memory.caps, standing=(*memory.caps.standing, cap)))
                    seen = ()
        if seen:
            kept[sample.uid] = seen
        if reason is not None:
            reasons.append(reason)
    if not reasons:
        reasons.append(Reason(RULE, "no service has a signal to judge by"))
    return replace(memory, outliers=tuple(sorted(kept.items())), last=tuple(reasons))


def _calm(entry: PodUse, sample: VictimSample, threshold: int | None, settings: Settings) -> Reason | None:
    """Why a sample is no outlier; None if it is one."""
    key = entry.pod.key
    if sample.throttled_ppm > settings.own_throttled_ppm:
        text = f"{key} was stopped by its own quota in {sample.throttled_ppm / PPM:.0%} of its periods: nobody else is blamed"
        return Reason(RULE, text, (Term("throttled", sample.throttled_ppm, "ppm"),))
    if not tells(sample, settings):
        text = f"{key} used {sample.cpu_m} mCPU, too little to tell"
        return Reason(
            RULE, text, (Term("use", sample.cpu_m, "mCPU"), Term("least", settings.least_victim_cpu_m, "mCPU"))
        )
    if threshold is None:
        return Reason(RULE, f"what is usual for {key} is not known yet", (Term("signal", sample.level_ppm, "ppm"),))
    if sample.level_ppm <= threshold:
        return _told(entry, sample, threshold, settings, "as usual")
    return None


def _told(entry: PodUse, sample: VictimSample, threshold: int, settings: Settings, outcome: str) -> Reason:
    signal = _SIGNAL_TEXT[settings.victim_signal]
    text = f"{entry.pod.key}: {signal} {sample.level_ppm / PPM:.2f}, threshold {threshold / PPM:.2f}: {outcome}"
    return Reason(RULE, text, (Term("signal", sample.level_ppm, "ppm"), Term("threshold", threshold, "ppm")))


def _search(
    entry: PodUse,
    sample: VictimSample,
    threshold: int,
    entries: dict[str, PodUse],
    settings: Settings,
    memory: CauseHistory,
    now_us: int,
) -> tuple[Cap | None, Reason]:
    """Rank the suspects of an anomaly, and cap the first one if it is guilty enough."""
    free = [
        place
        for place in suspects(entry, settings, memory)
        if place.uid in entries and not capping.spared(memory.caps, place.uid, entry.pod.uid, now_us, settings)
    ]
    if not free:
        return None, _told(entry, sample, threshold, settings, "an anomaly, and nobody to suspect")
    top = free[0]
    suspect, score = entries[top.uid].pod, _SUSPECT_TEXT[settings.suspect_signal]
    told = _told(entry, sample, threshold, settings, "an anomaly")
    text = f"{told.text}; first among {len(free)} is {suspect.key} with a {score} of {top.score_ppm / PPM:.2f}"
    terms = (*told.terms, *_terms(top), Term("least score", settings.suspect_ppm, "ppm"))
    if top.score_ppm < settings.suspect_ppm:
        return None, Reason(RULE, f"{text}, below {settings.suspect_ppm / PPM:.2f}: nobody is capped", terms)
    if not suspect.best_effort:
        return None, Reason(RULE, f"{text}, which is itself a service: nobody is capped", terms)
    limit = capping.cap_m(suspect, settings)
    text = f"{text}: capped to {limit / 1000:g} CPU for {settings.cap_us // 1_000_000} s"
    reason = Reason(RULE, text, (*terms, Term("cap", limit, "mCPU")))
    return Cap(suspect.uid, entry.pod.uid, now_us, now_us + settings.cap_us, sample.level_ppm, reason), reason


def _terms(place: Place) -> tuple[Term, ...]:
    terms = (Term("score", place.score_ppm, "ppm"), Term("samples", place.samples))
    return terms if place.blame_us is None else (*terms, Term("ran meanwhile", place.blame_us, "us"))
