"""What the movers may do now, what waits for a person, and what they did.

    /api/autonomy   what is allowed by kind of acting, the cluster's Autonomy objects, what was earned, RightSizings,
                    moves, pools that lend and acts of recovery, with their receipts

Everything but recovery is watched. Acts of recovery are those that agents reported to the trace process.
Limits: the newest `MAX_RECEIPTS` of each kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.migration.proof import ended_s
from cotenant.model.autonomy.autonomy import Action, ActionWindow, Autonomy, Freeze
from cotenant.model.groups.migration import JobStep, MigrationJob
from cotenant.model.sizes.right_sizing import RightSizing, SizingMode
from cotenant.policy.autonomy.ladder import Earned
from cotenant.services.autonomy.freezing import FREEZE
from cotenant.services.autonomy.moves import move_state, waits_for_approval, who_allowed
from cotenant.services.autonomy.sizes import changed
from cotenant.services.autonomy.standing import earned_of
from cotenant.services.console.views.lending import LendingPools, LendingView
from cotenant.services.console.views.moves import MoveBoard
from cotenant.services.console.views.timeline import RecoveryAct

MAX_RECEIPTS = 100
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
RecoveryActs = Callable[[], Awaitable[tuple[Sequence[RecoveryAct], str]]]


@dataclass(frozen=True, slots=True)
class AllowedView:
    """What may be done of one kind where no namespace is named."""

    action: str
    rung: str
    may_begin: bool
    is_frozen: bool
    why: str


@dataclass(frozen=True, slots=True)
class AutonomyObjectView:
    """An Autonomy; windows and blackouts as texts."""

    name: str
    namespaces: tuple[str, ...]
    actions: tuple[str, ...]
    ceiling: str
    windows: tuple[str, ...]
    blackouts: tuple[tuple[float, float, str], ...]  # Unix times, why
    freeze: Freeze | None
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EarnedView:
    """What the changes of a namespace have earned."""

    action: str
    where: str
    rung: str
    hits: int
    trials: int
    low: float
    why: str


@dataclass(frozen=True, slots=True)
class SizeReceiptView:
    """A change of sizes that ended."""

    id: str
    at: str
    outcome: str
    change: str
    why: str
    allowed_by: str
    pods: int


@dataclass(frozen=True, slots=True)
class SizingView:
    """A RightSizing. `approve`, `undo`: the ids that can be approved and taken back now, empty = none."""

    sizing: str
    workload: str
    mode: str
    state: str
    message: str
    suggested: str
    why: tuple[str, ...]
    applied: str
    approve: str
    undo: str
    receipts: tuple[SizeReceiptView, ...]
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MoveReceiptView:
    """A move of the rebalancer, or of whoever made it."""

    move: str
    pod: str
    state: str
    before: str
    after: str
    why: str
    allowed_by: str
    result: str
    at: float
    waits: bool


@dataclass(frozen=True, slots=True)
class AutonomyView:
    """The answer."""

    may_change: bool
    is_frozen: bool  # by the object that `cotenant freeze` and the page make
    allowed: tuple[AllowedView, ...]
    objects: tuple[AutonomyObjectView, ...]
    earned: tuple[EarnedView, ...]
    sizes: tuple[SizingView, ...]
    moves: tuple[MoveReceiptView, ...]
    pools: tuple[LendingView, ...]
    recovery: tuple[RecoveryAct, ...]
    recovery_problem: str


class ActingBoard:
    """The objects, and the answer about them."""

    def __init__(
        self,
        moves: MoveBoard,
        lending: LendingPools,
        recovery: RecoveryActs,
        now: Callable[[], float],
        *,
        may_change: bool,
    ) -> None:
        """`now` gives Unix seconds."""
        self._moves, self._lending, self._recovery, self._now = moves, lending, recovery, now
        self._may_change = may_change
        self._sizings: dict[str, RightSizing] = {}
        self._objects: dict[str, Autonomy] = {}

    def sizing_seen(self, sizing: RightSizing) -> None:
        """A RightSizing was added or changed."""
        self._sizings[sizing.key] = sizing

    def sizing_gone(self, key: str) -> None:
        """It was deleted."""
        self._sizings.pop(key, None)

    def autonomy_seen(self, found: Autonomy) -> None:
        """An Autonomy was added or changed."""
        self._objects[found.name] = found

    def autonomy_gone(self, name: str) -> None:
        """It was deleted."""
        self._objects.pop(name, None)

    @property
    def is_frozen(self) -> bool:
        """Whether the freeze that a command or the page makes stands."""
        found = self._objects.get(FREEZE)
        return found is not None and found.freeze is not None

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer to `/api/autonomy`. Raises `NotFound`."""
        if names:
            raise NotFound("there is no such page")
        now_s = self._now()
        permissions = Permissions()
        for found in self._objects.values():
            permissions.seen(found)
        jobs, pools = self._moves.jobs, self._lending.pools
        sizings = [self._sizings[key] for key in sorted(self._sizings)]
        earned = earned_of(sizings, jobs, pools, now_s)
        acts, problem = await self._recovery()
        return AutonomyView(
            may_change=self._may_change,
            is_frozen=self.is_frozen,
            allowed=tuple(_allowed(permissions, action, now_s) for action in Action),
            objects=tuple(_object(self._objects[name]) for name in sorted(self._objects)),
            earned=tuple(
                _earned(action, where, stands)
                for action in (Action.SIZES, Action.MOVES)
                for where, stands in earned[action].items()
                if stands.trials
            ),
            sizes=tuple(map(_sizing, sizings)),
            moves=tuple(map(_move, sorted(jobs, key=_newest_first)[:MAX_RECEIPTS])),
            pools=self._lending.views(),
            recovery=tuple(acts[:MAX_RECEIPTS]),
            recovery_problem=problem,
        )


