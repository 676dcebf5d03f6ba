"""Usual values of a service: mean and deviation of its signal, with recent days weighing more.

"slow" means slower than this service is elsewhere or on other days. As published, sums over all samples; once a day the
earlier sums are weighted down and the day's are added. Memory is six numbers per service.
Limits: the first values are available as soon as there are enough samples, not after a day; interference that was
always present looks usual.

Source: Zhang et al., CPI2, EuroSys'13, section 3.1: at least 5 tasks with 100 samples each, each day weighs 0.9 of the
next.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from cotenant.model.machine.node_state import PPM
from cotenant.policy.interference.series import SampleSlice, is_informative
from cotenant.policy.interference.settings import InterferenceSettings

MAX_JOBS = 256
MAX_TASKS = 32  # tasks of one service that are counted separately


@dataclass(frozen=True, slots=True)
class Usual:
    """A service's usual signal, millionths."""

    mean_ppm: int
    deviation_ppm: int

    def threshold_ppm(self, settings: InterferenceSettings) -> int:
        """The level above which a sample is an outlier."""
        return max(settings.floor_ppm, self.mean_ppm + settings.sigmas * self.deviation_ppm)


@dataclass(frozen=True, slots=True)
class _Sums:
    samples: int = 0
    total: int = 0
    squares: int = 0

    def add(self, value: int) -> _Sums:
        return _Sums(self.samples + 1, self.total + value, self.squares + value * value)

    def aged(self, age_ppm: int, newer: _Sums) -> _Sums:
        return _Sums(
            self.samples * age_ppm // PPM + newer.samples,
            self.total * age_ppm // PPM + newer.total,
            self.squares * age_ppm // PPM + newer.squares,
        )

    def usual(self) -> Usual:
        mean = self.total // self.samples
        return Usual(mean, isqrt(max(0, self.squares // self.samples - mean * mean)))


@dataclass(frozen=True, slots=True)
class _Job:
    name: str
    seen_us: int
    before: _Sums = _Sums()
    today: _Sums = _Sums()
    tasks: tuple[tuple[str, int], ...] = ()  # today's, with their samples
    usual: Usual | None = None


@dataclass(frozen=True, slots=True)
class UsualValues:
    """Usual values of all services of a node."""

    jobs: tuple[_Job, ...] = ()
    refreshed_us: int | None = None

    def of(self, job: str) -> Usual | None:
        """The usual values of a service; None while there are too few samples."""
        return next((entry.usual for entry in self.jobs if entry.name == job), None)


def learn(values: UsualValues, done: SampleSlice, settings: InterferenceSettings) -> UsualValues:
    """Add a sample; those in which a service hardly ran or was throttled by its own quota are ignored."""
    jobs = {job.name: job for job in values.jobs}
    for sample in done.victims:
        if not is_informative(sample, settings):
            continue
        job = jobs.get(sample.job) or _Job(sample.job, done.at_us)
        tasks = dict(job.tasks)
        if sample.uid in tasks or len(tasks) < MAX_TASKS:
            tasks[sample.uid] = tasks.get(sample.uid, 0) + 1
        job = _Job(job.name, done.at_us, job.before, job.today.add(sample.level_ppm), tuple(tasks.items()), job.usual)
        jobs[sample.job] = job if job.usual else _judged(job, settings)
    started = done.at_us if values.refreshed_us is None else values.refreshed_us
    if done.at_us - started >= settings.refresh_us:
        jobs = {name: _new_day(job, settings) for name, job in jobs.items()}
        started = done.at_us
    newest = sorted(jobs.values(), key=lambda job: -job.seen_us)[:MAX_JOBS]
    return UsualValues(tuple(sorted(newest, key=lambda job: job.name)), started)


def _judged(job: _Job, settings: InterferenceSettings) -> _Job:
    """With usual values, if there are enough samples."""
    enough = sum(samples >= settings.usual_samples for _, samples in job.tasks) >= settings.usual_tasks
    if not enough:
        return job
    sums = job.before.aged(settings.age_ppm, job.today)
    return _Job(job.name, job.seen_us, job.before, job.today, job.tasks, sums.usual())


def _new_day(job: _Job, settings: InterferenceSettings) -> _Job:
    judged = _judged(job, settings)
    return _Job(job.name, job.seen_us, job.before.aged(settings.age_ppm, job.today), _Sums(), (), judged.usual)
