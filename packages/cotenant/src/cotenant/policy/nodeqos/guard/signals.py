"""The health of each protected pod by its best available signal: latency of its requests, else run delay, else CPU
pressure.

Few services report latency, windows are small or stale, and a machine may lack any counter. For each pod the first
available signal in the order latency, run delay, PSI; the reason names it. A window of few requests tells a latency
only where most were late; then best-effort work is cut, but not disabled for minutes. Where latency is known, waiting
alone never cuts best-effort work, it only stops its growth. A pod without an objective is a victim only where it waits
for long in absolute time, not only relative to its use. Where the probe recorded which groups ran meanwhile, only
waiting behind best-effort work counts. Pods throttled by their own quota, and nodes where best-effort work hardly runs,
are not attributed to it. The product's own pods are no victims unless somebody gave them an objective: an agent works
more where best-effort work starts and stops, and would hold it for that.
Limits: without the probe, a service that saturates its own threads shows run delay that no other pod causes;
best-effort work is then cut needlessly. In a virtual machine whose CPU time was stolen by the hypervisor a moment ago,
latency alone is not sufficient either: it cuts only if the pod also waited for a CPU.

The percentile of one window is noisy, so latency counts as close or missed only if the mean of the last 3 s agrees (as
in Chen et al., PARTIES, ASPLOS'19), and as calm only if both are.

Source: the order of signals follows Shenango (NSDI'19: queueing delay as the pod_signal of congestion) and Heracles
(latency decides); burn rates follow the SRE workbook's alerts, 14.4 and 6 times the budget, with windows scaled to a
node's control loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.node_decision import DecisionTerm
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.machine.node_state import PPM, NodeState, PodUse, ServiceHealth
from cotenant.model.machine.run_queue import NoCulprit
from cotenant.policy.nodeqos.amounts import cpu_text, percent_text
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.step import CALM, CLOSE, PRESSED, severity_of_slack, slack_ppm

_PROTECTED = frozenset({QoSClass.LSE, QoSClass.LSR, QoSClass.LS})
_SHORT_US, _MIDDLE_US, _LONG_US = 30_000_000, 60_000_000, 360_000_000
_LATENCY_US = 3_000_000


@dataclass(frozen=True, slots=True)
class Burn:
    """Averages of one pod: recent latency, and error-budget burn rate in thousandths of the rate that just meets
    the objective.
    """

    uid: str
    short: int = 0  # over 30 s
    middle: int = 0  # over 1 min
    long: int = 0  # over 6 min
    p99_us: int | None = None  # over 3 s; None = no report so far


@dataclass(frozen=True, slots=True)
class PodSignal:
    """The evaluated signal of one pod."""

    pod: str  # namespace/name
    severity: int
    signal: str  # "latency", "run delay", "pressure" or "usage only"
    text: str
    age_us: int = 0  # age of the measurement relative to the state
    terms: tuple[DecisionTerm, ...] = ()


def protected(state: NodeState) -> tuple[PodUse, ...]:
    """The pods that the guard protects: latency-sensitive classes and pods with an objective, without those that
    are over.
    """
    return tuple(
        entry
        for entry in state.services
        if (entry.pod.qos in _PROTECTED or entry.pod.objective_p99_us is not None or _measured(entry))
        and entry.pod.phase is not NodePodPhase.OVER
        and may_be_victim(entry)
    )


def may_be_victim(entry: PodUse) -> bool:
    """Whether what a pod suffers is asked for: not of the product's own pods without an objective, and not of one that
    is a service by its label only, in the class that would be cut for it.
    """
    return not entry.is_unconfirmed and (not entry.pod.is_product or has_objective(entry))


def has_objective(entry: PodUse) -> bool:
    """Whether someone said how fast it has to be: an objective of its own, or one over spans, silent ones included."""
    return entry.pod.objective_p99_us is not None or _measured(entry) or any(signal.guard for signal in entry.signals)


def _measured(entry: PodUse) -> bool:
    """Whether its health is that of an objective over spans."""
    return entry.health is not None and bool(entry.health.objective)


def best_effort_blame(state: NodeState, pods: Sequence[PodUse]) -> Mapping[str, int]:
    """Share of these pods' waiting time during which best-effort work ran on the CPU, in millionths, by the pods'
    groups.

    Pods without recorded waits are left out.
    """
    best_effort = {pod.pod.group for pod in state.best_effort_pods} | {state.best_effort_group} - {None, ""}
    groups = {entry.pod.group for entry in pods} - {""}
    waited: dict[str, int] = {}
    blamed: dict[str, int] = {}
    for blame in state.blame or ():
        concerned = groups.intersection(_and_above(blame.victim))
        if not concerned:
            continue
        is_best_effort = not isinstance(blame.culprit, NoCulprit) and not best_effort.isdisjoint(
            _and_above(blame.culprit)
        )
        for group in concerned:
            waited[group] = waited.get(group, 0) + blame.ran_us
            blamed[group] = blamed.get(group, 0) + is_best_effort * blame.ran_us
    return {group: blamed[group] * PPM // us for group, us in waited.items() if us}


def _and_above(group: str) -> Iterator[str]:
    """A group and its ancestors."""
    while group:
        yield group
        group = group.rpartition("/")[0]


def pod_signal(
    entry: PodUse, burn: Burn, config: GuardConfig, blame_ppm: int | None = None, stolen: bool = False
) -> PodSignal:
    """The best signal of a pod, evaluated.

    `blame_ppm`: share of its waiting, in millionths, attributed to best-effort work; None = unknown. `stolen`: the
    hypervisor stole CPU time recently.
    """
    judged = _latency(entry, burn, config, blame_ppm)
    if judged is not None and stolen and judged.severity > CLOSE:
        waiting = _run_delay(entry, config, blame_ppm)
        if waiting is not None and waiting.severity < PRESSED:
            text = (
                f"{judged.text}; the hypervisor took CPU time, and {waiting.text}: not attributed to best-effort work"
            )
            judged = replace(judged, severity=CLOSE, text=text)
    if judged is None:
        judged = _run_delay(entry, config, blame_ppm) or _pressure(entry, config)
        if judged is None:
            judged = PodSignal(entry.pod.key, CALM, "usage only", f"{entry.pod.key} has no signal but its use")
        if entry.pod.objective_p99_us is not None or entry.signals:
            judged = replace(judged, text=f"{judged.text} ({_latency_gap(entry, config)})")
    if judged.severity > CLOSE and (entry.use.throttled_ppm or 0) >= config.throttled_ppm:
        text = f"{judged.text}; its own limit throttles it: not attributed to best-effort work"
        judged = replace(judged, severity=CLOSE, text=text)
    return judged


def burn_rate(health: ServiceHealth, budget_ppm: int) -> int:
    """Rate at which requests miss the objective, in thousandths of the allowed rate."""
    return health.over_objective * 1000 * PPM // (health.requests * budget_ppm)


def updated_burn(burn: Burn, health: ServiceHealth | None, interval_us: int, config: GuardConfig) -> Burn:
    """The averages after another interval; unchanged without a fresh report."""
    if health is None or not fresh(health, config):
        return burn
    now = burn_rate(health, health.budget_ppm or config.budget_ppm)
    percentile_us = health.p99_us if health.at_target_us is None else health.at_target_us
    return Burn(
        burn.uid,
        _towards(burn.short, now, interval_us, _SHORT_US),
        _towards(burn.middle, now, interval_us, _MIDDLE_US),
        _towards(burn.long, now, interval_us, _LONG_US),
        percentile_us if burn.p99_us is None else _towards(burn.p99_us, percentile_us, interval_us, _LATENCY_US),
    )


def fresh(health: ServiceHealth, config: GuardConfig) -> bool:
    """Whether a report is recent enough and tells how late the service is."""
    return health.age_us <= config.health_age_us and health.tells(config.min_requests)


def _towards(average: int, now: int, interval_us: int, horizon_us: int) -> int:
    return average + (now - average) * min(interval_us, horizon_us) // horizon_us


def _latency_gap(entry: PodUse, config: GuardConfig) -> str:
    health, silent = entry.health, entry.signals[0] if entry.signals and not _measured(entry) else None
    if silent is not None and silent.guard:
        return f"no span for {silent.objective} since {silent.age_us // 1_000_000} s"
    if health is None:
        return "no latency is reported"
    if health.age_us > config.health_age_us:
        return f"its latency is {health.age_us // 1_000_000} s old"
    return f"only {health.requests} requests in its latency window"


def _latency(entry: PodUse, burn: Burn, config: GuardConfig, blame_ppm: int | None) -> PodSignal | None:
    objective, health = entry.pod.objective_p99_us, entry.health
    if health is None or (objective is None and not _measured(entry)) or not fresh(health, config):
        return None
    rate = burn_rate(health, health.budget_ppm or config.budget_ppm)
    age_us = health.age_us + health.window_us // 2
    if objective is None:  # of errors, which best-effort work causes only as timeouts: no cut, no growth
        severity = CLOSE if min(rate, burn.short) >= config.burn_calm_milli else CALM
        text = (
            f"{entry.pod.key}: {health.over_objective} of {health.requests} requests failed, budget of "
            f"{health.objective} burns {rate / 1000:.1f} x"
        )
        return PodSignal(entry.pod.key, severity, "errors", text, age_us, (DecisionTerm("burn rate", rate, "1/1000"),))
    measured_us = health.p99_us if health.at_target_us is None else health.at_target_us
    slack = slack_ppm(objective, measured_us)
    severity = severity_of_slack(slack, config.grow_from_ppm, config.cut_below_ppm)
    if burn.p99_us is not None:
        # The 99th percentile of one short window is mostly noise: a cut requires that the mean of the last few agrees.
        mean = severity_of_slack(slack_ppm(objective, burn.p99_us), config.grow_from_ppm, config.cut_below_ppm)
        severity = max(min(severity, mean), min(CLOSE, max(severity, mean)))
    name = f"p{100 - (health.budget_ppm or config.budget_ppm) / 10_000:g}" if _measured(entry) else "p99"
    source = f", by {health.objective}" if _measured(entry) else ""
    text = f"{entry.pod.key}: {name} {measured_us} us against {objective} us, slack {percent_text(slack)}{source}"
    if health.requests < config.min_requests:
        text += f", {health.over_objective} of only {health.requests} requests were late"
    if min(rate, burn.middle) >= config.burn_cut_milli:
        severity = max(severity, PRESSED)
        text += f", budget burns {rate / 1000:.1f} x"
    elif min(burn.short, burn.long) >= config.burn_hold_milli or burn.middle >= config.burn_calm_milli:
        severity = max(severity, CLOSE)
        text += f", budget burned {burn.middle / 1000:.1f} x over the last minute"
    waiting = _run_delay(entry, config, blame_ppm)
    if severity == CALM and waiting is not None and waiting.severity >= PRESSED:
        severity, text = CLOSE, f"{text}, but {waiting.text}"
    if health.requests < config.min_requests:
        severity = min(severity, PRESSED)
    terms = (
        DecisionTerm("objective", objective, "us"),
        DecisionTerm(name, -measured_us, "us"),
        DecisionTerm("slack", slack, "ppm"),
    )
    return PodSignal(entry.pod.key, severity, "latency", text, age_us, terms)


def _run_delay(entry: PodUse, config: GuardConfig, blame_ppm: int | None) -> PodSignal | None:
    delay, used = entry.use.run_delay_ppm, entry.use.cpu_m
    if delay is None or used is None:
        return None
    # An almost idle pod hardly waits; relative to its tiny use the ratio would be meaningless.
    ratio = delay * 1000 // max(used, config.min_use_m)
    text = f"{entry.pod.key} waited {percent_text(ratio)} of its CPU time for a CPU"
    if blame_ppm is not None:
        ratio = ratio * blame_ppm // PPM
        text += f", {percent_text(blame_ppm)} of that behind best-effort work"
    severity = _level(ratio, config.delay_hold_ppm, config.delay_cut_ppm)
    terms = [DecisionTerm("run delay per CPU time", ratio, "ppm")]
    if not has_objective(entry):
        # Relative to next to no use, any wait is long; nobody said that it matters.
        waited = delay if blame_ppm is None else delay * blame_ppm // PPM
        severity = min(severity, _level(waited, config.wait_hold_ppm, config.wait_cut_ppm))
        text += f", {cpu_text(waited)} ms a second"
        terms.append(DecisionTerm("run delay per second", waited, "us"))
    return PodSignal(entry.pod.key, severity, "run delay", text, 0, tuple(terms))


def _pressure(entry: PodUse, config: GuardConfig) -> PodSignal | None:
    stall = entry.use.cpu_stall_ppm
    if stall is None:
        return None
    severity = _level(stall, config.stall_hold_ppm, config.stall_cut_ppm)
    text = f"{entry.pod.key} stalled on CPU {percent_text(stall)} of the time"
    return PodSignal(entry.pod.key, severity, "pressure", text, 0, (DecisionTerm("CPU stall", stall, "ppm"),))


def _level(value: int, hold: int, cut: int) -> int:
    if value >= cut:
        return PRESSED
    return CLOSE if value >= hold else CALM
