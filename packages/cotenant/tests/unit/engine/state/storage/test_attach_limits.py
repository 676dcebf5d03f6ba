"""Free places for volumes: after any events, and in any order, they are those that counting from the facts gives."""

from __future__ import annotations

from random import Random

import pytest

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.storage.attach_limits import AttachLimits
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import Attachment, NodeStorage
from cotenant.model.resources import Amounts

DRIVERS = ("one", "two")
VOLUMES = [Attachment(driver, f"v{i}") for driver in DRIVERS for i in range(4)]
NODES = 3


class Facts:
    """What is so, and the answer by counting."""

    def __init__(self) -> None:
        self.storage = {f"n{i}": NodeStorage(f"n{i}") for i in range(NODES)}
        self.pods: dict[int, tuple[tuple[Attachment, ...], int]] = {}

    def feasible(self, wanted: tuple[Attachment, ...]) -> list[bool]:
        return [all(self.fits(wanted, driver, row) for driver in DRIVERS) for row in range(NODES)]

    def fits(self, wanted: tuple[Attachment, ...], driver: str, row: int) -> bool:
        here = self.storage[f"n{row}"]
        held = {attachment for attachment in here.attached if attachment.driver == driver}
        held |= {
            attachment
            for pod, at in self.pods.values()
            if at == row
            for attachment in pod
            if attachment.driver == driver
        }
        new = {attachment for attachment in wanted if attachment.driver == driver} - held
        limit = dict(here.limits).get(driver)
        return not new or limit is None or len(held | new) <= limit


def encoder() -> Encoder:
    made = Encoder(half_node_cores=1.0)
    for i in range(NODES):
        made.add_node(Node(f"n{i}", Amounts.of({"cpu": 1000, "memory": 1000}), Labels.of({HOSTNAME: f"n{i}"})))
    return made


def some(rng: Random, most: int) -> tuple[Attachment, ...]:
    return tuple(rng.choices(VOLUMES, k=rng.randrange(most + 1)))


@pytest.mark.parametrize("seed", range(6))
def test_any_events(seed: int) -> None:
    rng, facts, limits = Random(seed), Facts(), AttachLimits(encoder())
    for step in range(120):
        what = rng.random()
        if what < 0.35:
            node = f"n{rng.randrange(NODES)}"
            capped = tuple((driver, rng.randrange(1, 5)) for driver in DRIVERS if rng.random() < 0.7)
            if rng.random() < 0.5:  # often the limits stay, and only volumes come or go
                capped = facts.storage[node].limits
            storage = NodeStorage(node, capped, frozenset(some(rng, 3)))
            assert limits.set_storage(storage) == (storage != facts.storage[node])
            facts.storage[node] = storage
        elif what < 0.7 or not facts.pods:
            pod, row = some(rng, 3), rng.randrange(NODES)
            limits.assign(pod, row)
            facts.pods[step] = (pod, row)
        else:
            limits.unassign(*facts.pods.pop(rng.choice(sorted(facts.pods))))
        limited = {driver for storage in facts.storage.values() for driver, _ in storage.limits}
        assert {driver for driver in DRIVERS if limits.is_limited(driver)} == limited
        wanted = some(rng, 4)
        mask = limits.feasible(wanted)
        if not limited & {attachment.driver for attachment in wanted}:
            assert mask is None
        else:
            assert mask is not None
            assert mask.tolist() == facts.feasible(wanted)
        assert {node_storage.node for node_storage in limits.storages()} == {
            node_storage.node for node_storage in facts.storage.values() if node_storage.limits or node_storage.attached
        }


def test_a_resident_frees_what_it_alone_holds() -> None:
    mine, shared, attached, wanted, other = (Attachment("one", name) for name in ("m", "s", "a", "w", "o"))
    limits = AttachLimits(encoder())
    limits.set_storage(NodeStorage("n0", (("one", 2),), frozenset({attached})))
    resident = (mine, mine, shared, attached, wanted, Attachment("two", "x"))
    limits.assign(resident, 0)
    limits.assign((shared,), 0)
    limits.assign((mine,), 1)
    assert limits.freed("one", resident, 0, lambda attachment: attachment == wanted) == 1
    assert limits.freed("one", resident, 0, lambda entry: False) == 2
    assert limits.freed("two", resident, 0, lambda entry: False) == 1
    limits.assign((other,), 0)
    assert limits.freed("one", (other,), 0, lambda entry: False) == 1
