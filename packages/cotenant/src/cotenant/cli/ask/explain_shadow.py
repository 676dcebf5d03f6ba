"""Output of `cotenant explain shadow`: what a shadow has found, as tables in a hundred columns, or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from cotenant.cli import tables
from cotenant.cli.local_directory import default_directory
from cotenant.model.counted import counted
from cotenant.model.decisions.shadow import Difference, NodeSignal, ShadowNomination, ShadowOutcome, ShadowReport, Worse
from cotenant.services.clients import scheduler as asking

_OUTCOMES = {
    ShadowOutcome.AGREED: "on the node that we would have chosen",
    ShadowOutcome.EQUAL_SCORE: "on another node that is as good by our score",
    ShadowOutcome.OTHER_NODE: "on a node that is worse by our score, or that we refuse",
    ShadowOutcome.WOULD_WAIT: "placed, where we would wait",
    ShadowOutcome.WOULD_PREEMPT: "placed, where we would evict pods first",
}
_APART = {
    ShadowOutcome.BEFORE_JUDGED: "bound before it was judged",
    ShadowOutcome.NOT_JUDGEABLE: "placed, and we cannot judge it",
    ShadowOutcome.DELETED: "deleted before anyone placed it",
}
_CHOICES = {
    "places": "we would place",
    "waits": "we would let wait, too",
    "preempts": "we would evict pods for",
    "not_judged": "we cannot judge",
    "unseen": "not judged yet",
}
_NOMINATIONS: dict[str, str] = {
    ShadowNomination.SAME_NODE: "we would evict on the same node",
    ShadowNomination.OTHER_NODE: "we would evict on another node",
    ShadowNomination.WOULD_PLACE: "we would place without an eviction",
    ShadowNomination.WOULD_WAIT: "we would let wait",
    ShadowNomination.NOT_JUDGED: "we have not judged",
}
_SIGNALS = {
    NodeSignal.PRESSURE: "pressure (memory, disk, pids)",
    NodeSignal.NOT_READY: "node not ready",
    NodeSignal.EVICTIONS: "evictions by the kubelet",
    NodeSignal.REFUSED_STARTS: "starts refused by the kubelet",
    NodeSignal.CPU_USED: "CPU used, last report",
    NodeSignal.LATENCY_P99: "latency p99, last report",
    NodeSignal.VIOLATIONS: "violations, last report",
}


def shadow(scheduler: str, token_file: Path | None, last: int, as_json: bool) -> int:
    """Ask, and print."""
    show(asking.find(scheduler, token_file, default_directory()).shadow(last), as_json)
    return 0


def show(report: ShadowReport, as_json: bool) -> None:
    """Print a report."""
    if as_json:
        print(msgspec.json.encode(report).decode())
        return
    for_s = max(0.0, report.at_s - report.since_s)
    tables.print_folded(
        f"Beside {', '.join(report.of)}, by profile {report.profile}, on {counted(report.nodes, 'node')}, since "
        f"{_clock(report.since_s)} ({_lasting(for_s)})."
    )
    if report.extenders_left_out:
        count = report.extenders_left_out
        tables.print_folded(f"{counted(count, 'extender')} of the configuration: not asked.")
    _print_compared(report)
    _print_reasons(report)
    _print_pending(report)
    _print_nominations(report)
    _print_followed(report)
    _print_differences(report.differences)
    _print_cost(report, for_s)


def _print_compared(report: ShadowReport) -> None:
    counts = {outcome.what: outcome.pods for outcome in report.outcomes}
    if report.compared:
        tables.print_folded(
            f"{report.agreed:,} of {counted(report.compared, 'pod')} ({_percent(report.agreed, report.compared)}) "
            f"are where we would have put them; {report.at_bind:,} were compared with every earlier bind in the "
            "picture."
        )
    else:
        tables.print_folded("No bind has been compared yet.")
    print()
    rows = [
        (f"{counts.get(outcome, 0):,}", _percent(counts.get(outcome, 0), report.compared), words)
        for outcome, words in _OUTCOMES.items()
    ]
    rows += [(f"{counts.get(outcome, 0):,}", "", f"not compared: {words}") for outcome, words in _APART.items()]
    tables.print_words(("pods", "share", "outcome"), rows, right=("pods", "share"))


def _print_reasons(report: ShadowReport) -> None:
    if report.reasons:
        print()
        rows = [
            (f"{pods:,}", outcome.replace("_", " "), reason.replace("_", " "))
            for outcome, reason, pods in report.reasons
        ]
        tables.print_words(("pods", "what differs", "because of"), rows, right=("pods",))


def _print_pending(report: ShadowReport) -> None:
    waiting = [counted for counted in report.pending if counted.pods]
    if waiting:
        print()
        rows = [(f"{counted.pods:,}", _CHOICES.get(counted.what, counted.what)) for counted in waiting]
        tables.print_words(("pods", "without a node, that"), rows, right=("pods",))


def _print_nominations(report: ShadowReport) -> None:
    nominated = [counted for counted in report.nominations if counted.pods]
    if nominated:
        print()
        rows = [(f"{counted.pods:,}", _NOMINATIONS.get(counted.what, counted.what)) for counted in nominated]
        tables.print_words(("pods", "nominated by theirs, evicting others, where"), rows, right=("pods",))


def _print_followed(report: ShadowReport) -> None:
    print()
    minutes = report.window_s / 60.0
    if not report.followed:
        tables.print_folded(
            f"What came of both nodes: {counted(report.waiting_to_follow, 'pod is', 'pods are')} followed, each "
            f"for {minutes:g} minutes; none is done."
        )
        return
    counts = {(signal, worse): pods for signal, worse, pods in report.followed}
    rows = [(words, *(f"{counts.get((signal, worse), 0):,}" for worse in Worse)) for signal, words in _SIGNALS.items()]
    headings = (f"within {minutes:g} minutes", "worse on theirs", "on ours", "alike", "on neither", "not known")
    tables.print_words(headings, rows, right=headings[1:])
    tables.print_folded(
        "Both nodes as they were: the pod ran on theirs, and nobody knows what it would have done to ours."
    )


def _print_differences(differences: Sequence[Difference]) -> None:
    if differences:
        print()
        rows = [
            (_clock(one.at_s), one.pod, one.real, one.ours or "–", one.words or one.reason or one.outcome.value)
            for one in differences
        ]
        tables.print_words(("at", "pod", "theirs", "ours", "why"), rows)


def _print_cost(report: ShadowReport, for_s: float) -> None:
    print()
    used = report.judging_cpu_s / for_s * 100.0 if for_s else 0.0
    mean = f", {report.judging_cpu_s / report.judged * 1000.0:.2g} ms each" if report.judged else ""
    words = f"{report.judged:,} judgements{mean}: {used:.2g} % of a core, of {report.share * 100:g} % allowed"
    if report.put_off:
        words += f"; {counted(report.put_off, 'bind')} came when there was none left"
    if report.forgotten:
        words += f"; {counted(report.forgotten, 'pod was', 'pods were')} more than are remembered"
    tables.print_folded(f"{words}. Nothing was written.")


def _percent(part: int, whole: int) -> str:
    return f"{part / whole * 100.0:.1f} %" if whole else "–"


def _lasting(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%SZ")
