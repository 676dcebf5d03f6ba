"""A change that goes on: one replica, a proof, the others, a proof of all; undone where it hurts.

Each call maps the stored change and what is observed to the next status, and to resizes that the stored one asks for,
so whoever leads next goes on where the last one stopped. A pod that is found with an amount that nobody here set
belongs to somebody else: the change ends and says so, and nothing is taken back from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace

from cotenant.engine.sizing.scene import ResizePod, SizingScene, SizingStep
from cotenant.engine.sizing.suggesting import ended, first_of, held_of, touched
from cotenant.model.sizes.container import ContainerSize, SizedPod
from cotenant.model.sizes.right_sizing import SizeChange, SizingMode, SizingOutcome, SizingPhase, SizingStatus
from cotenant.policy.sizing.proof import MAX_BAD, harm, harm_at_once
from cotenant.policy.sizing.steps import next_step

MIN_REPORTS = 2  # of a proof
MAX_PROOFS = 3  # times its length, while nothing is measured
UNDO_PATIENCE = 3  # times the patience

Stamp = Callable[[float], str]


def go_on(scene: SizingScene, now_s: float, stamp: Stamp, resized: str = "") -> SizingStep:
    """The next step. `stamp`: a Unix time as text. `resized`: a replica that somebody else was seen to resize."""
    status = scene.sizing.status
    change = status.change
    assert change is not None
    if change.phase is SizingPhase.UNDOING:
        return _undoing(scene, status, change, now_s, stamp)
    if scene.sizing.mode in (
        SizingMode.OFF,
        SizingMode.SUGGEST,
    ):  # what was begun is not ended by a rung that was lost meanwhile
        why = f"mode was set to {scene.sizing.mode}"
        return SizingStep(ended(status, change, SizingOutcome.STOPPED, why, stamp(now_s), now_s))
    if why := _foreign(scene, change, resized):
        return SizingStep(ended(status, change, SizingOutcome.YIELDED, why, stamp(now_s), now_s))
    if why := held_of(scene.held, change.before, change.goal):
        return SizingStep(_begin_undo(status, change, SizingOutcome.GIVEN_UP, why, now_s))
    if why := _harm_at_once(scene, change):
        change = replace(change, broke_objective=bool(scene.objective_burns))
        return SizingStep(_begin_undo(status, change, SizingOutcome.UNDONE, why, now_s))
    if change.phase in (SizingPhase.FIRST, SizingPhase.REST):
        return _resizing(scene, status, change, now_s, stamp)
    return _proving(scene, status, change, now_s, stamp)


def _foreign(scene: SizingScene, change: SizeChange, resized: str) -> str:
    if resized:  # also one that this change has not come to yet
        return f"{resized} was given another size by somebody else"
    ours = _sizes(change)
    for pod in _own(scene, change):
        size = pod.containers[0].size
        is_proven = change.phase is SizingPhase.WHOLE or (
            change.phase is SizingPhase.PROOF and pod.uid == change.touched[-1].uid
        )
        if size not in ours or (is_proven and size != change.after):
            return f"{pod.name} was given another size by somebody else"
    return ""


def _sizes(change: SizeChange) -> set[ContainerSize]:
    """Those that this change gives, or finds."""
    first = next_step(change.before, change.goal)
    return {change.before, change.after, change.goal, *(() if first is None else (first,))}


def _own(scene: SizingScene, change: SizeChange) -> Iterator[SizedPod]:
    for one in change.touched:
        if one.uid in scene.pods:
            yield scene.pods[one.uid]


def _harm_at_once(scene: SizingScene, change: SizeChange) -> str:
    if scene.objective_burns:
        return f"objective {scene.sizing.objective} burns"
    for one in change.touched:
        pod = scene.pods.get(one.uid)
        if pod is None or pod.containers[0].size != change.after:
            continue
        if why := harm_at_once(one, scene.signs[one.uid]):
            return why
    return ""


def is_in_place(pod: SizedPod, size: ContainerSize, *, was_never_resized: bool = False) -> bool:
    """Whether its kubelet has brought it about. One that never said anything of amounts has not, unless the pod was
    never resized.
    """
    container = pod.containers[0]
    return (
        container.size == size
        and not pod.pending
        and not pod.in_progress
        and (was_never_resized if container.allocated is None else _same_requests(container.allocated, size))
    )


def _same_requests(allocated: ContainerSize, size: ContainerSize) -> bool:
    return (allocated.cpu_request_m, allocated.memory_request_bytes) == (size.cpu_request_m, size.memory_request_bytes)


def _resizing(scene: SizingScene, status: SizingStatus, change: SizeChange, now_s: float, stamp: Stamp) -> SizingStep:
    last = change.touched[-1]
    pod = scene.pods.get(last.uid)
    if pod is None:  # gone meanwhile: another one takes its place
        rest = change.touched[:-1]
        found = first_of(scene, change.before) if change.phase is SizingPhase.FIRST else None
        kept = (*rest, found) if found is not None else rest
        if not kept and scene.pods and now_s - change.since_s > scene.sizing.patience_s:  # others, made anew
            why = "no ready replica of the size that it begins with is left"
            return SizingStep(ended(status, change, SizingOutcome.GIVEN_UP, why, stamp(now_s), now_s))
        if not kept:
            return SizingStep(replace(status, message="no ready replica is left: it waits for one"))
        if found is None and change.phase is SizingPhase.FIRST:
            return SizingStep(status)
        return SizingStep(replace(status, change=replace(change, touched=kept, since_s=now_s)))
    if scene.refusal:
        why = f"the API server refuses: {scene.refusal}"
        return SizingStep(_begin_undo(status, change, SizingOutcome.GIVEN_UP, why, now_s))
    if is_in_place(pod, change.after):
        if change.phase is SizingPhase.FIRST:
            return SizingStep(_phase(status, change, SizingPhase.PROOF, now_s))
        return SizingStep(_next_of_rest(scene, status, change, now_s))
    late = now_s - change.since_s > scene.sizing.patience_s
    if pod.containers[0].size == change.after:
        if pod.pending == "Infeasible" or (late and (pod.pending or pod.progress_error)):
            said = pod.pending_why or pod.progress_error
            why = f"{pod.name}: {pod.pending or 'in progress'} for {now_s - change.since_s:.0f} s: {said}"
            return SizingStep(_begin_undo(status, change, SizingOutcome.GIVEN_UP, why, now_s))
        if late:
            why = f"{pod.name}: its kubelet did nothing for {now_s - change.since_s:.0f} s"
            return SizingStep(_begin_undo(status, change, SizingOutcome.GIVEN_UP, why, now_s))
        said = f"{pod.name}: {pod.pending}: {pod.pending_why}" if pod.pending else ""
        return SizingStep(replace(status, message=said))
    if scene.permission.is_frozen:  # the pod was not asked for anything yet: its patience begins after the freeze
        waits = now_s - change.since_s > scene.sizing.patience_s / 2
        held = replace(change, since_s=now_s) if waits else change
        return SizingStep(replace(status, message=scene.permission.why, change=held))
    return SizingStep(status, (_resize(scene, pod, change.after),))


def _resize(scene: SizingScene, pod: SizedPod, size: ContainerSize, *, undoes: bool = False) -> ResizePod:
    return ResizePod(scene.sizing.key, pod.namespace, pod.name, pod.uid, pod.containers[0].name, size, undoes)


def _next_of_rest(scene: SizingScene, status: SizingStatus, change: SizeChange, now_s: float) -> SizingStatus:
    """The next replica, or the proof of all."""
    known = {one.uid for one in change.touched}
    wanted = _sizes(change) - {change.after}  # others were made anew, from the template: they follow afterwards
    left = sorted(
        (pod for uid, pod in scene.pods.items() if uid not in known and pod.containers[0].size in wanted),
        key=lambda pod: pod.name,
    )
    if left:
        more = touched(scene.signs[left[0].uid])
        return replace(status, change=replace(change, since_s=now_s, touched=(*change.touched, more)))
    step_before = [pod for pod in _own(scene, change) if pod.containers[0].size != change.after]
    if step_before:  # touched by an earlier step, and not yet by this one
        uid = sorted(step_before, key=lambda pod: pod.name)[0].uid
        order = (*(one for one in change.touched if one.uid != uid), touched(scene.signs[uid]))
        return replace(status, change=replace(change, since_s=now_s, touched=order))
    return _phase(status, change, SizingPhase.WHOLE, now_s)


def _phase(status: SizingStatus, change: SizeChange, phase: SizingPhase, now_s: float) -> SizingStatus:
    return replace(status, message="", change=replace(change, phase=phase, since_s=now_s, measured=0, bad=0))


def _proving(scene: SizingScene, status: SizingStatus, change: SizeChange, now_s: float, stamp: Stamp) -> SizingStep:
    own = [one for one in change.touched if one.uid in scene.pods]
    if not own:
        return SizingStep(replace(status, change=replace(change, phase=SizingPhase.FIRST, since_s=now_s)))
    watched = own[-1:] if change.phase is SizingPhase.PROOF else own
    if any(one.uid in scene.reported for one in watched):
        names = {one.uid for one in own}
        fellows = [sign for uid, sign in scene.signs.items() if uid not in names]
        found = [why for one in watched if (why := harm(one, scene.signs[one.uid], fellows))]
        bad = change.bad + 1 if found else 0
        if bad >= MAX_BAD:
            return SizingStep(_begin_undo(status, change, SizingOutcome.UNDONE, found[0], now_s))
        change = replace(change, measured=change.measured + 1, bad=bad)
        status = replace(status, change=change, message=found[0] if found else "")
    waited_s = now_s - change.since_s
    if waited_s < scene.sizing.proof_s or (change.bad and change.measured >= MIN_REPORTS):
        return SizingStep(status)
    if change.measured < MIN_REPORTS:
        if waited_s < MAX_PROOFS * scene.sizing.proof_s:
            return SizingStep(status)
        why = f"nothing was measured of it for {waited_s:.0f} s, so it cannot be proven"
        return SizingStep(_begin_undo(status, change, SizingOutcome.UNDONE, why, now_s))
    if change.phase is SizingPhase.PROOF:
        following = _next_of_rest(scene, status, replace(change, phase=SizingPhase.REST), now_s)
        if len(own) > 1 or following.change is None or following.change.phase is not SizingPhase.WHOLE:
            return SizingStep(following)
    step = next_step(change.after, change.goal)
    if step is None:
        return SizingStep(ended(status, change, SizingOutcome.DONE, "proven", stamp(now_s), now_s))
    first = touched(scene.signs[own[0].uid])
    rest = tuple(one for one in change.touched if one.uid != first.uid)
    second = replace(
        change, phase=SizingPhase.FIRST, since_s=now_s, after=step, touched=(*rest, first), measured=0, bad=0
    )
    return SizingStep(replace(status, change=second, message=""))


def _begin_undo(
    status: SizingStatus, change: SizeChange, ending: SizingOutcome, why: str, now_s: float
) -> SizingStatus:
    undoing = replace(change, phase=SizingPhase.UNDOING, since_s=now_s, why=why, ending=ending)
    return replace(status, state="undoing", message=why, change=undoing)


def _undoing(scene: SizingScene, status: SizingStatus, change: SizeChange, now_s: float, stamp: Stamp) -> SizingStep:
    ours = _sizes(change)
    left = [pod for pod in _own(scene, change) if not is_in_place(pod, change.before, was_never_resized=True)]
    left = [pod for pod in left if pod.containers[0].size in ours]
    late = now_s - change.since_s > UNDO_PATIENCE * scene.sizing.patience_s
    if not left:
        return SizingStep(ended(status, change, change.ending, change.why, stamp(now_s), now_s))
    if late:
        said = ", ".join(f"{pod.name} ({pod.pending or 'not in place'})" for pod in left)
        why = f"{change.why}; not yet back at what it had: {said}"
        return SizingStep(ended(status, change, change.ending, why, stamp(now_s), now_s))
    asked = tuple(
        _resize(scene, pod, change.before, undoes=True) for pod in left if pod.containers[0].size != change.before
    )
    said = f"{change.why}; refused: {scene.refusal}" if scene.refusal else change.why
    return SizingStep(replace(status, message=said), asked)


def spread(scene: SizingScene, left: Set[str] = frozenset()) -> tuple[ResizePod, ...]:
    """Pods that were made anew from the template get the size that was proven, one at a time. `left`: UIDs of those
    that are another controller's.
    """
    applied = scene.sizing.status.applied
    if (
        applied is None
        or scene.mode not in (SizingMode.APPROVE, SizingMode.ACT)
        or scene.refusal
        or scene.permission.is_frozen
    ):
        return ()
    # what pods are made with, and what earlier changes gave: the template may be either by now
    status = scene.sizing.status
    ending = next((receipt.outcome for receipt in status.receipts if receipt.id == applied.id), SizingOutcome.DONE)
    if ending is SizingOutcome.STOPPED:
        return ()  # it stands so that it can be undone; it was never proven
    kept = [receipt for receipt in status.receipts if receipt.outcome is SizingOutcome.DONE]
    made = {status.template or applied.before}
    made |= {size for receipt in kept for size in (receipt.before, receipt.after)}
    made.discard(applied.after)
    for pod in sorted(scene.pods.values(), key=lambda pod: pod.name):
        if pod.uid in left:
            continue
        if pod.is_of_one_container and not pod.has_pod_resources and pod.containers[0].size in made and not pod.pending:
            return (_resize(scene, pod, applied.after),)
    return ()


def late_anew(scene: SizingScene, since_s: Mapping[str, float], now_s: float) -> tuple[ResizePod, ...]:
    """Pods that were made anew get back what they had where their kubelet has kept the proven size waiting for longer
    than the patience: what a pod asks for counts on its node. `since_s`: since when one waits, by UID.
    """
    applied, patience_s = scene.sizing.status.applied, scene.sizing.patience_s
    found = []
    for uid, pod in scene.pods.items():
        if applied is None or not pod.is_of_one_container or now_s - since_s.get(uid, now_s) <= patience_s:
            continue
        size, there = pod.containers[0].size, pod.containers[0].allocated
        if size == applied.after and there is not None and there != size:
            found.append(_resize(scene, pod, there, undoes=True))
    return tuple(found)
