"""Runs the policies: each at its own period, each with its own memory, and a failure of one does not affect the others.

A policy that raises, or that decides every ten seconds, must leave the verdicts of all others in force, and its own
must neither vanish at the first failure nor stay for ever. The last verdict of each policy blocked in force until it
decides again; one that fails keeps its last verdict for one lease and then wants nothing; after three failures in a row
it restarts without memory.
Limits: the run time of a policy is measured by the process, not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from traceback import extract_tb
from typing import Any

from cotenant.engine.node.instructions import AgentCounts, PolicyFailure
from cotenant.engine.node.policies import NodePolicy
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.knob import KnobTarget
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import PolicyVerdict

_FAILURES = 3  # in a row, before the memory is dropped
_EMPTY = PolicyVerdict(reasons=())


@dataclass(slots=True)
class _Running:
    """A policy with its memory and last verdict."""

    policy: NodePolicy
    memory: Any
    verdict: PolicyVerdict = _EMPTY
    decided_us: int | None = None
    failed: int = 0  # in a row
    failed_since_us: int = 0
    failure: str = ""
    where: str = ""  # the line that raised it
    reads_failure: str = ""


@dataclass(frozen=True, slots=True)
class PolicyResults:
    """The results of one run."""

    fresh: frozenset[str]  # policies that decided now
    changed: tuple[
        tuple[str, tuple[Reason, ...]], ...
    ]  # reasons that are new; by rule, or by text where `log_every_text`
    failed: tuple[tuple[str, str], ...]  # policies that failed for the first time or with another error, and the error
    failing: tuple[PolicyFailure, ...]


class PolicyRunner:
    """All policies, in their order."""

    def __init__(self, policies: Sequence[NodePolicy], period_us: int, lease_us: int, counts: AgentCounts) -> None:
        names = [policy.name for policy in policies]
        if len(set(names)) < len(names):
            raise InvalidInput("policies", ", ".join(names), "each name once")
        self._running = tuple(_Running(policy, policy.memory) for policy in policies)
        self._period_us = period_us
        self._lease_us = lease_us
        self._counts = counts

    def verdicts(self) -> tuple[tuple[str, PolicyVerdict], ...]:
        """The verdict in force of each policy, in order."""
        return tuple((running.policy.name, running.verdict) for running in self._running)

    def policy(self, name: str) -> NodePolicy | None:
        """The policy of this name."""
        return next((running.policy for running in self._running if running.policy.name == name), None)

    def memory(self, name: str) -> Any:
        """The memory of the policy of this name; None where it is not enabled."""
        return next((running.memory for running in self._running if running.policy.name == name), None)

    def failures(self) -> tuple[PolicyFailure, ...]:
        """The policies that failed when they last ran, in order."""
        return tuple(
            PolicyFailure(running.policy.name, running.failure or running.reads_failure, running.where)
            for running in self._running
            if running.failure or running.reads_failure
        )

    def reads(self, outline: NodeState) -> set[KnobTarget]:
        """The knobs that policies read. A policy that fails to say so reads none."""
        found: set[KnobTarget] = set()
        for running in self._running:
            try:
                found.update(running.policy.reads(outline))
                running.reads_failure = ""
            except Exception as error:  # as in `_run_policy`
                self._counts.policy_failures += 1
                running.reads_failure, running.where = _described(error), _place(error)
        return found

    def run(self, state: NodeState, now_us: int, urgent_only: bool = False) -> PolicyResults:
        """Run the policies that are due, or only the urgent ones."""
        fresh: list[str] = []
        changed: list[tuple[str, tuple[Reason, ...]]] = []
        failed: list[tuple[str, str]] = []
        for running in self._running:
            if not (running.policy.urgent if urgent_only else self._due(running, now_us)):
                continue
            before, failure = _marks(running), running.failure
            if self._run_policy(running, state, now_us):
                fresh.append(running.policy.name)
                new_reasons = tuple(
                    r for r, mark in zip(running.verdict.reasons, _marks(running)) if mark not in before
                )
                if new_reasons:
                    changed.append((running.policy.name, new_reasons))
            elif running.failure != failure:
                failed.append((running.policy.name, running.failure))
        return PolicyResults(frozenset(fresh), tuple(changed), tuple(failed), self.failures())

    def _due(self, running: _Running, now_us: int) -> bool:
        # Half a period early rather than a whole one late: ticks are not exact.
        return (
            running.decided_us is None or now_us - running.decided_us >= running.policy.every_us - self._period_us // 2
        )

    def _run_policy(self, running: _Running, state: NodeState, now_us: int) -> bool:
        running.decided_us = now_us
        try:
            verdict, memory = running.policy.decide(state, running.policy.config, running.memory)
        except Exception as error:  # contained: counted, reported, and the fallback applies
            self._fail(running, error, now_us)
            return False
        if verdict.evictions and not running.policy.may_evict:
            names = ", ".join(eviction.key for eviction in verdict.evictions)
            blocked = Reason(running.policy.name, f"{names} should leave, but this policy may not evict")
            verdict = PolicyVerdict((*verdict.reasons, blocked), verdict.knobs)
        running.verdict, running.memory, running.failed, running.failure = verdict, memory, 0, ""
        return True

    def _fail(self, running: _Running, error: Exception, now_us: int) -> None:
        self._counts.policy_failures += 1
        if running.failed == 0:
            running.failed_since_us = now_us
        running.failed += 1
        running.failure, running.where = _described(error), _place(error)
        if running.failed % _FAILURES == 0:
            running.memory = running.policy.memory
        if now_us - running.failed_since_us >= self._lease_us:
            running.verdict = PolicyVerdict(reasons=(Reason("failed", f"wants nothing: {running.failure}"),))
        # Evictions are done once; a verdict kept only because its policy failed must not repeat them.
        elif running.verdict.evictions:
            running.verdict = PolicyVerdict(running.verdict.reasons, running.verdict.knobs)

    def validate(self) -> None:
        """A policy with failures has a message. Raises `Permanent`."""
        for running in self._running:
            if (running.failed > 0) != bool(running.failure):
                raise Permanent(f"{running.policy.name} failed {running.failed} times in a row: {running.failure!r}")


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _place(error: Exception) -> str:
    frames = extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "?"


def _marks(running: _Running) -> list[tuple[str, str]]:
    """What identifies each reason for the log: a change of it is logged."""
    by_text = running.policy.log_every_text
    return [(reason.rule, reason.text if by_text else "") for reason in running.verdict.reasons]
