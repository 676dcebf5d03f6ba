"""One change of a release as a state machine: record, apply, wait, prune, close; on failure record it, and roll back
where that was asked for.

What the release had before goes last, when its successor is ready: a failed upgrade has taken nothing away. The record
is written before the first object is touched and names all of them, so a run that is killed at any point leaves a
pending revision whose objects the next run knows. A roll-back is a run of the same kind, once: its own failure is the
end. With nothing to go back to it removes what was applied, except what holds data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from cotenant.engine.apps.readiness import standing_of
from cotenant.model.apps.objects import DEFINITION, ObjectRef, apply_order, is_kept, ref_of
from cotenant.model.apps.release import RevisionState
from cotenant.model.apps.standing import ObjectStanding, Obstacle
from cotenant.model.json_object import JsonMapping, JsonObject

Lives = Mapping[ObjectRef, JsonMapping | None]


@dataclass(frozen=True, slots=True)
class WriteRevision:
    """Write this revision as it now stands."""

    number: int
    state: RevisionState
    documents: tuple[JsonObject, ...]
    message: str = ""


@dataclass(frozen=True, slots=True)
class Apply:
    """Make an object as its document says."""

    document: JsonObject


@dataclass(frozen=True, slots=True)
class ReadObjects:
    """Read these objects, a little later than the last time if `again`."""

    refs: tuple[ObjectRef, ...]
    again: bool


@dataclass(frozen=True, slots=True)
class DeleteReleased:
    """Delete an object, if it is the release's."""

    ref: ObjectRef


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove all revisions of the release."""


@dataclass(frozen=True, slots=True)
class ReleaseEnd:
    """The end. `failure` is empty where all went well; `kept`: what was not deleted, since it holds data or says so."""

    failure: str
    obstacles: tuple[Obstacle, ...] = ()
    is_rolled_back: bool = False
    kept: tuple[ObjectRef, ...] = ()


Instruction = WriteRevision | Apply | ReadObjects | DeleteReleased | Forget | ReleaseEnd


class _Phase(Enum):
    BEGIN = auto()
    DEFINE = auto()  # definitions are applied
    ESTABLISH = auto()  # they are waited for
    APPLY = auto()
    WAIT = auto()
    PRUNE = auto()
    GO = auto()  # what was deleted is waited for
    CLOSE = auto()
    FAIL = auto()  # the failure is recorded
    END = auto()


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run is to do. `before`: documents of what may be there; `back_to`: what a failure goes back to, None =
    nothing is rolled back, () = it is removed. `deletes_data`: an uninstallation that was told so.
    """

    number: int
    goal: tuple[JsonObject, ...]
    before: tuple[JsonObject, ...]
    waits: bool
    timeout_s: float
    back_to: tuple[JsonObject, ...] | None = None
    deletes_data: bool = False


