"""When the status of a cluster's objective is written: at once where its state, alerts, conditions or last action
changed, else every fifteen seconds while figures change.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from tests.fakes.servers.told_watches import ToldWatches, nobody

from cotenant.drivers.kube.kinds.custom.service_objective import SERVICE_OBJECTIVES
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.services.traces import cluster
from cotenant.services.traces.cluster import ClusterObjectives, WrittenStatus
from cotenant.services.traces.objective_board import ActionRow, AlertRow, ConditionRow, ObjectiveBoard, ObjectiveView

SPEC = {"service": "cart", "target": "99%", "indicator": {"latency": {"below": "20ms"}}}
ALERT = AlertRow("page", "page", "1h", "5m", 14.4, None, None, firing=False, enough=True)
VALID = ConditionRow("Valid", "True", "Valid", "", "2026-01-01T00:00:00Z")
ALERTING = ConditionRow("Alerting", "False", "Calm", "burn 1.0", "2026-01-01T00:00:00Z")


class Board(ObjectiveBoard):
    """Answers with views that are given."""

    def __init__(self, world: World) -> None:
        super().__init__(world.engine.objectives, lambda: world.now_s)
        self._world = world

    def view(self, tracked: Any, *, with_replicas: bool = False) -> ObjectiveView:
        """Its usual view, with what was changed."""
        view = super().view(tracked)
        given = {"alerts": [ALERT], "conditions": [VALID, ALERTING]} | self._world.changed
        return msgspec.structs.replace(view, **given)


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, **saved: Any) -> None:
        monkeypatch.setattr(cluster, "Watches", lambda client: ToldWatches())
        self.now_s = 1000.0
        self.engine = TraceEngine(0.0, cast(Any, None))
        self.changed: dict[str, Any] = {}
        self.board = Board(self)
        self.of = ClusterObjectives(nobody(), self.board, **saved)
        self.watches = cast(ToldWatches, self.of.watches)
        self.put: list[WrittenStatus] = []
        self.of.writer.put = lambda key, status: self.put.append(cast(WrittenStatus, status))  # type: ignore[method-assign]

    def seen(self, name: str = "fast", uid: str = "u", generation: int = 1, **spec: Any) -> None:
        meta = {"name": name, "namespace": "shop", "uid": uid, "generation": generation}
        self.watches.seen(SERVICE_OBJECTIVES, {"metadata": meta, "spec": {**SPEC, **spec}})

    def written(self, after_s: float = 0.0, **changed: Any) -> int:
        """How many statuses a look puts, so many seconds later."""
        self.now_s += after_s
        self.changed |= changed
        before = len(self.put)
        self.of.put_due()
        return len(self.put) - before


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_new_objective_has_a_status_at_once_and_what_does_not_change_is_not_written_again(world: World) -> None:
    world.seen()
    assert world.written() == 1
    assert (world.put[0].key, world.put[0].uid) == ("shop/fast", "u")
    assert world.put[0].fields["state"] == "noData"
    assert world.of.uid_of("shop/fast") == "u"
    assert [world.written(after_s) for after_s in (1.0, 15.0, 60.0)] == [0, 0, 0]


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "burning"},
        {"alerts": [msgspec.structs.replace(ALERT, firing=True)]},
        {"last_action": ActionRow("t", "n", "p", "cap", "text")},
        {"conditions": [msgspec.structs.replace(VALID, status="False"), ALERTING]},
        {"conditions": [msgspec.structs.replace(VALID, reason="Other"), ALERTING]},
        {"conditions": [msgspec.structs.replace(VALID, message="other"), ALERTING]},
        {"conditions": [VALID, msgspec.structs.replace(ALERTING, status="True")]},
        {"conditions": [VALID, msgspec.structs.replace(ALERTING, reason="Other")]},
    ],
)
def test_what_a_person_acts_on_is_written_at_once(world: World, changed: dict[str, Any]) -> None:
    world.seen()
    world.written()
    assert world.written(1.0, **changed) == 1
    assert world.written(1.0) == 0


def test_a_new_generation_is_answered_at_once(world: World) -> None:
    world.seen()
    world.written()
    world.seen(generation=2, target="99.9%")
    assert world.written(1.0) == 1
    assert world.put[-1].fields["observedGeneration"] == 2


@pytest.mark.parametrize(
    "changed", [{"requests": 7}, {"conditions": [VALID, msgspec.structs.replace(ALERTING, message="burn 2.0")]}]
)
def test_figures_are_written_every_fifteen_seconds(world: World, changed: dict[str, Any]) -> None:
    world.seen()
    world.written()
    assert world.written(14.0, **changed) == 0
    assert world.written(1.0) == 1
    assert world.written(15.0) == 0
    assert world.written(0.0, requests=99) == 1  # long after the last write
    assert world.written(0.0, requests=100) == 0
    assert world.written(-15.0) == 1  # a clock that was set back


def test_a_deleted_one_is_forgotten_and_one_made_anew_has_its_own_status(world: World) -> None:
    world.seen()
    world.written()
    world.watches.gone(SERVICE_OBJECTIVES, "shop/fast")
    assert (world.written(60.0), world.of.uid_of("shop/fast"), len(world.engine.objectives)) == (0, "", 0)
    world.seen(uid="v")
    assert world.written() == 1
    assert world.put[-1].uid == "v"
    world.seen(uid="w")  # deleted and made anew between two looks
    assert world.written() == 1
    assert (world.put[-1].uid, world.of.uid_of("shop/fast")) == ("w", "w")
