"""What the movers suggest and did, as the manager, the rebalancer and agents write it: RightSizings, pools that lend,
moves that wait, Autonomy objects, and stories of recovery.
"""

from __future__ import annotations

from typing import Any

from tests.fakes.processes.console_objects import move

from cotenant.drivers.kube.kinds.custom.pool_lending import lending_fields
from cotenant.drivers.kube.kinds.custom.right_sizing import status_fields
from cotenant.model.autonomy.pool_lending import (
    LendingDay,
    LendingOutcome,
    LendingReceipt,
    LendingStatus,
    LendingSuggestion,
)
from cotenant.model.groups.migration import JobPhase
from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.right_sizing import SizingOutcome, SizingReceipt, SizingStatus, Suggestion

WIDE, RIGHT = ContainerSize(3_000, 4_000, 4 << 30, 4 << 30), ContainerSize(1_150, 4_000, 1 << 30, 1 << 30)
SUGGESTED, APPLIED = "abcdef12", "12345678"


def lending_pool(name: str, by: str = "ada") -> dict[str, Any]:
    """A PoolLending that lends, with a day that held and one that did not."""
    day = LendingDay(20_453, 48, 1, 48, 48 * 40_000, 48 * 65_536)
    status = LendingStatus(
        "lent",
        f"lendMode earned: climbed to approve; allowed by {by}",
        "earned",
        "approve",
        LendingSuggestion("0a1b2c3d-1", "cpu by peak at 1 % risk", 2, 80_000, 131_072),
        (
            LendingReceipt("2025-12-31", LendingOutcome.HELD, day, "approve", by, "1 of 48 node-hours exceeded"),
            LendingReceipt("2025-12-30", LendingOutcome.EXCEEDED, LendingDay(20_452, 48, 9), "suggest", "", "9 of 48"),
        ),
    )
    return {"metadata": {"name": name}, "spec": {}, "status": lending_fields(status)}


def waiting_pool(name: str) -> dict[str, Any]:
    """A PoolLending that waits for approval."""
    suggestion = LendingSuggestion("0a1b2c3d-2", "cpu by peak at 1 % risk", 2, 80_000, 131_072)
    status = LendingStatus("suggested", "waits for approval of 0a1b2c3d-2", "approve", "approve", suggestion)
    return {"metadata": {"name": name}, "spec": {}, "status": lending_fields(status)}


def right_sizing(name: str, mode: str = "approve", why: str = "Tue 14:00 set it", by: str = "ada") -> dict[str, Any]:
    """A RightSizing of namespace shop with a suggestion that waits, a change that stands, and two receipts."""
    receipts = tuple(
        SizingReceipt(id_, at, outcome, WIDE, RIGHT, reason, by, 3)
        for id_, at, outcome, reason in (
            (APPLIED, "2025-12-31T10:00:00Z", SizingOutcome.DONE, "proven"),
            ("00000000", "2025-12-30T10:00:00Z", SizingOutcome.UNDONE, why),
        )
    )
    status = SizingStatus(
        state="suggested",
        message="waits for approval",
        suggestion=Suggestion(SUGGESTED, RIGHT, ContainerSize(900, 4_000, 1 << 30, 1 << 30), (why,)),
        applied=Suggestion(APPLIED, WIDE, RIGHT, ("proven",)),
        receipts=receipts,
    )
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"workload": {"kind": "Deployment", "name": name}, "mode": mode},
        "status": status_fields(status),
    }


def waiting_move(name: str, pod: str, reason: str = "node-1 is overutilized") -> dict[str, Any]:
    """A PodMigrationJob that the rebalancer suggested and nobody allowed yet."""
    made = move(name, pod, JobPhase.PENDING, paused=True, suggested=True, reason=reason)
    made["metadata"]["uid"] = f"uid-{name}"
    return made


def autonomy(name: str, **spec: Any) -> dict[str, Any]:
    """An Autonomy."""
    return {"metadata": {"name": name}, "spec": spec}


def recovery_stories(victim: str, culprit: str) -> list[dict[str, Any]]:
    """As the trace process answers: one incident that is over, with an act that helped and one that was not judged."""
    proofs = [
        {"rung": rung, "culprit": culprit, "at_us": at_us, "before": {"level_ppm": 1_500_000}, "helped": helped}
        for rung, at_us, helped in (("cap", 50_000_000, True), ("evict", 80_000_000, None))
    ]
    incident = {"number": 1, "stage": "gone", "pod": victim, "proofs": proofs, "opened_us": 1, "ended_us": 90_000_000}
    return [{"node": "node-1", "atS": 1_767_225_600.0, "story": {"now_us": 100_000_000, "incidents": [incident]}}]
