"""Every metric that a page names is exported under that name, and every one of zones is named.

The names are those of the declarations in the sources, with the suffixes that the exposition adds: a counter `x` is
exported as `x_total`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PREFIX = re.compile(r"(cotenant|scheduler|apiserver|leader_election)_[a-z0-9_]+")
NAMED = re.compile(r"(?<![\w/.\-])(?:cotenant|scheduler|apiserver)_[a-z0-9_]+(?![\w/(]|\.py)\*?")
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "deploy").rglob("*")) if path.suffix in (".md", ".yaml", ".json")),
]


def calls(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(name, kind) of each declaration: kind "counter", "histogram" or "gauge"."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            names = [
                expr.value
                for expr in node.args[:2]
                if isinstance(expr, ast.Constant) and isinstance(expr.value, str) and PREFIX.fullmatch(expr.value)
            ]
            if not names:
                continue
            words = [ast.unparse(node.func), *(ast.unparse(expr) for expr in node.args[:1])]
            words = [word.lower() for word in words if "'" not in word]
            kind = next((kind for kind in ("counter", "histogram") if any(kind in word for word in words)), "gauge")
            yield from ((name, kind) for name in names)
        elif isinstance(node, ast.Tuple):  # tables of gauges
            for elt in node.elts:
                if isinstance(elt, ast.Constant) and isinstance(elt.value, str) and PREFIX.fullmatch(elt.value):
                    yield elt.value, "gauge"


@cache
def exported() -> frozenset[str]:
    suffixes = {"counter": ("_total",), "histogram": ("", "_bucket", "_count", "_sum"), "gauge": ("",)}
    found: set[str] = set()
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        text = path.read_text()
        for name, kind in calls(ast.parse(text)) if PREFIX.search(text) else ():
            found |= {name.removesuffix("_total") + suffix for suffix in suffixes[kind]}
    return frozenset(found)


def named(text: str) -> set[str]:
    return {name for name in NAMED.findall(text) if name.count("_") >= 2}


def listed(text: str) -> set[str]:
    """The names in the tables of a page, where `_rest` continues a name before it in its row."""
    found: set[str] = set()
    for row in text.splitlines():
        stems: list[str] = []
        for name in re.findall(r"`([a-z0-9_]+)(?:\{[^`]*)?`", row) if row.startswith("| `") else ():
            if name.startswith("_"):
                found |= {stem + name for stem in stems}
                continue
            found.add(name)
            words = name.split("_")
            stems += ["_".join(words[:number]) for number in range(2, len(words))]
    return found


def exists(name: str) -> bool:
    return any(entry.startswith(name[:-1]) for entry in exported()) if name.endswith("*") else name in exported()


def test_the_sources_declare_what_a_page_of_metrics_has() -> None:
    assert {
        "cotenant_scheduler_oddities_total",
        "scheduler_pending_pods",
        "cotenant_extender_request_seconds_bucket",
        "cotenant_agent_ticks_total",
        "cotenant_pod_cpu_used_cores",
        "apiserver_request_total",
        "cotenant_http_requests_total",
    } <= exported()
    assert "cotenant_scheduler_oddities" not in exported()


@pytest.mark.parametrize("page", [p for p in PAGES if named(p.read_text())], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_metric_that_a_page_names_is_exported(page: Path) -> None:
    assert sorted(name for name in named(page.read_text()) if not exists(name)) == []


def test_a_row_may_continue_a_name() -> None:
    row = "| `cotenant_pod_load{pod,minutes}`, `_waits_total` | [waits](a.md#waits), with `probe: {stalls: true}` |"
    assert {"cotenant_pod_load", "cotenant_pod_waits_total"} <= listed(row)
    assert listed("`cotenant_pod_load` in a sentence") == set()


def test_the_page_of_metrics_has_every_one_of_zones() -> None:
    zones = {name for name in exported() if name.startswith("cotenant_zone_")}
    assert "cotenant_zone_vm_stolen_ratio" in zones
    assert sorted(zones - listed((ROOT / "docs/guide/metrics.md").read_text())) == []
