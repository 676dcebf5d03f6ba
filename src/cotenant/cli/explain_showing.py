"""What `cotenant explain` prints: an answer told for a person in a hundred columns, or for a script."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cotenant.cli import tables
from cotenant.cli.up import default_directory
from cotenant.model.decisions.answers import NodeVerdict, PodAnswer, Preempted, Waiting, WhatIf
from cotenant.model.decisions.record import Candidate, DecisionRecord
from cotenant.model.errors import InvalidInput
from cotenant.services.scheduler.explain import client as asking

if TYPE_CHECKING:
    from cotenant.services.scheduler.explain.stored import Left

_STORY = 6  # lines


def pod(
    name: str,
    what_if: Sequence[str],
    scheduler: str,
    token_file: Path | None,
    kubeconfig: Path | None,
    context: str,
    as_json: bool,
) -> int:
    """Why a pod is where it is."""
    namespace, short = _named(name)
    WhatIf.parse(what_if)  # bad input is said before anybody is asked
    if kubeconfig is not None:
        if scheduler or what_if:
            field, value = ("--scheduler", scheduler) if scheduler else ("--if", ", ".join(what_if))
            raise InvalidInput(
                field, value, "not together with --kubeconfig", "what was written cannot be asked anything"
            )
        from cotenant.services.scheduler.explain.stored import left_behind

        left = left_behind(kubeconfig, context, namespace, short)
        if as_json:
            print(json.dumps(left.plain()))
        else:
            _print_left(left)
        return 0
    asked = asking.find(scheduler, token_file, default_directory())
    answer = asked.pod(namespace, short, what_if)
    if as_json:
        print(msgspec.json.encode(answer).decode())
    else:
        _print_answer(answer)
    return 0


def quota(name: str, scheduler: str, token_file: Path | None, as_json: bool) -> int:
    """What a quota may use."""
    return _of_plugin(f"/debug/explain/quotas/{asking.quoted(name)}", scheduler, token_file, as_json)


def gang(name: str, scheduler: str, token_file: Path | None, as_json: bool) -> int:
    """How a gang stands."""
    namespace, short = _named(name)
    path = f"/debug/explain/gangs/{asking.quoted(namespace)}/{asking.quoted(short)}"
    return _of_plugin(path, scheduler, token_file, as_json)


def _of_plugin(path: str, scheduler: str, token_file: Path | None, as_json: bool) -> int:
    asked = asking.find(scheduler, token_file, default_directory())
    told = asked.concern(path)
    if as_json:
        print(msgspec.json.encode(told).decode())
        return 0
    tables.print_folded(f"{told.kind} {told.name}: {told.words}")
    for line in told.lines:
        tables.print_folded(f"  {line}")
    return 0


def _named(name: str) -> tuple[str, str]:
    namespace, slash, short = name.partition("/")
    if not slash:
        namespace, short = "default", name
    if not namespace or not short or "/" in short:
        raise InvalidInput("name", name, "NAMESPACE/NAME")
    return namespace, short


# ---- a pod


def _print_answer(answer: PodAnswer) -> None:
    tables.print_folded(f"{answer.pod}: {answer.headline}")
    amounts = ", ".join(f"{amount} {name}" for name, amount in answer.requests) or "nothing"
    tables.print_folded(f"It asks for {amounts}; priority {answer.priority}; state {answer.state}.")
    if not answer.leads:
        tables.print_folded(
            "The scheduler that answers does not lead: it decides nothing now, and remembers no decisions of the one that does."
        )
    if answer.waiting is not None:
        _print_waiting(answer.waiting)
    for each in answer.concerns:
        print()
        tables.print_folded(f"{each.kind} {each.name}: {each.words}")
        for line in each.lines:
            tables.print_folded(f"  {line}")
    if answer.asked_about is not None:
        _print_about(answer.asked_about)
    if answer.record is not None:
        _print_record(answer.record)
    if answer.candidates:
        title = "nodes that would take it now" if not answer.node else "now, without the pod itself"
        _print_candidates(f"{title}, best first", answer.candidates, answer.node)
    _print_preemptions(answer.preemptions, answer.pod)
    _print_story(answer.story)


def _print_waiting(waiting: Waiting) -> None:
    if waiting.rejections:
        print()
        counted = sorted(waiting.rejections, key=lambda each: -each.nodes)
        rows = [(f"{each.nodes:,}", each.filter, each.reason) for each in counted]
        tables.print_words((f"of {waiting.nodes:,}", "refused by", "because"), rows, right=(f"of {waiting.nodes:,}",))
    if waiting.nearest:
        print()
        tables.print_folded(f"nearest: {'; '.join(waiting.nearest)}")
    if waiting.helps:
        print()
        print("what would help:")
        for each in waiting.helps:
            tables.print_folded(f"  - {each.words}")
    if waiting.preemption:
        print()
        tables.print_folded(f"evicting others: {waiting.preemption}")
    if waiting.retry is not None:
        at = f", at {_clock(waiting.retry.at_s)} at the latest" if waiting.retry.at_s is not None else ""
        tables.print_folded(f"tried again: {waiting.retry.words}{at} (it is {waiting.retry.standing})")


def _print_about(verdict: NodeVerdict) -> None:
    print()
    if verdict.refusals:
        print(f"{verdict.node} does not take it:")
        rows = [(each.plugin, each.reason, each.missing) for each in verdict.refusals]
        tables.print_words(("refused by", "because", "lacking"), rows)
    else:
        tables.print_folded(f"{verdict.node} would take it, place {verdict.place} of {verdict.of}")
        if verdict.candidate is not None:
            _print_candidates("", (verdict.candidate,), "")


def _print_record(record: DecisionRecord) -> None:
    print()
    tables.print_folded(f"decided at {_clock(record.at_s)} by {record.policy}, {record.nodes:,} nodes looked at:")
    if record.gang:
        tables.print_folded(record.gang_words())
    if record.rejections:
        rows = [
            (f"{each.nodes:,}", each.filter, each.reason) for each in sorted(record.rejections, key=lambda r: -r.nodes)
        ]
        tables.print_words(("nodes", "refused by", "because"), rows, right=("nodes",))
    _print_candidates("", record.candidates, record.node or "")


def _print_candidates(title: str, best: Sequence[Candidate], chosen: str) -> None:
    if title:
        print()
        print(f"{title}:")
    parts = list(dict.fromkeys(part.name for each in best for part in each.parts))
    rows = []
    for each in best:
        values = {part.name: part.value for part in each.parts}
        cells = [_digits(values[name]) if name in values else "–" for name in parts]
        rows.append((f"{each.node} (its own)" if each.node == chosen else each.node, _digits(each.score), *cells))
    tables.print_words(("node", "score", *parts), rows, right=("score", *parts))
    told = [each for each in best if each.parts]
    if len(told) > 1:
        tables.print_folded(_difference(told[0], told[1]))


def _difference(first: Candidate, second: Candidate) -> str:
    """What decides between the best two."""
    others = {part.name: part.value for part in second.parts}
    differences = sorted(
        ((part.value - others.get(part.name, 0.0), part.name) for part in first.parts), key=lambda each: -abs(each[0])
    )
    apart = fsum(value for value, _ in differences)
    if abs(apart) < 1e-9:
        return f"{first.node} and {second.node} have equal scores"
    named = ", ".join(f"{value:+.4g} {name}" for value, name in differences[:3] if abs(value) > 1e-12)
    return f"{first.node} is ahead of {second.node} by {apart:.4g}: {named}"


def _print_preemptions(preemptions: Iterable[Preempted], pod: str) -> None:
    for each in preemptions:
        print()
        victims = ", ".join(each.victims) or "nobody"
        if each.preemptor == pod:
            tables.print_folded(
                f"{_clock(each.at_s)}: evicted for it on {each.node}, by {each.rule}: {victims} ({each.words})"
            )
        elif each.preemptor:
            tables.print_folded(
                f"{_clock(each.at_s)}: it was evicted from {each.node} for {each.preemptor}, by {each.rule}"
            )
        else:
            tables.print_folded(f"{_clock(each.at_s)}: it was evicted, {each.rule}: {each.words}")


def _print_story(story: Sequence[tuple[float, str]]) -> None:
    if not story:
        return
    print()
    print("what happened to it:")
    if len(story) > _STORY:
        print(f"  ... {len(story) - _STORY} earlier")
    for at_s, words in story[-_STORY:]:
        print(f"  {_clock(at_s)}  {words}")


# ---- after the fact


def _print_left(left: Left) -> None:
    where = f"is on {left.node}" if left.node else "is on no node"
    tables.print_folded(
        f"{left.pod}: {where}, {left.phase or 'no phase'}; its scheduler is {left.scheduler or 'not named'}"
    )
    tables.print_folded("This is what was written when it was decided; a running scheduler would tell more.")
    if left.message:
        print()
        tables.print_folded(f"it waits: {left.message}")
    if left.promised and not left.node:
        tables.print_folded(f"it is promised {left.promised}")
    if left.decision is not None:
        decision = left.decision
        print()
        tables.print_folded(
            f"decided at {decision.at} by {decision.policy} after {decision.waited_seconds:g} s, {decision.nodes:,} nodes looked at"
        )
        if decision.rejected:
            rows = [(f"{nodes:,}", reason) for reason, nodes in sorted(decision.rejected.items(), key=lambda r: -r[1])]
            tables.print_words(("nodes", "refused because"), rows, right=("nodes",))
        scored = [(f"{left.node} (its own)", "–" if decision.score is None else _digits(decision.score))]
        scored += [(each.node, _digits(each.score)) for each in decision.next]
        tables.print_words(("node", "score"), scored, right=("score",))
    elif left.node:
        tables.print_folded(
            "no decision is written on it: another scheduler placed it, or its annotation was taken away"
        )
    if left.events:
        print()
        happened = [(when, f"{count}", reason, message) for when, count, reason, message in left.events]
        tables.print_words(("last", "times", "event", "message"), happened, right=("times",))


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%SZ")


def _digits(value: float) -> str:
    return f"{value + 0.0:.4g}"
