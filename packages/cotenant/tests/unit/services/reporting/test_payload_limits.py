"""Numbers and times at the edge of what JSON can say."""

import json
from typing import Any

import pytest

from cotenant.engine.state.reports import NodeReports
from cotenant.model.errors import InvalidInput
from cotenant.services.reporting.payload import read

BASE: dict[str, Any] = {
    "node_name": "n",
    "cpu_allocatable": 4,
    "cpu_used": 1,
    "memory_allocatable": 100,
    "memory_used": 75,
    "timestamp": 5,
}


def test_a_missing_dominant_share_is_computed() -> None:
    assert read(json.dumps(BASE).encode()).dominant_share == 0.75
    assert read(json.dumps({**BASE, "dominant_share": None}).encode()).dominant_share == 0.75


def written(field: str, text: str) -> bytes:
    return json.dumps(BASE).replace(f'"{field}": {json.dumps(BASE[field])}', f'"{field}": {text}').encode()


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("cpu_used", "1e999"),
        ("memory_allocatable", "1e-999"),
        ("timestamp", "1e999"),
        ("timestamp", "true"),
        ("timestamp", '""'),
        ("node_name", "null"),
    ],
)
def test_nonsense_is_a_field_that_is_wrong(field: str, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(written(field, text))
    assert caught.value.field in (field, "report")


@pytest.mark.parametrize("text", ['"0001-01-01T00:00:00+14:00"', '"9999-12-31T23:59:59-14:00"'])
def test_a_time_far_off_is_the_stores_to_refuse(text: str) -> None:
    with pytest.raises(InvalidInput, match="clock"):
        NodeReports().accept(read(written("timestamp", text)), now_s=1.76e9)
