"""Whether a move helped, and how long moves of a kind that did not are left alone.

A move costs a restart, and a hot spot that comes back shows that the move was in vain. From the end of a job the source
node's and the target's use is sampled for a time; the mean of the resource for which the pod moved is compared with
what was planned. It helped where the source fell by at least half of what was expected and the target stays below what
the source had before. Figures and verdict are a condition of the job. A move for another purpose (`Purpose`) helped
where that is served: the pod that waited is placed, as soon as it is; the rule holds for the replacement, the service's
p99 is within its objective, or what the move was to lower is lower, at the end of that time. Moves of one kind
(trigger, pool, scope, resource) rest after a move that did not help, twice as long after each further one, until one
helps. All of that is read from the jobs, so a restart forgets nothing but samples.
Limits: several moves from a node within the time are credited with the common change; without a measurement the verdict
is Unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isnan, nan

from cotenant.model.groups.migration import REMARKS, JobPhase, JobStep, MigrationJob

WATCH_S = 180.0
MIN_SHARE = 0.5  # of the expected change
FIRST_REST_S = 600.0
LONGEST_REST_S = 4 * 3600.0
OBJECTIVE_BROKEN = "ObjectiveBroken"
HELPED, NOT_HELPED, NOT_MEASURED = "SourceRelieved", "SourceNotRelieved", "NotMeasured"

PURPOSE_SERVED, PURPOSE_NOT_SERVED = "PurposeServed", "PurposeNotServed"
Measure = Callable[[str, str], float | None]  # node, resource -> use in percent now; None = not measured


@dataclass(frozen=True, slots=True)
class ServedProof:
    """Whether what a move was made for is so now. `served` None = not known; `is_settled`: time will not change it;
    `sample` is averaged over the time of watching, served where it is at most 1.
    """

    served: bool | None
    figures: str
    is_settled: bool = False
    sample: float | None = None


# A job, and whether its time of watching is over; None = the move has no purpose that is checked, or not before that
# time is over.
Purpose = Callable[[MigrationJob, bool], ServedProof | None]


# Which objective that the move touches burns since; "" = none. Such a move did not help, whatever else it did.
Broken = Callable[[MigrationJob, float], str]


def none_broke(job: MigrationJob, now_s: float) -> str:
    """Objectives are not known."""
    return ""


def no_purpose(job: MigrationJob, is_due: bool) -> ServedProof | None:
    """Only a node's use is judged."""
    return None


@dataclass(slots=True)
class _Samples:
    """Sums of the percentages that were measured."""

    number: int = 0
    node: float = 0.0
    target: float = 0.0
    last_s: float = nan


