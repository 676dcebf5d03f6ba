"""Moves of pods, planned and done, from the PodMigrationJobs of the cluster.

    /api/moves?state=&q=&limit=   moves that match: unfinished ones first, then the newest; counts of all of them
    /api/moves/NAME               one move with its steps

A move has a reason, a prediction and, minutes later, a verdict, and these are spread over annotations, conditions and
status of an object. The jobs are watched like everything else on the page; nothing is asked of the rebalancer, so jobs
of users and of other controllers are shown as well.
Limits: jobs are deleted some hours after they ended, unless they are kept as receipts; a dry run of the rebalancer
creates none, so its plans are not here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.engine.migration.proof import ended_s
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.migration import JobPhase, JobStep, MigrationJob
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.query import limit_of

MAX_MOVES = 500
STATES = ("", "open", "succeeded", "failed", "helped", "not-helped")


@dataclass(frozen=True, slots=True)
class MoveEffect:
    """Predicted use of one resource in percent of the nodes' allocatable amount; None = not predicted."""

    resource: str
    node_before: float | None
    node_after: float | None
    target_before: float | None
    target_after: float | None


@dataclass(frozen=True, slots=True)
class MoveStep:
    """A condition of the job. `at`: Unix time of its last change."""

    type: str
    status: str
    reason: str
    message: str
    at: float | None


@dataclass(frozen=True, slots=True)
class MoveView:
    """One job. `to` is the planned node until room is reserved; `helped`: True, False, Unknown, or empty = no
    verdict yet.
    """

    name: str
    pod: str
    replacement: str
    node: str
    to: str
    phase: str
    paused: bool
    trigger: str
    why: str
    outcome: str  # of a job that failed
    created: float
    ended: float | None  # last step of a job that has ended
    created_by: str
    mode: str
    resource: str  # the one whose use was too high
    effects: tuple[MoveEffect, ...]
    helped: str
    figures: str
    alternatives: tuple[str, ...]
    wrong: tuple[str, ...]
    steps: tuple[MoveStep, ...]


@dataclass(frozen=True, slots=True)
class MoveCounts:
    """Of all jobs; `open` = not ended."""

    all: int = 0
    open: int = 0
    succeeded: int = 0
    failed: int = 0  # aborted ones too
    helped: int = 0
    not_helped: int = 0


@dataclass(frozen=True, slots=True)
class MoveList:
    """`count` match, `moves` are the first of them."""

    count: int
    counts: MoveCounts
    moves: tuple[MoveView, ...] = field(default=())


class MoveBoard:
    """The jobs of the cluster, and the answers about them."""

    def __init__(self, fleet: MeasuredFleet) -> None:
        self._fleet = fleet
        self._jobs: dict[str, MigrationJob] = {}

    def seen(self, job: MigrationJob) -> None:
        """A job was added or changed."""
        self._jobs[job.name] = job

    def gone(self, name: str) -> None:
        """A job was deleted."""
        self._jobs.pop(name, None)

    @property
    def jobs(self) -> tuple[MigrationJob, ...]:
        """All of them."""
        return tuple(self._jobs.values())

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer to a page below `/api/moves`. Raises `NotFound`, `InvalidInput`."""
        match names:
            case []:
                return self.listed(query)
            case [name]:
                job = self._jobs.get(name)
                if job is None:
                    raise NotFound(f"there is no PodMigrationJob {name}")
                return self._move(job)
        raise NotFound("there is no such page")

    def listed(self, query: Mapping[str, str]) -> MoveList:
        """The list. Raises `InvalidInput`."""
        text, state = query.get("q", "").strip().lower(), query.get("state", "")
        if state not in STATES:
            raise InvalidInput("state", state, "one of " + ", ".join(filter(None, STATES)))
        limit = limit_of(query, MAX_MOVES)
        found = [job for job in self._jobs.values() if state in ("", *_states(job)) and _matches(job, text)]
        found.sort(key=lambda job: (job.phase.is_final, -_last_s(job), job.name))
        return MoveList(len(found), self._counts(), tuple(self._move(job) for job in found[:limit]))

    def of_pods(self, pods: Collection[str]) -> list[MoveView]:
        """The moves of these pods (namespace/name), as the one that is moved or as its replacement."""
        return [
            self._move(job)
            for job in self._jobs.values()
            if job.pod.key in pods or (job.new_pod is not None and job.new_pod.key in pods)
        ]

    def _counts(self) -> MoveCounts:
        of = dict.fromkeys(STATES, 0)
        for job in self._jobs.values():
            for state in _states(job):
                of[state] += 1
        return MoveCounts(
            len(self._jobs), of["open"], of["succeeded"], of["failed"], of["helped"], of["not-helped"]
        )  # fmt: skip

    def _move(self, job: MigrationJob) -> MoveView:
        note, helped, placed = job.note, job.condition(JobStep.HELPED), job.condition(JobStep.RESERVATION_SCHEDULED)
        pod = self._fleet.pods.get(job.pod.key)
        node = job.node or (note.node if note is not None else "")
        if not node and pod is not None and not job.phase.is_final:
            node = pod.node
        to = note.target if note is not None else ""
        if placed is not None and placed.status == "True":
            to = placed.message.removeprefix("on ") or to
        return MoveView(
            name=job.name,
            pod=job.pod.key,
            replacement=job.new_pod.key if job.new_pod is not None else "",
            node=node,
            to=to,
            phase=job.phase.value,
            paused=job.paused,
            trigger=job.trigger,
            why="; ".join(filter(None, (job.reason, job.allowed_by and f"allowed by {job.allowed_by}"))),
            outcome=": ".join(filter(None, (job.status_reason, job.message)))
            if job.phase in (JobPhase.FAILED, JobPhase.ABORTED)
            else "",
            created=job.created_s,
            ended=_last_s(job) if job.phase.is_final else None,
            created_by=job.created_by,
            mode=job.mode.value,
            resource=note.resource if note is not None else "",
            effects=_effects(job),
            helped=helped.status if helped is not None else "",
            figures=helped.message if helped is not None else "",
            alternatives=job.alternatives,
            wrong=job.wrong,
            steps=tuple(
                MoveStep(condition.type, condition.status, condition.reason, condition.message,
                    None if isnan(condition.since_s) else condition.since_s)
                for condition in job.conditions
            ),
        )  # fmt: skip


def _states(job: MigrationJob) -> tuple[str, ...]:
    """The filters that a job passes."""
    if not job.phase.is_final:
        return ("open",)
    if job.phase is not JobPhase.SUCCEEDED:
        return ("failed",)
    helped = job.condition(JobStep.HELPED)
    verdict = {"True": ("helped",), "False": ("not-helped",)}.get(helped.status, ()) if helped is not None else ()
    return ("succeeded", *verdict)


def _last_s(job: MigrationJob) -> float:
    at_s = ended_s(job)
    return job.created_s if isnan(at_s) else at_s


def _matches(job: MigrationJob, text: str) -> bool:
    if not text:
        return True
    note = job.note
    parts = (job.name, job.pod.key, job.node, job.reason, job.trigger, job.new_pod.key if job.new_pod else "")
    return any(text in entry.lower() for entry in (*parts, *((note.node, note.target) if note is not None else ())))


def _effects(job: MigrationJob) -> tuple[MoveEffect, ...]:
    """By resource, the one for which the pod moves first."""
    note = job.note
    if note is None:
        return ()
    parts = (note.node_before, note.node_after, note.target_before, note.target_after)
    names = sorted({name for part in parts for name in part}, key=lambda name: (name != note.resource, name))
    return tuple(MoveEffect(name, *(part.get(name) for part in parts)) for name in names)
