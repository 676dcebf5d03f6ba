"""From what every policy wants to one value a knob.

Problem: several policies want the same knob, some want knobs that are not ours to turn or that this machine lacks, and a value may be nonsense.
Choice: a wish must pass four questions (below our roots, a knob that the machine has, a value that the knob takes, not a weight of a group that
shall be idle, which the kernel refuses); of those that pass the most restrictive wins (`node_restriction`), of equal ones the policy that stands first in the roster; who lost is kept beside the winner.
Limits: one value a knob; nothing here knows what is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cotenant.engine.node.restriction import Rank, restriction
from cotenant.model.machine.knob import Knob, Scope, SetKnob, Target
from cotenant.model.machine.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wish that won, and the others."""

    wish: SetKnob
    policy: str
    lost: tuple[tuple[str, str], ...] = ()  # policies that wanted another value, and it
    agreed: tuple[str, ...] = ()  # policies that wanted the same value
    tied: bool = False  # a loser was just as restrictive: the roster's order decided


class Unfit(StrEnum):
    """Why a wish is not taken up."""

    OUTSIDE = "is outside the groups that the agent may turn"
    LACKING = "is a knob that this machine does not have"
    MALFORMED = "has a value that the knob does not take"
    PINNED = "is the weight of a group that shall run idle"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A wish that is not taken up."""

    wish: SetKnob
    policy: str
    why: Unfit


@dataclass(frozen=True, slots=True)
class Plan:
    """One value a knob, sorted by target; and what was not taken up."""

    wanted: dict[Target, Wanted]
    rejected: tuple[Rejected, ...]


def within(group: str, roots: Iterable[str]) -> bool:
    """Whether a group is one of the roots or below one. The tree's own root is below none."""
    return any(group == root or group.startswith(root + "/") for root in roots if root) and group != ""


def settle(verdicts: Sequence[tuple[str, Verdict]], roots: Sequence[str], supported: frozenset[Knob]) -> Plan:
    """Settle the wishes of these policies, which stand in the roster's order."""
    wishes: dict[Target, list[tuple[Rank, int, str, SetKnob]]] = {}
    rejected: list[Rejected] = []
    ours: dict[str, bool] = {}  # by group; most have several wishes
    for order, (policy, verdict) in enumerate(verdicts):
        for wish in verdict.knobs:
            target = wish.target
            if target.group not in ours:
                ours[target.group] = within(target.group, roots)
            rank = restriction(target.knob, wish.value)
            why = (
                Unfit.OUTSIDE
                if target.knob.scope is Scope.CGROUP and not ours[target.group]
                else Unfit.LACKING
                if target.knob not in supported
                else Unfit.MALFORMED
                if rank is None
                else None
            )
            if why is not None or rank is None:
                rejected.append(Rejected(wish, policy, why or Unfit.MALFORMED))
            else:
                wishes.setdefault(target, []).append((rank, order, policy, wish))
    wanted: dict[Target, Wanted] = {}
    for target in sorted(wishes, key=_place):
        if target.knob is Knob.CPU_WEIGHT and _idles(wishes.get(Target(target.group, Knob.CPU_IDLE))):
            rejected += [Rejected(wish, policy, Unfit.PINNED) for _, _, policy, wish in wishes[target]]
        else:
            wanted[target] = _winner(wishes[target])
    rejected.sort(key=lambda entry: (_place(entry.wish.target), entry.policy, entry.wish.value))
    return Plan(wanted, tuple(rejected))


def _winner(wishes: list[tuple[Rank, int, str, SetKnob]]) -> Wanted:
    if len(wishes) == 1:
        return Wanted(wishes[0][3], wishes[0][2])
    # One policy that wants two values of a knob is a conflict like any other; the text decides what rank and roster do not.
    wishes.sort(key=lambda entry: (entry[0], entry[1], entry[3].value, entry[3].lasts_us))
    rank, _, policy, best = wishes[0]
    others = wishes[1:]
    return Wanted(
        best,
        policy,
        lost=tuple((other, wish.value) for _, _, other, wish in others if wish.value != best.value),
        agreed=tuple(other for _, _, other, wish in others if wish.value == best.value and other != policy),
        tied=any(at == rank and wish.value != best.value for at, _, _, wish in others),
    )


def _idles(wishes: list[tuple[Rank, int, str, SetKnob]] | None) -> bool:
    return wishes is not None and any(wish.value == "1" for _, _, _, wish in wishes)


def _place(target: Target) -> tuple[str, str]:
    return target.group, target.knob
