from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.right_sizing import (
    RightSizingObject,
    read_right_sizing,
    read_status,
    status_fields,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.right_sizing import (
    HourlyUse,
    RightSizing,
    SizeChange,
    SizingMode,
    SizingOutcome,
    SizingPhase,
    SizingReceipt,
    SizingStatus,
    Suggestion,
    Touched,
)

A, B = ContainerSize(3000, None, 1 << 30, 2 << 30), ContainerSize(1000, None, 1 << 29, 1 << 30)
FULL = SizingStatus(
    "changing",
    "a message",
    3,
    Suggestion("s", A, B, ("why",)),
    SizeChange(
        "s", SizingPhase.PROOF, 5.25, A, B, B, "ada", (Touched("u", "p", 2, 0.5, None),), 1, 1, "", SizingOutcome.DONE
    ),
    Suggestion("t", A, B),
    A,
    (SizingReceipt("t", "2026-01-01T00:00:00Z", SizingOutcome.UNDONE, A, B, "hurt", "mode act", 3),),
    HourlyUse(490_000, (5, -1, 7), (1, -1, 2), 9.5),
    17.0,
    (Touched("u", "p", 2),),
    99.5,
    ("x",),
)


def read(spec: Any, status: Any = None) -> RightSizing:
    obj = {"metadata": {"name": "web", "namespace": "ns", "uid": "u", "generation": 4}, "spec": spec, "status": status}
    return read_right_sizing(msgspec.json.decode(json.dumps(obj), type=RightSizingObject))


@pytest.mark.parametrize("status", [FULL, SizingStatus()])
def test_a_status_is_read_as_it_was_written(status: SizingStatus) -> None:
    written = json.loads(msgspec.json.encode(status_fields(status)))
    assert read_status(written) == status


def test_fields_of_a_status_are_named_as_the_api_names_fields() -> None:
    written: Any = status_fields(FULL)
    assert written["change"]["allowedBy"] == "ada"
    assert written["suggestion"]["after"] == {
        "cpuRequestM": 1000, "memoryRequestBytes": 1 << 29, "memoryLimitBytes": 1 << 30,
    }  # fmt: skip
    assert "cpuLimitM" not in written["suggestion"]["before"]


def test_usual_values() -> None:
    found = read({"workload": {"name": "web"}})
    assert (found.key, found.workload_kind, found.mode, found.risk) == (
        "ns/web",
        "Deployment",
        SizingMode.SUGGEST,
        0.01,
    )
    assert (found.min_history_s, found.proof_s, found.patience_s, found.wrong) == (86_400.0, 600.0, 600.0, ())


def test_all_values() -> None:
    spec = {
        "workload": {"kind": "StatefulSet", "name": "db"}, "mode": "approve", "objective": "fast", "riskPercent": 0.5,
        "minHistory": "7d", "proof": "30m", "patience": "1h", "approved": "abc", "approvedBy": "ada", "undo": "xyz",
    }  # fmt: skip
    found = read(spec)
    assert found.wrong == ()
    assert (found.mode, found.risk, found.min_history_s, found.proof_s) == (
        SizingMode.APPROVE,
        0.005,
        604_800.0,
        1800.0,
    )
    assert (found.approved, found.approved_by, found.undo, found.objective) == ("abc", "ada", "xyz", "fast")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"workload": {}}, "spec.workload.name"),
        ({"workload": {"kind": "CronJob", "name": "a"}}, "spec.workload.kind"),
        ({"mode": "on"}, "spec.mode"),
        ({"mode": False}, "spec.mode"),  # what YAML makes of off
        ({"riskPercent": 50}, "spec.riskPercent"),
        ({"riskPercent": True}, "spec.riskPercent"),
        ({"proof": "0s"}, "spec.proof"),
        ({"minHistory": 5}, "spec.minHistory"),
        ({"objective": "x" * 300}, "spec.objective"),
    ],
)
def test_each_error_is_named_and_nothing_is_done(changed: dict[str, Any], said: str) -> None:
    found = read({"workload": {"name": "web"}, **changed})
    assert len(found.wrong) == 1
    assert said in found.wrong[0]


def test_no_spec_is_named() -> None:
    assert read(None).wrong


@pytest.mark.parametrize("status", ["text", {"change": {"phase": "soon"}}, {"receipts": [{"id": 5}]}])
def test_a_status_that_is_not_ours_is_refused(status: Any) -> None:
    with pytest.raises(InvalidInput, match="status of a RightSizing"):
        read({"workload": {"name": "web"}}, status)
