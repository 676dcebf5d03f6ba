"""Output of `cotenant explain`: an answer as text in a hundred columns, or as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cotenant.cli import tables
from cotenant.cli.local_directory import default_directory
from cotenant.model.counted import counted
from cotenant.model.decisions.answers import NodeVerdict, PodAnswer, PreemptedPods, WaitExplanation, WhatIf
from cotenant.model.decisions.record import CandidateNode, DecisionRecord
from cotenant.model.errors import InvalidInput
from cotenant.services.clients import scheduler as asking
from cotenant.services.rebalancer.explaining import PodMove, known_moves

if TYPE_CHECKING:
    from cotenant.services.scheduler.stored_reasons import StoredReasons

_HISTORY_LINES = 6


def pod(
    name: str,
    what_if: Sequence[str],
    scheduler: str,
    token_file: Path | None,
    kubeconfig: Path | None,
    context: str,
    as_json: bool,
) -> int:
    """Why a pod waits, or is on its node."""
    namespace, short = _named(name)
    WhatIf.parse(what_if)  # reject bad input before any request
    if kubeconfig is not None:
        if scheduler or what_if:
            field, value = ("--scheduler", scheduler) if scheduler else ("--if", ", ".join(what_if))
            raise InvalidInput(
                field, value, "not together with --kubeconfig", "stored annotations cannot answer what-if questions"
            )
        from cotenant.services.scheduler.stored_reasons import stored_reasons

        try:
            left = stored_reasons(kubeconfig, context, namespace, short)
        except asking.PodNotKnown:
            if _moved_away(kubeconfig, context, namespace, short, as_json):
                return 0
            raise
        moves = known_moves(kubeconfig, context, namespace, short)
        if as_json:
            print(json.dumps({**left.plain(), "moves": msgspec.to_builtins(moves)}))
        else:
            _print_left(left)
            _print_moves(moves)
        return 0
    asked = asking.find(scheduler, token_file, default_directory())
    beside = _kubeconfig(scheduler)
    try:
        answer = asked.pod(namespace, short, what_if)
    except asking.PodNotKnown:
        if _moved_away(beside, context, namespace, short, as_json):
            return 0
        raise
    moves = known_moves(beside, context, namespace, short)
    if as_json:
        given = msgspec.to_builtins(answer)
        print(json.dumps({**given, "moves": msgspec.to_builtins(moves)} if moves else given))
    else:
        _print_answer(answer)
        _print_moves(moves)
    return 0


def _kubeconfig(scheduler: str) -> Path | None:
    """The file of the API server beside the scheduler that is asked: that of `cotenant up`, where no other is in
    use.
    """
    written = default_directory() / "kubeconfig"
    in_use = bool(scheduler or os.environ.get("KUBECONFIG"))
    return written if not in_use and written.is_file() else None


def _moved_away(kubeconfig: Path | None, context: str, namespace: str, name: str, as_json: bool) -> bool:
    """Say what moved a pod that no longer exists; whether anything did."""
    moves = known_moves(kubeconfig, context, namespace, name)
    if moves and as_json:
        print(json.dumps({"pod": f"{namespace}/{name}", "moves": msgspec.to_builtins(moves)}))
    elif moves:
        tables.print_folded(f"{namespace}/{name} no longer exists.")
        _print_moves(moves)
    return bool(moves)


def _print_moves(moves: Sequence[PodMove]) -> None:
    if not moves:
        return
    print()
    print("moves:")
    for move in moves:
        tables.print_folded(f"  {move.at}  {move.words}")
        if move.effect:
            tables.print_folded(f"    {move.effect}")


def quota(name: str, scheduler: str, token_file: Path | None, as_json: bool) -> int:
    """What a quota may use."""
    return _of_plugin(f"/debug/explain/quotas/{asking.quoted(name)}", scheduler, token_file, as_json)


def gang(name: str, scheduler: str, token_file: Path | None, as_json: bool) -> int:
    """The state of a gang."""
    namespace, short = _named(name)
    path = f"/debug/explain/gangs/{asking.quoted(namespace)}/{asking.quoted(short)}"
    return _of_plugin(path, scheduler, token_file, as_json)


def _of_plugin(path: str, scheduler: str, token_file: Path | None, as_json: bool) -> int:
    asked = asking.find(scheduler, token_file, default_directory())
    answer = asked.concern(path)
    if as_json:
        print(msgspec.json.encode(answer).decode())
        return 0
    tables.print_folded(f"{answer.kind} {answer.name}: {answer.words}")
    for line in answer.lines:
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
    if answer.uid:  # else it is gone, and only why is known
        amounts = ", ".join(f"{amount} {name}" for name, amount in answer.requests) or "nothing"
        tables.print_folded(f"It requests {amounts}; priority {answer.priority}; state {answer.state}.")
    if not answer.leads:
        why = f" ({answer.standing})" if answer.standing else ""
        tables.print_folded(f"The scheduler that answered makes no decisions now{why}, and has no record of another's.")
    for sentence in answer.unread:
        tables.print_folded(f"note: {sentence}")
    if answer.waiting is not None:
        _print_waiting(answer.waiting)
    for concern in answer.concerns:
        print()
        tables.print_folded(f"{concern.kind} {concern.name}: {concern.words}")
        for line in concern.lines:
            tables.print_folded(f"  {line}")
    if answer.asked_about is not None:
        _print_about(answer.asked_about)
    if answer.record is not None:
        _print_record(answer.record)
    if answer.candidates:
        title = "nodes that would take it now" if not answer.node else "now, without the pod itself"
        _print_candidates(f"{title}, best first", answer.candidates, answer.node)
    _print_preemptions(answer.preemptions, answer.pod)
    _print_history(answer.story)


def _print_waiting(waiting: WaitExplanation) -> None:
    if waiting.rejections:
        print()
        counted = sorted(waiting.rejections, key=lambda rejection: -rejection.nodes)
        rows = [(f"{rejection.nodes:,}", rejection.filter, rejection.reason) for rejection in counted]
        tables.print_words((f"of {waiting.nodes:,}", "refused by", "because"), rows, right=(f"of {waiting.nodes:,}",))
    if waiting.nearest:
        print()
        tables.print_folded(f"nearest: {'; '.join(waiting.nearest)}")
    if waiting.notes:
        print()
        for note in waiting.notes:
            tables.print_folded(f"note: {note}")
    if waiting.helps:
        print()
        print("what would help:")
        for entry in waiting.helps:
            tables.print_folded(f"  - {entry.words}")
    if waiting.preemption:
        print()
        tables.print_folded(f"preemption: {waiting.preemption}")
    if waiting.retry is not None:
        at = f", at {_clock(waiting.retry.at_s)} at the latest" if waiting.retry.at_s is not None else ""
        tables.print_folded(f"next attempt: {waiting.retry.words}{at} (state: {waiting.retry.standing})")


def _print_about(verdict: NodeVerdict) -> None:
    print()
    if verdict.refusals:
        print(f"{verdict.node} rejects it:")
        rows = [(refusal.plugin, refusal.reason, refusal.missing) for refusal in verdict.refusals]
        tables.print_words(("refused by", "because", "lacking"), rows)
    elif verdict.alone:
        tables.print_folded(f"no filter of {verdict.node} rejects it; what holds it back is not the node")
    else:
        tables.print_folded(f"{verdict.node} would take it, place {verdict.place} of {verdict.of}")
        if verdict.candidate is not None:
            _print_candidates("", (verdict.candidate,), "")


def _print_record(record: DecisionRecord) -> None:
    print()
    nodes = counted(record.nodes, "node")
    tables.print_folded(f"decided at {_clock(record.at_s)} by {record.policy}, {nodes} considered:")
    if record.gang:
        tables.print_folded(record.gang_words())
    if record.rejections:
        rows = [
            (f"{rejection.nodes:,}", rejection.filter, rejection.reason)
            for rejection in sorted(record.rejections, key=lambda r: -r.nodes)
        ]
        tables.print_words(("nodes", "refused by", "because"), rows, right=("nodes",))
    _print_candidates("", record.candidates, record.node or "")


def _print_candidates(title: str, best: Sequence[CandidateNode], chosen: str) -> None:
    if title:
        print()
        print(f"{title}:")
    parts = list(dict.fromkeys(part.name for candidate in best for part in candidate.parts))
    rows = []
    for candidate in best:
        values = {part.name: part.value for part in candidate.parts}
        cells = [_digits(values[name]) if name in values else "–" for name in parts]
        rows.append(
            (
                f"{candidate.node} (current)" if candidate.node == chosen else candidate.node,
                _digits(candidate.score),
                *cells,
            )
        )
    tables.print_words(("node", "score", *parts), rows, right=("score", *parts))
    scored = [candidate for candidate in best if candidate.parts]
    if len(scored) > 1:
        tables.print_folded(_difference(scored[0], scored[1]))


def _difference(first: CandidateNode, second: CandidateNode) -> str:
    """The score parts that decide between the best two."""
    others = {part.name: part.value for part in second.parts}
    differences = sorted(
        ((part.value - others.get(part.name, 0.0), part.name) for part in first.parts), key=lambda entry: -abs(entry[0])
    )
    apart = fsum(value for value, _ in differences)
    if abs(apart) < 1e-9:
        return f"{first.node} and {second.node} have equal scores"
    named = ", ".join(f"{value:+.4g} {name}" for value, name in differences[:3] if abs(value) > 1e-12)
    return f"{first.node} is ahead of {second.node} by {apart:.4g}: {named}"


def _print_preemptions(preemptions: Iterable[PreemptedPods], pod: str) -> None:
    for preemption in preemptions:
        print()
        victims = ", ".join(preemption.victims) or "none"
        if preemption.preemptor == pod:
            tables.print_folded(
                f"{_clock(preemption.at_s)}: evicted for it on {preemption.node}, by {preemption.rule}: {victims} "
                f"({preemption.words})"
            )
        elif preemption.preemptor:
            tables.print_folded(
                f"{_clock(preemption.at_s)}: it was evicted from {preemption.node} for {preemption.preemptor}, by "
                f"{preemption.rule}"
            )
        else:
            tables.print_folded(f"{_clock(preemption.at_s)}: it was evicted, {preemption.rule}: {preemption.words}")


def _print_history(story: Sequence[tuple[float, str]]) -> None:
    if not story:
        return
    print()
    print("history:")
    if len(story) > _HISTORY_LINES:
        print(f"  ... {len(story) - _HISTORY_LINES} earlier")
    for at_s, words in story[-_HISTORY_LINES:]:
        print(f"  {_clock(at_s)}  {words}")


# ---- after the fact


def _print_left(left: StoredReasons) -> None:
    where = f"is on {left.node}" if left.node else "is on no node"
    tables.print_folded(
        f"{left.pod}: {where}, {left.phase or 'no phase'}; its scheduler is {left.scheduler or 'not named'}"
    )
    tables.print_folded("From annotations and events written at decision time; a running scheduler has more details.")
    if left.message:
        print()
        tables.print_folded(f"it waits: {left.message}")
    for sentence in (*((left.refused,) if left.refused else ()), *left.changed):
        tables.print_folded(sentence)
    if left.promised and not left.node:
        tables.print_folded(f"nominated node: {left.promised}")
    if left.decision is not None:
        decision = left.decision
        print()
        tables.print_folded(
            f"decided at {decision.at} by {decision.policy} after {decision.waited_seconds:g} s, {decision.nodes:,} "
            "nodes considered"
        )
        if decision.rejected:
            rows = [(f"{nodes:,}", reason) for reason, nodes in sorted(decision.rejected.items(), key=lambda r: -r[1])]
            tables.print_words(("nodes", "refused because"), rows, right=("nodes",))
        scored = [(f"{left.node} (current)", "–" if decision.score is None else _digits(decision.score))]
        scored += [(choice.node, _digits(choice.score)) for choice in decision.next]
        tables.print_words(("node", "score"), scored, right=("score",))
    elif left.node:
        tables.print_folded("it has no decision annotation: another scheduler placed it, or the annotation was removed")
    if left.events:
        print()
        happened = [(when, f"{count}", reason, message) for when, count, reason, message in left.events]
        tables.print_words(("last", "times", "event", "message"), happened, right=("times",))


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%SZ")


def _digits(value: float) -> str:
    return f"{value + 0.0:.4g}"