def _allowed(permissions: Permissions, action: Action, now_s: float) -> AllowedView:
    found = permissions.of(action, "", now_s)
    return AllowedView(action.value, found.rung.name.lower(), found.may_begin, found.is_frozen, found.why)


def _object(found: Autonomy) -> AutonomyObjectView:
    return AutonomyObjectView(
        found.name,
        tuple(sorted(found.namespaces)),
        tuple(sorted(found.actions)),
        found.ceiling.name.lower(),
        tuple(map(window_words, found.windows)),
        tuple((blackout.from_s, blackout.until_s, blackout.why) for blackout in found.blackouts),
        found.freeze,
        found.wrong,
    )


def window_words(window: ActionWindow) -> str:
    """Such as `mon, tue 22:00-06:00 Europe/Berlin`."""
    days = "daily" if len(window.days) == len(_DAYS) else ", ".join(_DAYS[day] for day in sorted(window.days))
    begin, end = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in (window.from_min, window.until_min))
    return f"{days} {begin}-{end} {window.zone}"


def _earned(action: Action, where: str, stands: Earned) -> EarnedView:
    return EarnedView(action.value, where, stands.rung.name.lower(), stands.hits, stands.trials, stands.low, stands.why)


def _sizing(sizing: RightSizing) -> SizingView:
    status = sizing.status
    stands, applied = status.suggestion, status.applied
    may_be_allowed = sizing.mode in (SizingMode.APPROVE, SizingMode.EARNED) and status.change is None
    return SizingView(
        sizing=sizing.key,
        workload=f"{sizing.workload_kind}/{sizing.workload_name}",
        mode=sizing.mode.value,
        state=status.state,
        message=status.message,
        suggested=changed(stands.before, stands.after) if stands is not None else "",
        why=stands.why if stands is not None else (),
        applied=changed(applied.before, applied.after) if applied is not None else "",
        approve=stands.id if stands is not None and may_be_allowed and sizing.approved != stands.id else "",
        undo=applied.id if applied is not None and sizing.undo != applied.id else "",
        receipts=tuple(
            SizeReceiptView(
                receipt.id,
                receipt.at,
                receipt.outcome.value,
                changed(receipt.before, receipt.after),
                receipt.why,
                receipt.allowed_by,
                receipt.pods,
            )
            for receipt in status.receipts
        ),
        wrong=sizing.wrong,
    )


def _newest_first(job: MigrationJob) -> tuple[bool, float, str]:
    """Those that wait for a person before all others."""
    return (not waits_for_approval(job), -job.created_s, job.name)


def _move(job: MigrationJob) -> MoveReceiptView:
    helped, note = job.condition(JobStep.HELPED), job.note
    at_s = ended_s(job)
    return MoveReceiptView(
        move=job.name,
        pod=job.pod.key,
        state=move_state(job),
        before=job.node or (note.node if note is not None else ""),
        after=note.target if note is not None else "",
        why=job.reason,
        allowed_by=who_allowed(job),
        result=helped.message if helped is not None else job.message,
        at=job.created_s if isnan(at_s) else at_s,
        waits=waits_for_approval(job),
    )
