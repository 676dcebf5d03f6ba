"""From a history to a suggestion, and from a suggestion to a change that may begin.

A suggestion stands while the size that is found anew stays within a tenth of it: an id that changed every hour could
not be approved. What hurt once is not tried again under its id, and every change that did not succeed doubles the time
until the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

import numpy as np

from cotenant.engine.sizing import hourly
from cotenant.engine.sizing.scene import SizingScene
from cotenant.model.sizes.container import ContainerSize, SizedContainer, SizedPod
from cotenant.model.sizes.right_sizing import (
    MAX_RECEIPTS,
    SizeChange,
    SizingMode,
    SizingOutcome,
    SizingPhase,
    SizingReceipt,
    SizingStatus,
    Suggestion,
    Touched,
)
from cotenant.policy.assess.container_sizes import HeldResources, container_size
from cotenant.policy.assess.heap_floor import heap_floor, highest_floor, lack_floor
from cotenant.policy.assess.predictor import Past
from cotenant.policy.assess.replica_sizes import replica_sizes
from cotenant.policy.sizing.proof import Sign, harm_at_once
from cotenant.policy.sizing.steps import next_step, reachable

ENOUGH = 0.10  # of an amount: less is not worth a change
QUIET_S, MAX_DOUBLINGS = 86_400.0, 4  # after a change that did not succeed, or another controller's
PAUSE_S = 3600.0  # after one that did
LATE = "harm within a day"  # by what a proven change is taken back
PROBATION_S = 86_400.0  # in which harm takes a proven change back, and no amount is lowered again


def idle(scene: SizingScene, now_s: float) -> SizingStatus:
    """The status where no change goes on."""
    sizing, status = scene.sizing, scene.sizing.status
    if sizing.undo and status.applied is not None and sizing.undo == status.applied.id:
        return _undo(scene, status.applied, now_s, "its undoing was asked for", "spec.undo")
    if status.applied is not None and (why := _late_harm(scene, now_s)):
        return _undo(scene, status.applied, now_s, why, LATE)
    if scene.mode is SizingMode.OFF:
        return replace(status, state="off", message=scene.permission.why, suggestion=None)
    if not scene.pods:
        return replace(status, state="waiting", message="the workload has no running pods", suggestion=None)
    if said := _not_sized(scene.pods):
        return replace(status, state="waiting", message=said, suggestion=None)
    status = _suggested(scene, now_s)
    found = status.suggestion
    if why := scene.refusal or _waiting_anew(scene):
        return replace(status, message=f"pods made anew keep the template's size: {why}")
    if found is None:
        return status
    if now_s < status.quiet_until_s:
        left_h = (status.quiet_until_s - now_s) / 3600
        return replace(
            status, state="quiet", message=f"nothing is begun for {left_h:.1f} h after the last change, whoever made it"
        )
    if scene.mode is SizingMode.SUGGEST:
        return replace(status, state="suggested", message=scene.permission.why)
    if scene.mode is SizingMode.APPROVE and sizing.approved != found.id:
        return replace(status, state="awaitsApproval", message=f"spec.approved: {found.id} begins it")
    if why := "" if scene.may_begin else scene.permission.why:
        return replace(status, state="waiting", message=why)
    if why := _not_now(scene):
        return replace(status, state="waiting", message=why)
    return begun(scene, status, found, now_s)


def _not_sized(pods: Mapping[str, SizedPod]) -> str:
    """Why no size is found for such pods; "" = one may be."""
    if not all(pod.is_of_one_container for pod in pods.values()):
        return "pods of several containers, sidecars too, are not resized: measurements are of whole pods"
    if any(pod.has_pod_resources for pod in pods.values()):
        return "pods with amounts of the whole pod (spec.resources) are not resized"
    return ""


def _waiting_anew(scene: SizingScene) -> str:
    """What a kubelet says to the resize of a pod that was made anew."""
    applied = scene.sizing.status.applied
    for pod in scene.pods.values():
        if applied is not None and pod.pending and pod.containers[0].size == applied.after:
            return f"{pod.name}: {pod.pending}: {pod.pending_why}"
    return ""


def _suggested(scene: SizingScene, now_s: float) -> SizingStatus:
    sizing, status = scene.sizing, scene.sizing.status
    history = status.history
    known_s = hourly.known_s(history, now_s)
    if known_s < sizing.min_history_s:
        said = f"{known_s / 3600:.1f} h of its use are known, a size needs {sizing.min_history_s / 3600:.3g} h"
        return replace(status, state="learning", message=said, suggestion=None)
    before = common_size(scene.pods)
    stands = status.suggestion
    if stands is not None and (
        stands.before != before
        or stands.id in status.refused
        or held_of(scene.held, stands.before, stands.after)  # since it was found
    ):
        stands = None
    if not scene.may_size:
        return replace(status, suggestion=stands)
    container = next(pod for pod in scene.pods.values() if pod.containers[0].size == before).containers[0]
    found = _sized(scene, container)
    if isinstance(found, str):
        return replace(status, state="learning", message=found, suggestion=None)
    after, why = found
    if now_s < status.probation_until_s:  # a size that follows the hours would be lowered before each peak
        after = _not_below(before, after)
    if not _differs(before, after):
        return replace(status, state="fits", message="; ".join(why), suggestion=None)
    if stands is None or _differs(stands.after, after):
        stands = Suggestion(suggestion_id(sizing.key, before, after), before, after, why)
    if stands.id in status.refused:
        said = f"{stands.id} was tried and not kept: see receipts"
        return replace(status, state="refused", message=said, suggestion=None)
    return replace(status, suggestion=stands)


def _sized(scene: SizingScene, container: SizedContainer) -> tuple[ContainerSize, tuple[str, ...]] | str:
    history = scene.sizing.status.history
    unknown = np.full(1, np.nan)
    found = [
        replica_sizes(Past(row, hourly.HOUR_S, unknown, unknown), history.first_hour * 3600.0, scene.sizing.risk)[0]
        for row in hourly.rows(history)
    ]
    cpu, memory = found
    if cpu is None or memory is None:
        return "nothing is known of its use"
    own = [pod.containers[0] for pod in scene.pods.values()]
    floor = highest_floor([*(heap_floor(one.program) for one in own), lack_floor(own)])
    goal, why = container_size(container.size, cpu, memory, floor, scene.held)
    after, kept = reachable(container, goal)
    set_by = (f"CPU set by {cpu.set_by}", f"memory set by {memory.set_by}")
    return after, (*set_by, *why, *kept)


def held_of(held: HeldResources, before: ContainerSize, after: ContainerSize) -> str:
    """Why a change from one size to the other may not be: somebody else goes by what it changes; "" = it may."""
    if held.cpu and (before.cpu_request_m, before.cpu_limit_m) != (after.cpu_request_m, after.cpu_limit_m):
        return held.cpu
    memory = (before.memory_request_bytes, before.memory_limit_bytes)
    is_changed = memory != (after.memory_request_bytes, after.memory_limit_bytes)
    return held.memory if held.memory and is_changed else ""


def common_size(pods: Mapping[str, SizedPod]) -> ContainerSize:
    """The size that most replicas have; of equally many, the largest request of CPU."""
    sizes = [pod.containers[0].size for pod in pods.values()]
    return max(sizes, key=lambda size: (sizes.count(size), size.cpu_request_m or 0, size.memory_request_bytes or 0))


def _not_below(before: ContainerSize, after: ContainerSize) -> ContainerSize:
    """The larger of both, amount by amount; what is not set after stays so."""

    def larger(was: int | None, now: int | None) -> int | None:
        return now if was is None or now is None else max(was, now)

    return ContainerSize(
        larger(before.cpu_request_m, after.cpu_request_m),
        larger(before.cpu_limit_m, after.cpu_limit_m),
        larger(before.memory_request_bytes, after.memory_request_bytes),
        larger(before.memory_limit_bytes, after.memory_limit_bytes),
    )


def _differs(before: ContainerSize, after: ContainerSize) -> bool:
    pairs = (
        (before.cpu_request_m, after.cpu_request_m),
        (before.cpu_limit_m, after.cpu_limit_m),
        (before.memory_request_bytes, after.memory_request_bytes),
        (before.memory_limit_bytes, after.memory_limit_bytes),
    )
    return any(
        (was is None) != (now is None) or (was is not None and now is not None and abs(now - was) > ENOUGH * was)
        for was, now in pairs
    )


def suggestion_id(key: str, before: ContainerSize, after: ContainerSize) -> str:
    """Short, and another one for other amounts."""
    return sha256(repr((key, before, after)).encode()).hexdigest()[:8]


def _not_now(scene: SizingScene) -> str:
    if scene.sizing.objective and scene.objective_burns is None:
        return f"objective {scene.sizing.objective} is not counted yet: nothing is changed without it"
    if scene.objective_burns:
        return f"objective {scene.sizing.objective} burns: nothing is changed meanwhile"
    for pod in scene.pods.values():
        if pod.pending or pod.in_progress:
            return f"{pod.name} is being resized by somebody else"
    if not any(pod.is_ready for pod in scene.pods.values()):
        return "no replica is ready"
    return ""


def begun(scene: SizingScene, status: SizingStatus, found: Suggestion, now_s: float) -> SizingStatus:
    """The status of a change that begins, with its first replica."""
    step = next_step(found.before, found.after)
    first = first_of(scene, found.before)
    if step is None or first is None:
        return replace(status, state="waiting", message="no ready replica has the size that the suggestion begins with")
    sizing = scene.sizing
    by = (
        f"mode {sizing.mode}"
        if scene.mode is SizingMode.ACT
        else f"spec.approved, {sizing.approved_by or 'nobody named'}"
    )
    change = SizeChange(found.id, SizingPhase.FIRST, now_s, found.before, step, found.after, by, (first,))
    return replace(status, state="changing", message="", change=change)


def first_of(scene: SizingScene, size: ContainerSize) -> Touched | None:
    """A ready replica of a size, by name."""
    ready = sorted(
        (pod for pod in scene.pods.values() if pod.is_ready and pod.containers[0].size == size),
        key=lambda pod: pod.name,
    )
    return touched(scene.signs[ready[0].uid]) if ready else None


def touched(sign: Sign) -> Touched:
    """A replica as it is before it is resized."""
    return Touched(sign.uid, sign.name, sign.restarts, sign.wait_per_cpu, sign.p99_ms)


def _late_harm(scene: SizingScene, now_s: float) -> str:
    """What a proof of minutes did not see: the next peak is part of it."""
    status = scene.sizing.status
    if status.applied is None or now_s >= status.probation_until_s:
        return ""
    if scene.objective_burns:
        return f"objective {scene.sizing.objective} burns, within a day of the change"
    for one in status.proven:
        sign = scene.signs.get(one.uid)
        if sign is not None and sign.size == status.applied.after and (why := harm_at_once(one, sign)):
            return f"{why}, within a day of the change"
    return ""


def _undo(scene: SizingScene, applied: Suggestion, now_s: float, why: str, by: str) -> SizingStatus:
    own = tuple(touched(scene.signs[uid]) for uid in sorted(scene.pods))
    change = SizeChange(
        applied.id, SizingPhase.UNDOING, now_s, applied.before, applied.after, applied.after, by, own,
        why=why, ending=SizingOutcome.UNDONE, broke_objective=bool(scene.objective_burns) and by == LATE,
    )  # fmt: skip
    status = scene.sizing.status
    earlier = _proven_before(status.receipts, applied)
    return replace(status, state="changing", message="", change=change, applied=earlier, suggestion=None)


def _proven_before(receipts: Sequence[SizingReceipt], applied: Suggestion) -> Suggestion | None:
    """The change that brought about what an undoing leads back to, where that was not taken back itself."""
    undone = {receipt.id for receipt in receipts if receipt.outcome is SizingOutcome.UNDONE}
    for found in receipts:
        is_kept = found.outcome is SizingOutcome.DONE and found.id not in {applied.id, *undone}
        if is_kept and found.after == applied.before:
            return Suggestion(found.id, found.before, found.after)
    return None


def ended(
    status: SizingStatus, change: SizeChange, outcome: SizingOutcome, why: str, at: str, now_s: float
) -> SizingStatus:
    """The status after a change, with its receipt."""
    receipt = SizingReceipt(
        change.id, at, outcome, change.before, change.goal, why, change.allowed_by, len(change.touched),
        change.broke_objective,
    )  # fmt: skip
    receipts = (receipt, *status.receipts)[:MAX_RECEIPTS]
    is_kept = outcome in (SizingOutcome.DONE, SizingOutcome.STOPPED)
    failures = 0
    for found in receipts:
        if found.outcome is SizingOutcome.DONE:
            break
        failures += 1
    quiet_s = PAUSE_S if outcome is SizingOutcome.DONE else QUIET_S * 2 ** min(max(0, failures - 1), MAX_DOUBLINGS)
    template, last = status.template, status.applied
    if outcome is SizingOutcome.DONE and not (
        template is not None and last is not None and last.after == change.before
    ):
        template = change.before
    return replace(
        status,
        template=template,
        state=outcome.value,
        message=why,
        change=None,
        suggestion=None,
        applied=Suggestion(change.id, change.before, change.goal) if is_kept else status.applied,
        receipts=receipts,
        quiet_until_s=now_s + quiet_s,
        proven=change.touched if outcome is SizingOutcome.DONE else (),
        probation_until_s=now_s + PROBATION_S if outcome is SizingOutcome.DONE else 0.0,
        refused=status.refused if is_kept else (change.id, *status.refused)[:MAX_RECEIPTS],
    )
