"""What `cotenant objective` prints.

A person asks first whether an objective holds, then why not. A line an objective; one objective has its burn rates,
alerts and replicas.
Limits: conditions that say nothing are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import yaml  # type: ignore[import-untyped]

from cotenant.cli import tables
from cotenant.cli.traces.asking import client
from cotenant.model.counted import counted
from cotenant.model.errors import InvalidInput
from cotenant.services.objectives.converting import Converted
from cotenant.services.objectives.converting import convert as converted
from cotenant.services.objectives.files import documents, text_of
from cotenant.services.traces.objective_board import ObjectiveView

NOT_ALL = 1


def objectives(url: str, token_file: Path | None, ca: Path | None, as_json: bool) -> int:
    """All of them."""
    found = client(url, token_file, ca).objectives()
    if as_json:
        return _json(found)
    if not found:
        print(
            "no objective is counted: make a ServiceObjective in the cluster that `cotenant traces` watches "
            "(--cluster, as in `cotenant up`), or start it with --objectives FILE"
        )
        return 0
    headings = ("objective", "service", "goal", "target", "window", "state", "budget left", "burn", "worst replica")
    rows = [
        (
            view.objective,
            view.service + (f" {view.operation}" if view.operation else ""),
            _goal(view),
            f"{view.target_percent:g} %",
            view.window,
            view.state,
            _percent(view.budget_left),
            _burn(view),
            "–" if view.worst_replica is None else view.worst_replica.pod,
        )
        for view in found
    ]
    tables.print_words(headings, rows, emphasised=("burning", "exhausted"), right=("target", "budget left", "burn"))
    return 0


def objective(name: str, url: str, token_file: Path | None, ca: Path | None, as_json: bool) -> int:
    """One of them. Raises `InvalidInput`."""
    namespace, slash, rest = name.partition("/")
    if not (namespace and slash and rest) or "/" in rest:
        raise InvalidInput("OBJECTIVE", name, "NAMESPACE/NAME")
    view = client(url, token_file, ca).objective(namespace, rest)
    if as_json:
        return _json(view)
    operation = f" {view.operation!r}" if view.operation else ""
    tables.print_line(f"{view.objective}: {view.state}", strong=True)
    tables.print_folded(
        f"{view.target_percent:g} % of the requests of {view.service}{operation} {_goal(view)}, over {view.window}; "
        f"nodes may {_may(view)}"
    )
    since = f"counted since {view.since}"
    if view.ratio is None:
        print(f"no request, {since}")
    else:
        print(
            f"{100 * view.ratio:.4f} % of {counted(view.requests, 'request')} good, budget left "
            f"{_percent(view.budget_left)}, {since}"
        )
    for condition in view.conditions:
        if condition.message:
            tables.print_folded(f"{condition.type} {condition.status} ({condition.reason}): {condition.message}")
    if view.last_action is not None:
        action = view.last_action
        tables.print_folded(
            f"last action {action.time}: {action.action} on {action.node} for {action.pod}: {action.text}"
        )
    print()
    tables.print_words(
        ("window", "burn rate"),
        [(name, _number(burn)) for name, burn in view.burn.items()],
        right=("window", "burn rate"),
    )
    print()
    tables.print_words(
        ("alert", "windows", "factor", "burn", "short burn", ""),
        [
            (
                alert.label or f"{alert.severity} (off)",
                f"{alert.long} and {alert.short}",
                f"{alert.factor:.2f}",
                _number(alert.long_burn),
                _number(alert.short_burn),
                "fires" if alert.firing else "" if alert.enough else "too few requests",
            )
            for alert in view.alerts
        ],
        emphasised=("fires",),
        right=("factor", "burn", "short burn"),
    )
    if view.replicas:
        print()
        tables.print_words(
            ("replica, last 9 s", "node", "requests", "bad", "burn", "p99 ms"),
            [
                (
                    row.pod,
                    row.node or "–",
                    str(row.requests),
                    str(row.bad),
                    _number(row.burn),
                    "–" if row.p99_ms is None else f"{row.p99_ms:.1f}",
                )
                for row in view.replicas
            ],
            right=("requests", "bad", "burn", "p99 ms"),
        )
    return 0


def convert(file: Path, as_json: bool) -> int:
    """The objectives of a file of another system. Raises `InvalidInput`."""
    found = converted(documents(text_of(file), str(file)))
    refused = [entry for entry in found if entry.manifest is None]
    if as_json:
        rows = [
            {"source": entry.source, "manifest": entry.manifest, "notes": entry.notes, "refused": entry.refused}
            for entry in found
        ]
        print(msgspec.json.format(msgspec.json.encode(rows)).decode())
    else:
        print("---\n".join(_document(entry) for entry in found if entry.manifest is not None), end="")
        for entry in refused:
            print(f"{entry.source} is not converted: {entry.refused}", file=sys.stderr)
    return NOT_ALL if refused else 0


def _document(entry: Converted) -> str:
    notes = "".join(f"# {' '.join(note.split())}\n" for note in (entry.source, *entry.notes))
    return notes + str(yaml.safe_dump(entry.manifest, sort_keys=False, allow_unicode=True))


def _goal(view: ObjectiveView) -> str:
    if view.indicator == "latency":
        return f"within {view.below_ms:g} ms"
    if view.indicator == "modelServer":
        limits = ", ".join(f"{measure} {limit_ms:g} ms" for measure, limit_ms in view.limits_ms.items())
        return f"{limits} ({view.counted_from}{f', {view.model}' if view.model else ''})"
    return "without error" if view.indicator == "errors" else "within its own objective"


def _may(view: ObjectiveView) -> str:
    words = {
        "observe": "do nothing",
        "cap": "cap best-effort work",
        "idle": "idle best-effort work",
        "evict": "evict best-effort work",
    }
    return words[view.max_action]


def _burn(view: ObjectiveView) -> str:
    return _number(next(iter(view.burn.values()), None))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"


def _json(page: object) -> int:
    print(msgspec.json.format(msgspec.json.encode(page)).decode())
    return 0
