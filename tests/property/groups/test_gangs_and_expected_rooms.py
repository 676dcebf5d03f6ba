"""Whole gangs beside GPUs that are being freed for a pod that waits, against brute force: a gang is placed exactly
where it fits without them, unless it is more important.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.unit.engine.rebalancer.test_kept_room import UNTIL, Field

from cotenant.model.cluster.observed import ExpectedRoom

MOST = 9  # priority of what is placed already, so nothing is preempted


class Case:
    """Nodes of whole GPUs, some held; `big` waits for room on the first, where pods that hold GPUs are about to
    leave.
    """

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.field = Field()
        self.gpus = {name: int(rng.integers(2, 5)) for name in "abc"[: int(rng.integers(1, 4))]}
        self.free: dict[str, int] = {}
        for name, gpus in self.gpus.items():
            self.field.node(name, 512_000, gpus=gpus)
            held = gpus - int(rng.integers(0, gpus)) if name == "a" else int(rng.integers(0, gpus + 1))
            for number in range(held):
                self.field.pod(f"{name}{number}", name, 100, 100, (number,), priority=MOST)
            self.free[name] = gpus - held
        held_on_a = self.gpus["a"] - self.free["a"]
        self.leaving = [f"u-a{number}" for number in range(held_on_a)][: int(rng.integers(1, held_on_a + 1))]
        self.need = self.free["a"] + len(self.leaving)
        self.priority = int(rng.choice([0, 5]))
        self.field.pod("big", "", 100, 100 * self.need, priority=self.priority)
        room = ExpectedRoom("a", UNTIL, tuple(self.leaving))
        self.field.see(replace(self.field.pods["u-big"], expected_room=room))

    def fits(self, asks: list[int], nodes: list[str]) -> bool:
        """Brute force: whether each of these numbers of whole GPUs finds a node."""
        for chosen in product(nodes, repeat=len(asks)):
            if all(
                sum(ask for ask, at in zip(asks, chosen, strict=True) if at == name) <= self.free[name]
                for name in nodes
            ):
                return True
        return False


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(80))
def test_a_gang_takes_what_is_freed_for_a_pod_only_if_it_is_more_important(seed: int) -> None:
    case = Case(seed)
    field, rng = case.field, case.rng
    elsewhere = [name for name in case.gpus if name != "a"]
    bound = field.step()
    if case.fits([case.need], elsewhere):
        assert bound.keys() == {"big"}
        return
    assert not bound
    size, ask = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    asks = [ask] * size
    if rng.random() < 0.3:
        asks[-1] = 0  # a member without devices
    priority = int(rng.choice([0, 5, 7]))
    for number, gpus in enumerate(asks):
        field.pod(f"g{number}", "", 100, 100 * gpus, priority=priority, gang="g", size=size)
    open_nodes = elsewhere if case.priority >= priority else list(case.gpus)
    bound = field.step()
    if case.fits(asks, open_nodes):
        assert bound.keys() == {f"g{number}" for number in range(size)}
        assert set(bound.values()) <= set(open_nodes)
    else:
        assert not bound
    if case.priority < priority:
        return
    for uid in case.leaving:
        assert "big" not in bound
        field.gone(uid)
        bound = field.step()
        assert all(node != "a" for name, node in bound.items() if name != "big")
    assert bound.get("big") == "a"
