"""`cotenant lab workloads`, `policies`, `metrics` and `formats`: what there is, in words."""

from __future__ import annotations

from dataclasses import asdict

from cotenant.cli import tables
from cotenant.lab import registry
from cotenant.lab.metrics import DERIVED, METRICS, OWNER_WORDS, Metric
from cotenant.lab.metrics_by_workload import variants
from cotenant.lab.workload_file import is_workload_file
from cotenant.model.errors import InvalidInput


def workloads(json: bool) -> int:
    """List the workloads."""
    known = registry.entries()
    if json:
        _print_object({"workloads": [asdict(entry) | {"module": entry.module} for entry in known]})
        return 0
    rows = []
    for entry in known:
        name = f"{entry.name}[:{entry.variants}]" if entry.variants else entry.name
        rows.append((name, entry.summary, "real traces" if entry.needs_traces else "nothing"))
    rows.append(("FILE.yaml", "your own: nodes, load, share of services ... of the co-located world", "nothing"))
    tables.print_words(("workload", "what it is", "needs"), rows)
    return 0


def policies(workload: str, json: bool) -> int:
    """List a workload's policies."""
    if is_workload_file(workload):
        raise InvalidInput("--workload", workload, "a workload's name", "a file's base says which")
    scenario = registry.scenario(workload)
    infos = scenario.policies()
    if json:
        default = list(scenario.default_policies)
        _print_object({"workload": workload, "default": default, "policies": [asdict(info) for info in infos]})
        return 0
    rows = [
        (("* " if info.name in scenario.default_policies else "  ") + info.name, info.role, info.summary)
        for info in infos
    ]
    tables.print_words(("  policy", "role", "what it does"), rows, emphasised=("ours",))
    tables.print_line("* compared when --policies is not given")
    return 0


def formats(json: bool) -> int:
    """List the trace formats."""
    from cotenant.lab import traces  # loads polars

    known = traces.formats()
    if json:
        _print_object({"formats": [asdict(info) for info in known]})
        return 0
    rows = [
        (
            info.name,
            f"{info.meaning}. Tables: {', '.join(info.tables)}. From: {info.provenance}. Licence: {info.licence}.",
        )
        for info in known
    ]
    tables.print_words(("format", "what it is"), rows)
    return 0


def metrics(markdown: bool, json: bool) -> int:
    """Define every figure."""
    if json:
        told = [asdict(metric) | {"workload": None} for metric in (*METRICS, *DERIVED)]
        told += [asdict(metric) | {"workload": workload} for workload, metric in variants()]
        _print_object({"metrics": told})
    elif markdown:
        print(_markdown())
    else:
        rows = [(metric.name, _unit(metric), _better(metric), _told(metric)) for metric in (*METRICS, *DERIVED)]
        rows += [(f"{m.name} ({workload})", _unit(m), _better(m), _told(m)) for workload, m in variants()]
        tables.print_words(("metric", "unit", "better", "definition, and whose property it is"), rows)
    return 0


def _markdown() -> str:
    lines = [
        "# Metrics",
        "",
        "Made by `cotenant lab metrics --markdown`. Fractions are 0..1 in JSON and Parquet and percent in tables.",
        "",
        "| metric | unit | better | whose | definition |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, metric in (
        *((metric.name, metric) for metric in (*METRICS, *DERIVED)),
        *((f"{metric.name} ({workload})", metric) for workload, metric in variants()),
    ):
        owner = OWNER_WORDS[metric.owner]
        lines.append(f"| `{name}` | {_unit(metric)} | {_better(metric)} | {owner} | {metric.definition} |")
    return "\n".join(lines)


def _unit(metric: Metric) -> str:
    return {"ratio": "times", "index": "index 0..1"}.get(metric.unit, metric.unit)


def _better(metric: Metric) -> str:
    return "–" if metric.better == "neither" else metric.better


def _told(metric: Metric) -> str:
    return f"{metric.definition} [{OWNER_WORDS[metric.owner]}]"


def _print_object(value: object) -> None:
    from cotenant.lab.storage import encode_object

    print(encode_object(value))
