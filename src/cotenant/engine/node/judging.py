"""Asking the policies: each at its own pace, each with its own memory, and none may take the others down.

Problem: a policy that raises, or that judges every ten seconds, must leave the wishes of all others standing, and its own wishes must neither
vanish at the first failure nor stand for ever. Choice: the last verdict of each policy stands until it decides again; one that fails keeps its
last verdict for one lease and then wants nothing; after three failures in a row it starts over without memory. Limits: what a policy takes in
time is its process's to measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.policies import NodePolicy
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.knob import Target
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import Verdict

_FAILURES = 3  # in a row, before the memory is dropped
_WANTS_NOTHING = Verdict(reasons=())


@dataclass(slots=True)
class Judge:
    """A policy with what it remembers."""

    policy: NodePolicy
    memory: Any
    verdict: Verdict = _WANTS_NOTHING
    decided_us: int | None = None
    failed: int = 0  # in a row
    failed_since_us: int = 0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """What asking them came to."""

    fresh: frozenset[str]  # policies that decided now
    changed: tuple[
        tuple[str, tuple[Reason, ...]], ...
    ]  # reasons of rules that did not speak before; of some, of other words
    failed: tuple[tuple[str, str], ...]  # those that failed, where they did not before or in another way, and how


class Judges:
    """All policies, in the roster's order."""

    def __init__(self, policies: Sequence[NodePolicy], period_us: int, lease_us: int, counts: AgentCounts) -> None:
        names = [policy.name for policy in policies]
        if len(set(names)) < len(names):
            raise InvalidInput("policies", ", ".join(names), "each name once")
        self._judges = tuple(Judge(policy, policy.memory) for policy in policies)
        self._period_us = period_us
        self._lease_us = lease_us
        self._counts = counts

    def verdicts(self) -> tuple[tuple[str, Verdict], ...]:
        """The verdict of each that stands, in order."""
        return tuple((judge.policy.name, judge.verdict) for judge in self._judges)

    def policy(self, name: str) -> NodePolicy | None:
        """By its name."""
        return next((judge.policy for judge in self._judges if judge.policy.name == name), None)

    def reads(self, outline: NodeState) -> set[Target]:
        """The knobs that policies look at. One that cannot say so looks at none."""
        found: set[Target] = set()
        for judge in self._judges:
            try:
                found.update(judge.policy.reads(outline))
            except Exception:  # as in `_ask`
                self._counts.policy_failures += 1
        return found

    def judge(self, state: NodeState, now_us: int, urgent_only: bool = False) -> Judged:
        """Ask those that are due, or of all only the urgent ones."""
        fresh: list[str] = []
        changed: list[tuple[str, tuple[Reason, ...]]] = []
        failed: list[tuple[str, str]] = []
        for judge in self._judges:
            if not (judge.policy.urgent if urgent_only else self._due(judge, now_us)):
                continue
            before, failure = _marks(judge), judge.failure
            if self._ask(judge, state, now_us):
                fresh.append(judge.policy.name)
                news = tuple(r for r, mark in zip(judge.verdict.reasons, _marks(judge)) if mark not in before)
                if news:
                    changed.append((judge.policy.name, news))
            elif judge.failure != failure:
                failed.append((judge.policy.name, judge.failure))
        return Judged(frozenset(fresh), tuple(changed), tuple(failed))

    def _due(self, judge: Judge, now_us: int) -> bool:
        # Half a period early rather than a whole one late: ticks are not exact.
        return judge.decided_us is None or now_us - judge.decided_us >= judge.policy.every_us - self._period_us // 2

    def _ask(self, judge: Judge, state: NodeState, now_us: int) -> bool:
        judge.decided_us = now_us
        try:
            verdict, memory = judge.policy.decide(state, judge.policy.config, judge.memory)
        except Exception as error:  # a policy's failure is the policy's: counted, told, and its fallback stands
            self._fail(judge, error, now_us)
            return False
        if verdict.evictions and not judge.policy.may_evict:
            names = ", ".join(wish.key for wish in verdict.evictions)
            stays = Reason(judge.policy.name, f"{names} should leave, but this policy may not evict")
            verdict = Verdict((*verdict.reasons, stays), verdict.knobs)
        judge.verdict, judge.memory, judge.failed, judge.failure = verdict, memory, 0, ""
        return True

    def _fail(self, judge: Judge, error: Exception, now_us: int) -> None:
        self._counts.policy_failures += 1
        if judge.failed == 0:
            judge.failed_since_us = now_us
        judge.failed += 1
        judge.failure = f"{type(error).__name__}: {error}"[:200]
        if judge.failed % _FAILURES == 0:
            judge.memory = judge.policy.memory
        if now_us - judge.failed_since_us >= self._lease_us:
            judge.verdict = Verdict(reasons=(Reason("failed", f"wants nothing: {judge.failure}"),))
        # Evictions and orders are done once; a verdict that only stands because its policy failed repeats none.
        elif judge.verdict.evictions:
            judge.verdict = Verdict(judge.verdict.reasons, judge.verdict.knobs)

    def validate(self) -> None:
        """A policy with failures has a sentence about them. Raises `Permanent`."""
        for judge in self._judges:
            if (judge.failed > 0) != bool(judge.failure):
                raise Permanent(f"{judge.policy.name} failed {judge.failed} times in a row: {judge.failure!r}")


def _marks(judge: Judge) -> list[tuple[str, str]]:
    """What of the reasons is worth a line in the log when it changes."""
    words = judge.policy.every_word
    return [(reason.rule, reason.text if words else "") for reason in judge.verdict.reasons]
