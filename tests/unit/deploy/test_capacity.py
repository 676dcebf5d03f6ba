"""What the chart requests is what was measured: the guide's table, made by `python -m bench.capacity`, against the
chart's values.
"""

from __future__ import annotations

import re

import pytest
import yaml
from tests.unit.deploy.objects import DEPLOY

GUIDE = DEPLOY.parent / "docs/guide"
VALUES = yaml.safe_load((DEPLOY / "chart/values.yaml").read_text())
ROW = re.compile(r"^\| (scheduler|manager|rebalancer|webhook|extender|console|credit|traces) \|(.*)\|$", re.MULTILINE)
UNITS = {"Mi": 1.0, "Gi": 1024.0}


def peaks(page: str) -> dict[str, list[int]]:
    """The peaks of memory in a page's table, MiB, by part; the smaller cluster first."""
    text = (GUIDE / page).read_text()
    rows = [(part, re.findall(r"(\d+) MiB", cells)) for part, cells in ROW.findall(text)]
    return {part: [int(entry) for entry in found] for part, found in rows if found}  # rows of other tables have none


def mib(amount: str) -> float:
    return float(amount[:-2]) * UNITS[amount[-2:]]


def test_both_languages_have_the_same_table() -> None:
    assert peaks("deploy.md") == peaks("deploy.zh-CN.md")
    assert len(peaks("deploy.md")) == 8


@pytest.mark.parametrize("part", peaks("deploy.md"))
def test_a_part_requests_what_it_needs_at_the_largest_size_that_was_measured(part: str) -> None:
    resources = VALUES[part]["resources"]
    assert mib(resources["requests"]["memory"]) >= max(peaks("deploy.md")[part])
    assert mib(resources["limits"]["memory"]) >= 2 * max(peaks("deploy.md")[part])