class Proofs:
    """Watches the nodes of moves that ended."""

    def __init__(
        self,
        measure: Measure,
        watch_s: float = WATCH_S,
        every_s: float = 5.0,
        purpose: Purpose = no_purpose,
        broken: Broken = none_broke,
    ) -> None:
        self._measure, self._watch_s, self._every_s, self._purpose = measure, watch_s, every_s, purpose
        self._broken = broken
        self._samples: dict[str, _Samples] = {}  # by UID of the job

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._samples.pop(uid, None)

    def judge(self, job: MigrationJob, now_s: float) -> MigrationJob | None:
        """The job with its verdict when the time has come; None before, and for jobs without a plan of ours."""
        judged = self._judge(job, now_s)
        verdict = judged.condition(JobStep.HELPED) if judged is not None else None
        broke = self._broken(job, now_s) if judged is not None else ""
        if judged is None or verdict is None or not broke:
            return judged
        figures = f"{broke} burns its budget since the move; {verdict.message}"
        return job.with_condition(JobStep.HELPED, "False", now_s, OBJECTIVE_BROKEN, figures)

    def _judge(self, job: MigrationJob, now_s: float) -> MigrationJob | None:
        note, end_s = job.note, ended_s(job)
        if job.phase is not JobPhase.SUCCEEDED or note is None or job.condition(JobStep.HELPED):
            return None
        if not note.resource:
            return self._judge_purpose(job, now_s, now_s - end_s >= self._watch_s or isnan(end_s))
        samples = self._samples.setdefault(job.uid, _Samples())
        node, target = self._measure(note.node, note.resource), self._measure(note.target, note.resource)
        is_due = now_s - end_s >= self._watch_s or isnan(end_s)
        late = isnan(samples.last_s) or now_s - samples.last_s >= self._every_s
        # The first third is left out: metrics of nodes are averages that lag behind.
        if node is not None and target is not None and late and now_s - end_s >= self._watch_s / 3:
            samples.number += 1
            samples.node += node
            samples.target += target
            samples.last_s = now_s
        if not is_due:
            return None
        if samples.number == 0:
            if now_s - end_s < 3 * self._watch_s:
                return None
            self.forget(job.uid)
            return job.with_condition(
                JobStep.HELPED, "Unknown", now_s, NOT_MEASURED, "its nodes were not measured since"
            )
        self.forget(job.uid)
        return _judged(job, samples.node / samples.number, samples.target / samples.number, now_s)

    def _judge_purpose(self, job: MigrationJob, now_s: float, is_due: bool) -> MigrationJob | None:
        now = self._purpose(job, is_due)
        if now is None:
            return None
        samples = self._samples.setdefault(job.uid, _Samples())
        if now.sample is not None and (isnan(samples.last_s) or now_s - samples.last_s >= self._every_s):
            samples.number, samples.node, samples.last_s = samples.number + 1, samples.node + now.sample, now_s
        if not (is_due or now.is_settled):
            return None
        self.forget(job.uid)
        served, figures = now.served, now.figures
        if samples.number:
            mean = samples.node / samples.number
            served, figures = mean <= 1.0, f"{figures} {mean:.2f}, the mean of the time after the move"
        if served is None:
            return job.with_condition(JobStep.HELPED, "Unknown", now_s, NOT_MEASURED, figures)
        reason = PURPOSE_SERVED if served else PURPOSE_NOT_SERVED
        return job.with_condition(JobStep.HELPED, str(served), now_s, reason, figures)


def ended_s(job: MigrationJob) -> float:
    """Unix time when the job succeeded; NaN where no condition says so."""
    times = [
        condition.since_s
        for condition in job.conditions
        if condition.type not in REMARKS and not isnan(condition.since_s)
    ]
    return max(times, default=nan)


def rests(jobs: Iterable[MigrationJob], now_s: float) -> dict[str, float]:
    """The kinds of moves that are left alone now, with the time (Unix) until when."""
    judged: dict[str, list[tuple[float, str]]] = {}
    for job in jobs:
        verdict = job.condition(JobStep.HELPED)
        if job.note is not None and verdict is not None and verdict.status != "Unknown":
            judged.setdefault(job.note.kind, []).append((verdict.since_s, verdict.status))
    found = {}
    for kind, verdicts in judged.items():
        in_vain = 0
        for _, status in sorted(verdicts, reverse=True):
            if status == "True":
                break
            in_vain += 1
        if in_vain:
            until_s = max(at_s for at_s, _ in verdicts) + min(LONGEST_REST_S, FIRST_REST_S * 2 ** (in_vain - 1))
            if until_s > now_s:
                found[kind] = until_s
    return found


def _judged(job: MigrationJob, node: float, target: float, now_s: float) -> MigrationJob:
    note = job.note
    assert note is not None
    name = note.resource
    before, after = note.node_before.get(name, 0.0), note.node_after.get(name, 0.0)
    expected, fell = before - after, before - node
    helped = fell >= MIN_SHARE * expected and target < before
    figures = (
        f"{name} of {note.node}: {before:.1f} % before, {node:.1f} % after (expected {after:.1f} %); "
        f"of {note.target}: {note.target_before.get(name, 0.0):.1f} % before, {target:.1f} % after"
    )
    return job.with_condition(
        JobStep.HELPED, "True" if helped else "False", now_s, HELPED if helped else NOT_HELPED, figures
    )
