"""PoolLendings as they are stored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.pool_lending import PoolLendingObject, lending_fields, read_pool_lending
from cotenant.model.autonomy.pool_lending import (
    LendingDay,
    LendingOutcome,
    LendingReceipt,
    LendingStatus,
    LendingSuggestion,
    PoolLending,
)
from cotenant.model.errors import InvalidInput

STATUS = LendingStatus(
    "lent",
    "m",
    "earned",
    "act",
    LendingSuggestion("a-1", "rules", 2, 4000, 1024),
    (LendingReceipt("2026-11-28", LendingOutcome.HELD, LendingDay(20_785, 48, 1, 48, 5, 6, "x"), "act", "ada", "w"),),
    (LendingDay(20_786, 3),),
    2,
    "taken back",
)


def read(spec: Any, status: Any = None) -> PoolLending:
    body = {"metadata": {"name": "cluster", "uid": "u"}, "spec": spec, "status": status}
    return read_pool_lending(msgspec.convert(body, PoolLendingObject))


def test_a_status_is_read_as_it_was_written() -> None:
    fields = lending_fields(STATUS)
    assert fields["suggestion"] == {"id": "a-1", "rules": "rules", "nodes": 2, "cpuM": 4000, "memoryMib": 1024}
    stored = msgspec.json.decode(msgspec.json.encode(fields))
    assert read({}, stored).status == STATUS


def test_what_people_write() -> None:
    found = read({"approved": "a-1", "approvedBy": "ada", "undo": "2026-11-28"})
    assert (found.approved, found.approved_by, found.undo, found.wrong) == ("a-1", "ada", "2026-11-28", ())
    assert read(None) == PoolLending("cluster", "u")


@pytest.mark.parametrize(
    ("spec", "said"), [("text", "spec"), ({"approved": 5}, "spec.approved"), ({"undo": "x" * 300}, "spec.undo")]
)
def test_each_error_is_named(spec: Any, said: str) -> None:
    (wrong,) = read(spec).wrong
    assert said in wrong


@pytest.mark.parametrize("status", ["text", {"receipts": [{"id": 5}]}, {"open": [{"day": "soon"}]}])
def test_a_status_that_is_not_ours_is_refused(status: Any) -> None:
    with pytest.raises(InvalidInput, match="status of a PoolLending"):
        read({}, status)
