"""Room by load row by row, remembered by estimate, against a look at every node each time."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import pytest

from cotenant.engine.rules.load.rows import MAX_KEPT, LoadAsk, LoadRows
from cotenant.model.machine.node_metric import NO_USE, Use
from cotenant.policy.placement.load_aware.filtering import UNLIMITED, FilterThresholds
from cotenant.policy.placement.load_aware.scoring import score
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings, LoadShares
from cotenant.policy.placement.load_aware.standing import CLOSED, LoadSource, LoadStanding, Side
from cotenant.policy.placement.load_aware.usage import NodeLoad, UsageBasis, UsageView

SETTINGS = LoadAwareSettings(weights=(2, 1), dominant_weight=1)
ANYTHING = Use(UNLIMITED, UNLIMITED)


def side(room: Use, used: Use, filters_prod: bool = False, scores_prod: bool = False) -> Side:
    basis = UsageBasis.PRODUCTION if scores_prod else UsageBasis.LAST
    load = NodeLoad(used, NO_USE, 0, basis)
    return Side(FilterThresholds(LoadShares(), UsageView(production=filters_prod)), load, room, load)


def state(rng: np.random.Generator) -> LoadStanding:
    def room() -> Use:
        found = [int(rng.choice([int(rng.integers(-50, 400)), UNLIMITED], p=[0.8, 0.2])) for _ in range(2)]
        return Use(CLOSED, CLOSED) if rng.random() < 0.1 else Use(*found)

    def used() -> Use:
        return Use(int(rng.integers(0, 1000)), int(rng.integers(0, 1000)))

    filters_prod, scores_prod = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    usual, prod = side(room(), used()), side(room(), used(), filters_prod, scores_prod)
    closed, known, scored = bool(rng.random() < 0.1), bool(rng.random() < 0.8), bool(rng.random() < 0.8)
    size = Use(1000, int(rng.choice([0, 1000])))
    return LoadStanding(size, LoadSource.METRIC, 1.0, 5.0, closed, known, scored, usual, prod, inf)


@dataclass(slots=True)
class Row:
    """What one row is, by hand; `standing` None: no node."""

    standing: LoadStanding | None = None
    room: tuple[list[int], list[int]] = ([UNLIMITED] * 2, [UNLIMITED] * 2)
    total: tuple[list[int], list[int]] = ([0, 0], [0, 0])

    @classmethod
    def of(cls, standing: LoadStanding | None) -> Row:
        if standing is None:
            return cls(None, ([UNLIMITED] * 2, [UNLIMITED] * 2), ([0, 0], [0, 0]))
        sides = (standing.usual, standing.prod)
        return cls(standing, tuple(list(one.room) for one in sides), tuple(list(one.scored.total) for one in sides))  # type: ignore[arg-type]

    def place(self, ask: LoadAsk) -> None:
        for at in (0, 1):
            standing = self.standing
            only_prod = at == 1 and not ask.is_prod
            if (
                not (only_prod and standing is not None and standing.prod.rule.look.production)
                and self.room[at][0] != CLOSED
            ):
                for resource, amount in enumerate(ask.estimate):
                    if self.room[at][resource] != UNLIMITED:
                        self.room[at][resource] -= amount
            scores_prod = standing is not None and standing.prod.scored.basis is UsageBasis.PRODUCTION
            if standing is not None and standing.is_known and not (only_prod and scores_prod):
                for resource, amount in enumerate(ask.estimate):
                    self.total[at][resource] += amount


def check(rows: LoadRows, model: list[Row], ask: LoadAsk) -> None:
    cpu, memory = rows.masks(ask)
    scores, times = rows.scores(ask), rows.times(ask)
    for i, row in enumerate(model):
        closed = row.standing is not None and row.standing.is_closed
        room, total = row.room[ask.side], row.total[ask.side]
        assert bool(cpu[i]) is (closed or room[0] >= ask.estimate.cpu_m)
        assert bool(memory[i]) is (closed or room[1] >= ask.estimate.memory_bytes)
        if row.standing is None or not row.standing.is_scored:
            assert scores[i] == 0
        else:
            assert scores[i] == score(row.standing.size, Use(*total).plus(ask.estimate), SETTINGS)
        fits = [UNLIMITED if amount == 0 else left // amount for left, amount in zip(room, ask.estimate, strict=True)]
        refused = closed or any(left < 0 for left in room)
        assert times[i] == (0 if refused else max(0, min(fits)))


@pytest.mark.parametrize("seed", range(5))
def test_answers_follow_every_change(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, model = LoadRows(SETTINGS), [Row() for _ in range(30)]
    rows.grow(30)
    asks = [
        LoadAsk(Use(int(rng.choice([0, 30, 100])), int(rng.choice([0, 50]))), bool(rng.integers(2))) for _ in range(6)
    ]
    for step in range(250):
        i = int(rng.integers(len(model)))
        match int(rng.integers(10)):
            case 0 | 1:
                standing = None if rng.random() < 0.1 else state(rng)
                before = [list(one) for one in model[i].room]
                model[i] = Row.of(standing)
                rises = any(
                    now > then
                    for new, old in zip(model[i].room, before, strict=True)
                    for now, then in zip(new, old, strict=True)
                )
                assert rows.write(i, standing) is rises
            case 2 if step % 40 == 2:
                rows.grow(len(model) + 3)
                rows.grow(len(model))  # nothing shrinks
                model += [Row.of(None) for _ in range(3)]
            case 3 | 4 | 5:
                ask = asks[rng.integers(len(asks))]
                if model[i].standing is not None:
                    rows.place(i, ask)
                    model[i].place(ask)
            case _:
                check(rows, model, asks[rng.integers(len(asks))])
    assert rows.sources == [None if row.standing is None else LoadSource.METRIC for row in model]
    assert rows.updated_s == [-inf if row.standing is None else 5.0 for row in model]
    assert rows.closed.tolist() == [row.standing is not None and row.standing.is_closed for row in model]


def test_only_the_estimates_that_were_used_last_are_remembered() -> None:
    rows = LoadRows(SETTINGS)
    rows.grow(4)
    first = LoadAsk(Use(1, 1), False)
    rows.masks(first)
    for i in range(2, MAX_KEPT + 1):
        rows.masks(LoadAsk(Use(i, 1), False))
    kept = rows.masks(first)[0]
    rows.masks(LoadAsk(Use(999, 1), False))  # one more than is remembered: the oldest goes
    assert rows.masks(first)[0] is kept
    assert len(rows._kept) == MAX_KEPT
    for _ in range(3000):
        rows.place(0, first)
        rows.masks(first)
    assert len(rows._log) <= 4 * 4 + 1024
