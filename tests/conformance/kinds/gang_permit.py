"""Kinds of gangs: whether a pod may be bound, and whether it may enter the queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cotenant.model.groups.gang import GangSpec, MatchPolicy, Mode
from cotenant.policy.placement.gangs.permit import Tally, permit, pre_enqueue

Compared = Iterator[tuple[str, Any, Any]]

WAIT_S = 10.0  # of every gang in these cases


def spec(given: Mapping[str, Any]) -> GangSpec:
    policy = given.get("match_policy")
    return GangSpec(
        given["id"],
        given["min"],
        given.get("total", given["min"]),
        Mode(given.get("mode", "Strict")),
        MatchPolicy(policy) if policy else MatchPolicy.ONCE_SATISFIED,
        WAIT_S,
        tuple(given.get("group") or ()),
    )


def permitted(case: Any) -> Compared:
    own = case.given["pod"]["gang"]
    if own is None:
        yield "status", case.expect["status"], "not-a-gang"
        yield "wait_seconds", case.expect["wait_seconds"], 0
        return
    gangs = {gang["id"]: gang for gang in case.given["gangs"]}

    def tally(key: str) -> Tally:
        gang = gangs.get(key)
        if gang is None:
            return Tally(key, None)
        waiting = [pod for pod in (*case.given["waiting_pods"], case.given["pod"]) if pod["gang"] == key]
        bound = [pod for pod in case.given["bound_pods"] if pod["gang"] == key]
        return Tally(key, spec(gang), len(waiting), len(bound), satisfied=gang["once_satisfied"])

    together = (spec(gangs[own]).groups if own in gangs else ()) or (own,)
    answer = permit(tally(own), map(tally, together))
    yield "status", case.expect["status"], "allow" if answer.allowed else "wait"
    if "wait_seconds" in case.expect:
        yield "wait_seconds", case.expect["wait_seconds"], answer.wait_s


def entered(case: Any) -> Compared:
    given = case.given["gang"]
    if given is None:
        tally = Tally(case.given["pod"]["gang"], None)
    else:
        members = len(case.given["earlier_members"]) + 1
        tally = Tally(given["id"], spec(given), members=members, satisfied=given["once_satisfied"])
    yield "result", case.expect["result"], pre_enqueue((tally,))[0].value


KINDS = {"permit": permitted, "pre_enqueue": entered}