class ReleaseRun:
    """Ask `next`, carry it out, tell `done`, `refused` or `looked`; until `ReleaseEnd`."""

    def __init__(self, plan: RunPlan, now_s: float) -> None:
        self._plan = plan
        self._number = plan.number
        self._phase = _Phase.BEGIN
        self._until_s = now_s + plan.timeout_s
        self._failure = ""
        self._obstacles: tuple[Obstacle, ...] = ()
        self.unexplained: tuple[Obstacle, ...] = ()  # of a failure just found, while its pods are still there
        self._is_rolling_back = False
        self._looked_once = False
        self._lost: list[ObjectRef] = []  # should have been deleted, and could not
        self.standings: dict[ObjectRef, ObjectStanding] = {}
        self._set_goal(plan.goal, plan.before)

    def _set_goal(self, goal: Sequence[JsonObject], before: Sequence[JsonObject]) -> None:
        self._goal = tuple(sorted(goal, key=lambda document: apply_order(ref_of(document))))
        refs = {ref_of(document) for document in goal}
        gone = sorted(
            (one for one in before if ref_of(one) not in refs), key=lambda one: apply_order(ref_of(one)), reverse=True
        )
        stays = [one for one in gone if is_kept(one) or (ref_of(one).holds_data and not self._plan.deletes_data)]
        self.kept = tuple(ref_of(one) for one in stays)
        self._to_delete = [ref_of(one) for one in gone if one not in stays]
        self._going: list[ObjectRef] = []
        definitions = [one for one in self._goal if one["kind"] == DEFINITION]
        self._definitions = definitions
        self._others = [one for one in self._goal if one["kind"] != DEFINITION]
        self._applied: set[ObjectRef] = set()
        self.standings = {}

    def next(self) -> Instruction:
        """What is done now."""
        phase = self._phase
        if phase is _Phase.BEGIN:
            state = RevisionState.PENDING if self._goal else RevisionState.UNINSTALLING
            return WriteRevision(self._number, state, self._goal if self._goal else self._plan.before)
        if phase in (_Phase.DEFINE, _Phase.APPLY):
            waiting = self._definitions if phase is _Phase.DEFINE else self._others
            return Apply(next(one for one in waiting if ref_of(one) not in self._applied))
        if phase in (_Phase.ESTABLISH, _Phase.WAIT):
            of = self._definitions if phase is _Phase.ESTABLISH else self._goal
            unready = [ref_of(one) for one in of if not self._is_ready(ref_of(one))]
            return ReadObjects(tuple(unready), self._looked_once)
        if phase is _Phase.PRUNE:
            return DeleteReleased(self._to_delete[0])
        if phase is _Phase.GO:
            return ReadObjects(tuple(self._going), self._looked_once)
        if phase is _Phase.CLOSE:
            return WriteRevision(self._number, RevisionState.DEPLOYED, self._goal) if self._goal else Forget()
        if phase is _Phase.FAIL:
            left = tuple(one for one in self._plan.before if ref_of(one) in self._lost)
            return WriteRevision(self._number, RevisionState.FAILED, (*self._goal, *left), self._failure)
        return ReleaseEnd(self._failure, self._obstacles, self._is_rolling_back, self.kept)

    def done(self) -> None:
        """What `next` said is done."""
        said = self.next()
        if isinstance(said, Apply):
            self._applied.add(ref_of(said.document))
        elif isinstance(said, DeleteReleased):
            self._going.append(self._to_delete.pop(0))
        elif isinstance(said, WriteRevision | Forget):
            if self._phase is _Phase.BEGIN:
                self._enter(_Phase.DEFINE)
            elif self._phase is _Phase.FAIL:
                self._after_failure()
            else:
                self._phase = _Phase.END
            return
        self._advance()

    def refused(self, why: str) -> None:
        """What `next` said was refused for good."""
        said = self.next()
        if isinstance(said, Apply):
            self._fail(f"{ref_of(said.document)} was refused", (Obstacle(ref_of(said.document), why),))
        elif isinstance(said, DeleteReleased):
            self._obstacles += (Obstacle(said.ref, f"it stays: {why}"),)
            self._lost.append(self._to_delete.pop(0))
            self._advance()
        else:
            self._failure = self._failure or why
            self._phase = _Phase.END

    def not_ours(self, why: str) -> None:
        """What is to be deleted is left alone, and no longer counts as the release's."""
        said = self.next()
        assert isinstance(said, DeleteReleased)
        self._obstacles += (Obstacle(said.ref, f"it stays: {why}"),)
        self._to_delete.pop(0)
        self._advance()

    def looked(self, found: Lives, now_s: float) -> None:
        """The objects that `ReadObjects` named, as they are."""
        self._looked_once = True
        if self._phase is _Phase.GO:
            self._going = [ref for ref in self._going if found.get(ref) is not None]
            if self._going and now_s >= self._until_s:
                self._obstacles += tuple(Obstacle(ref, "deleted, and not gone yet") for ref in self._going)
                self._going = []
            self._advance()
            return
        self.standings.update({ref: standing_of(live) for ref, live in found.items()})
        broken = [Obstacle(ref, one.failed) for ref, one in self.standings.items() if one.failed]
        if broken:
            self._fail("it cannot become ready", tuple(broken))
            return
        self._advance()
        if self._phase in (_Phase.ESTABLISH, _Phase.WAIT) and now_s >= self._until_s:
            lacking = [(ref, one) for ref, one in self.standings.items() if not one.is_ready]
            self._fail(
                f"not ready within {self._plan.timeout_s:g} s",
                tuple(
                    Obstacle(ref, f"{one} ready" + "".join(f"; {why}" for why in one.reasons)) for ref, one in lacking
                ),
            )

    def explained(self, obstacles: tuple[Obstacle, ...]) -> None:
        """The obstacles of `unexplained`, with more reasons."""
        self._obstacles = (*obstacles, *self._obstacles[len(self.unexplained) :])
        self.unexplained = ()

    def _is_ready(self, ref: ObjectRef) -> bool:
        standing = self.standings.get(ref)
        return standing is not None and standing.is_ready

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._looked_once = False
        self._advance()

    def _advance(self) -> None:
        """Leave phases in which nothing is left to do."""
        while True:
            phase = self._phase
            if phase is _Phase.DEFINE and all(ref_of(one) in self._applied for one in self._definitions):
                following = _Phase.ESTABLISH
            elif phase is _Phase.ESTABLISH and all(self._is_ready(ref_of(one)) for one in self._definitions):
                following = _Phase.APPLY
            elif phase is _Phase.APPLY and all(ref_of(one) in self._applied for one in self._others):
                following = _Phase.WAIT
            elif phase is _Phase.WAIT and (
                not self._plan.waits or all(self._is_ready(ref_of(one)) for one in self._goal)
            ):
                following = _Phase.PRUNE
            elif phase is _Phase.PRUNE and not self._to_delete:
                following = _Phase.GO
            elif phase is _Phase.GO and (not self._going or not self._plan.waits):
                following = _Phase.CLOSE
            else:
                return
            if following is _Phase.CLOSE and self._lost:
                self._failure = self._failure or "what was to be deleted could not be"
                following = _Phase.FAIL
            self._phase = following
            self._looked_once = False

    def _fail(self, why: str, obstacles: tuple[Obstacle, ...]) -> None:
        if self._is_rolling_back:
            self._failure = f"{self._failure}; rolling back failed too: {why}"
            self._obstacles += obstacles
        else:
            self._failure, self._obstacles = why, obstacles
            self.unexplained = obstacles
        self._phase = _Phase.FAIL

    def _after_failure(self) -> None:
        plan = self._plan
        if plan.back_to is None or self._is_rolling_back or self._lost:
            self._phase = _Phase.END
            return
        self._is_rolling_back = True
        self._number += 1 if plan.back_to else 0
        self._until_s += plan.timeout_s
        before = {ref_of(one): one for one in (*plan.before, *plan.goal)}
        self._set_goal(plan.back_to, tuple(before.values()))
        self._phase = _Phase.BEGIN
