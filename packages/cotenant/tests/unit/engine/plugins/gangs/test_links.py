"""Which gangs need another: those found backwards are those whose reach has it."""

from __future__ import annotations

from random import Random

from cotenant.engine.framework.memento import Memento
from cotenant.engine.plugins.gangs.links import GangLinks
from cotenant.policy.placement.gangs.bundles import MAX_REACHED, reach


def test_who_needs_a_gang_is_who_reaches_it() -> None:
    random = Random(7)
    for size in (3, 8, 40, 90):
        links, keys = GangLinks(), [f"g{i}" for i in range(size)]
        for turn in range(60):
            names = tuple(random.choice(keys) for _ in range(random.randrange(4)))
            links.put(random.choice(keys), names)
            if turn % 5:
                continue
            for key in keys:
                expected = {other for other in keys if other != key and key in reach(other, links.named)}
                found = links.needing(key)
                assert set(found) == expected
                assert len(found) == len(expected)


def test_of_a_long_row_those_need_a_gang_that_reach_so_far() -> None:
    links = GangLinks()
    for i in range(500):
        links.put(f"g{i}", (f"g{i}", f"g{i + 1}"))
    assert links.needing("g499") == [f"g{i}" for i in range(498, 499 - MAX_REACHED, -1)]


def test_one_that_names_nothing_any_more_is_forgotten() -> None:
    links = GangLinks()
    links.put("a", ("b", "b"))
    before = Memento((links,))
    links.put("a", ())
    assert (bool(links), links.needing("b")) == (False, [])
    before.restore()
    assert (bool(links), links.needing("b")) == (True, ["a"])
