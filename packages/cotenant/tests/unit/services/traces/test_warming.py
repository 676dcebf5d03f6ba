"""The rehearsal before spans are accepted reaches what the first objective needs."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.engine.traces import replicas
from cotenant.services.traces.warming import warm


def test_requests_of_an_objective_are_counted_in_the_rehearsal(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, counted = replicas._add, []

    def add(rows: Any, *others: Any) -> None:
        counted.extend(rows.tolist())
        compiled(rows, *others)

    monkeypatch.setattr(replicas, "_add", add)
    warm(1_800_000_000.0)
    assert counted == [0]
