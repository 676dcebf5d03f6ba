"""Resolves the desired values of all policies to one value per knob.

Several policies want the same knob, some want knobs that the agent may not write or that this machine lacks, and a
value may be malformed. A desired value must pass four checks (below an allowed root, a knob that the machine has, a
value that the knob accepts, not the weight of a group that is to be idle, which the kernel refuses); of those that
pass, the most restrictive wins (`restrictiveness.py`), and of equal ones the policy that is first in the list; the
overruled ones are kept with the winner. On cgroup v1 the kernel refuses a quota above the parent's, and a parent's
below a child's, so a quota above the one of a group that contains it becomes that one; on v2 the kernel takes the
smaller by itself.
Limits: one value per knob; nothing here knows what is held, and a quota that no policy wants is not considered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from cotenant.engine.node.knobs.restrictiveness import Rank, restrictiveness
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.verdict import PolicyVerdict


@dataclass(frozen=True, slots=True)
class Desired:
    """The value that won, and the others."""

    request: SetKnob
    policy: str
    overruled: tuple[tuple[str, str], ...] = ()  # policies that wanted another value, and that value
    agreed: tuple[str, ...] = ()  # policies that wanted the same value
    tied: bool = False  # an overruled value was equally restrictive: the order of policies decided


class RejectCause(StrEnum):
    """Why a desired value is rejected."""

    OUTSIDE = "is outside the groups that the agent may write"
    LACKING = "is a knob that this machine does not have"
    MALFORMED = "has a value that the knob does not accept"
    PINNED = "is the weight of a group that is to run idle"


@dataclass(frozen=True, slots=True)
class RejectedRequest:
    """A desired value that is rejected."""

    request: SetKnob
    policy: str
    why: RejectCause


@dataclass(frozen=True, slots=True)
class KnobPlan:
    """One value per knob, sorted by target; and what was rejected."""

    desired: dict[KnobTarget, Desired]
    rejected: tuple[RejectedRequest, ...]


def within(group: str, roots: Iterable[str]) -> bool:
    """Whether a group is one of the roots or below one. The tree's own root is not below any."""
    return any(group == root or group.startswith(root + "/") for root in roots if root) and group != ""


def resolve(
    verdicts: Sequence[tuple[str, PolicyVerdict]], roots: Sequence[str], supported: frozenset[Knob]
) -> KnobPlan:
    """Resolve the verdicts of these policies, given in the order of the policies."""
    requests: dict[KnobTarget, list[tuple[Rank, int, str, SetKnob]]] = {}
    rejected: list[RejectedRequest] = []
    is_allowed: dict[str, bool] = {}  # by group; most have several requests
    for order, (policy, verdict) in enumerate(verdicts):
        for request in verdict.knobs:
            target = request.target
            if target.group not in is_allowed:
                is_allowed[target.group] = within(target.group, roots)
            rank = restrictiveness(target.knob, request.value)
            why = (
                RejectCause.OUTSIDE
                if target.knob.scope is KnobScope.CGROUP and not is_allowed[target.group]
                else RejectCause.LACKING
                if target.knob not in supported
                else RejectCause.MALFORMED
                if rank is None
                else None
            )
            if why is not None or rank is None:
                rejected.append(RejectedRequest(request, policy, why or RejectCause.MALFORMED))
            else:
                requests.setdefault(target, []).append((rank, order, policy, request))
    desired: dict[KnobTarget, Desired] = {}
    for target in sorted(requests, key=_place):
        if target.knob is Knob.CPU_WEIGHT and _sets_idle(requests.get(KnobTarget(target.group, Knob.CPU_IDLE))):
            rejected += [
                RejectedRequest(request, policy, RejectCause.PINNED) for _, _, policy, request in requests[target]
            ]
        else:
            desired[target] = _winner(requests[target])
    if Knob.MEMORY_LOW not in supported:  # cgroup v1
        _bound_quotas(desired)
    rejected.sort(key=lambda entry: (_place(entry.request.target), entry.policy, entry.request.value))
    return KnobPlan(desired, tuple(rejected))


def _winner(requests: list[tuple[Rank, int, str, SetKnob]]) -> Desired:
    if len(requests) == 1:
        return Desired(requests[0][3], requests[0][2])
    # One policy that wants two values of a knob is a conflict like any other; the text breaks remaining ties.
    requests.sort(key=lambda entry: (entry[0], entry[1], entry[3].value, entry[3].lasts_us))
    rank, _, policy, best = requests[0]
    others = requests[1:]
    return Desired(
        best,
        policy,
        overruled=tuple((other, request.value) for _, _, other, request in others if request.value != best.value),
        agreed=tuple(other for _, _, other, request in others if request.value == best.value and other != policy),
        tied=any(at == rank and request.value != best.value for at, _, _, request in others),
    )


def _bound_quotas(desired: dict[KnobTarget, Desired]) -> None:
    """Lower each quota to the smallest of those of the groups that contain it. `desired` is sorted, parents first."""
    for target, own in desired.items():
        above = target.group.rpartition("/")[0] if target.knob is Knob.CPU_MAX else ""
        while above:
            containing = desired.get(KnobTarget(above, Knob.CPU_MAX))
            if containing is not None:  # it is bound by those above it already
                desired[target] = _bound(own, containing, above)
                break
            above = above.rpartition("/")[0]


def _bound(own: Desired, containing: Desired, above: str) -> Desired:
    value = containing.request.value
    mine, bound = restrictiveness(Knob.CPU_MAX, own.request.value), restrictiveness(Knob.CPU_MAX, value)
    if mine is None or bound is None or mine[0] <= bound[0]:
        return own
    text = f"{own.request.reason.text}; lowered to the quota of /{above}, above which cgroup v1 accepts none"
    reason = Reason(own.request.reason.rule, text, own.request.reason.terms)
    return replace(own, request=replace(own.request, value=value, reason=reason))


def _sets_idle(requests: list[tuple[Rank, int, str, SetKnob]] | None) -> bool:
    return requests is not None and any(request.value == "1" for _, _, _, request in requests)


def _place(target: KnobTarget) -> tuple[str, str]:
    return target.group, target.knob
