"""Alerts and dashboards name metrics that exist, and alerts link to sections that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.deploy.objects import DEPLOY
from tests.unit.test_metric_names import exported

FILES = DEPLOY / "chart/files"
DOCS = DEPLOY.parent / "docs"
DASHBOARDS = sorted((FILES / "dashboards").glob("*.json"))
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.load((FILES / "alerts.yaml").read_text(), Loader=yaml.CSafeLoader)["groups"]
    for rule in group["rules"]
]
PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "process_max_fds"}
METRIC = re.compile(r"(?<![\w$\"=~{])([a-z]+_[a-z0-9_]+)(?=\s*(?:[{\[)<>=]|$|\s))")
WORDS = {"sum_over_time", "group_left", "group_right", "histogram_quantile", "label_values"}


def metrics(expression: str) -> set[str]:
    """The metrics of a PromQL expression: names outside quotes and label lists."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    bare = re.sub(r"\{[^}]*\}", "{}", bare)
    bare = re.sub(r"\b(by|on|without|group_left|group_right|ignoring)\s*\([^)]*\)", "", bare)
    return {name for name in METRIC.findall(bare) if name not in WORDS}


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def expressions(board: Any) -> list[str]:
    if isinstance(board, dict):
        own = [board["expr"]] if isinstance(board.get("expr"), str) else []
        return own + [expression for value in board.values() for expression in expressions(value)]
    return [expression for value in board for expression in expressions(value)] if isinstance(board, list) else []


def test_metrics_are_found_in_expressions() -> None:
    assert metrics('histogram_quantile(0.9, sum by (le) (rate(a_b_bucket{x="c_d"}[5m]))) > e_f') == {
        "a_b_bucket",
        "e_f",
    }
    assert metrics("a_b * on (instance) group_left () (c_d == 1)") == {"a_b", "c_d"}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda entry: entry["alert"])
def test_an_alert_names_metrics_that_exist_and_a_section_of_a_runbook(alert: dict[str, Any]) -> None:
    named = metrics(alert["expr"])
    assert named
    assert named <= exported() | PROCESS
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert anchor in anchors(DOCS.parent / page)
    assert alert["labels"]["severity"] in ("info", "warning", "critical")
    assert alert["annotations"]["summary"].endswith(".")


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_names_metrics_that_exist(path: Path) -> None:
    board = json.loads(path.read_text())
    named = {name for expression in expressions(board) for name in metrics(expression)}
    assert len(named) > 5
    assert named <= exported() | PROCESS
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    assert board["uid"] == f"cotenant-{path.stem}"


def test_there_is_a_dashboard_for_each_part_that_leads_or_acts() -> None:
    assert [path.stem for path in DASHBOARDS] == [
        "credit",
        "manager",
        "node",
        "objectives",
        "rebalancer",
        "scheduler",
    ]
