"""Several engines that share quotas come to what one would come to: what it would admit is admitted in the end, by
whichever shard, whole gangs and pods that nobody may preempt too, and never more than the quotas allow.

`python -m tests.property.shards.test_as_one 500` tries more, `… 500 FIRST` other seeds.
"""

from __future__ import annotations

import sys
from random import Random

import pytest
from tests.property.shards.engines import Cosm, Written, arrivals

from cotenant.engine.plugins.quotas.promise import PROMISED_S
from cotenant.engine.plugins.quotas.settings import QuotaSettings

pytestmark = pytest.mark.slow

QUOTAS = ("a", "b", "c")


def cosm_of(random: Random) -> Cosm:
    """Two trees, three quotas, and nodes that may be fewer than these allow."""
    most = [random.randint(2, 16) for _ in QUOTAS]
    least = [random.randint(0, amount) for amount in most]
    leaves = [Written(*of) for of in zip(QUOTAS, most, least, strict=True)]
    return Cosm(random.randint(2, 4), random.randint(4, 9), (*roots(random), *leaves))


def roots(random: Random) -> tuple[Written, Written]:
    most, other = random.randint(8, 30), random.randint(8, 30)
    return (
        Written("all", most, random.randint(0, most), is_parent=True),
        Written("other", other, random.randint(0, other), is_parent=True, tree="other"),
    )


def leave_it_to_others(cosm: Cosm) -> None:
    """Whoever decides for a tree decides for nothing from now on, and goes on lending."""
    trees = {one.tree for one in cosm.quotas.values()}
    cosm.busy |= {one.slot for one in cosm.all for tree in trees if one.pods._owns(f"quota:{tree}")}


def grants(cosm: Cosm) -> int:
    """How often any shard got room of a quota, or more of it."""
    return sum(one.shard.rooms.grants for one in cosm.all if one.shard is not None)


def check(cosm: Cosm, quiet_s: float = 25.0) -> None:
    """When all is quiet, one scheduler would find nothing to do."""
    cosm.busy.clear()
    cosm.settle(quiet_s)
    assert not cosm.waits_in_vain()
    cosm.validate()


def same(seed: int) -> int:
    """Pods arrive, and some end; how often room was granted."""
    random = Random(seed)
    cosm = cosm_of(random)
    if seed % 2:
        leave_it_to_others(cosm)
    for step in range(4):
        cosm.submit(*arrivals(random, 100 * step, random.randint(4, 14), QUOTAS, (0, 0, 5)))
        cosm.turn(random.randint(1, 30))
        for uid in random.sample(sorted(cosm.by), min(len(cosm.by), random.randint(0, 3))):
            if uid in cosm.pods:
                cosm.end(uid)
    check(cosm)
    return grants(cosm)


def changed(seed: int) -> int:
    """As `same`; quotas get other maxima, minima and weights, another parent, or go and come back."""
    random = Random(seed)
    cosm = cosm_of(random)
    if seed % 3:
        leave_it_to_others(cosm)
    for step in range(8):
        cosm.submit(*arrivals(random, 100 * step, random.randint(2, 8), QUOTAS, (0, 0, 5)))
        cosm.turn(random.randint(1, 16))
        change(random, cosm)
        cosm.turn(random.randint(0, 6))
    cosm.write(*(Written(name, 12, 6) for name in QUOTAS if name not in cosm.quotas))
    check(cosm)
    return grants(cosm)


def change(random: Random, cosm: Cosm) -> None:
    """One quota, in one way."""
    name, what = random.choice(QUOTAS), random.random()
    if what < 0.15 and name in cosm.quotas:
        cosm.write(gone=name)
        return
    most = random.randint(1, 16)
    parent, tree = random.choice((("all", ""), ("other", "other")))
    if what < 0.6 and name in cosm.quotas:
        parent, tree = cosm.quotas[name].parent, cosm.quotas[name].tree
    cosm.write(Written(name, most, random.randint(0, most), parent, tree))


def preempting(seed: int) -> int:
    """As `same`, where the shard of a tree evicts for pods of a higher priority while room of the quota is lent."""
    random = Random(seed)
    settings = QuotaSettings(check_parents=True, revoke=bool(seed % 2), revoke_after_s=5.0)
    most = random.randint(4, 10)
    cosm = Cosm(3, 8, (Written("all", 30, 30, is_parent=True), Written("a", most, most // 2)), settings)
    cosm.submit(*arrivals(random, 0, 20, ("a",), (0,)))
    cosm.turn(random.randint(2, 30))
    for step in range(1, 5):
        cosm.submit(*arrivals(random, 100 * step, random.randint(1, 4), ("a",), (5 * step,)))
        cosm.turn(random.randint(1, 20))
    check(cosm, PROMISED_S + 25.0)
    return len(cosm.evicted)


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_what_one_scheduler_would_admit_several_admit_in_the_end(first: int) -> None:
    assert sum(same(seed) for seed in range(first, first + 4))


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_so_it_is_while_quotas_change_their_parents_maxima_and_minima_and_go(first: int) -> None:
    assert sum(changed(seed) for seed in range(first, first + 4))


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_so_it_is_where_the_trees_shard_evicts_while_room_is_lent(first: int) -> None:
    assert sum(preempting(seed) for seed in range(first, first + 4))


if __name__ == "__main__":
    begin = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    seeds = range(begin, begin + int(sys.argv[1]))
    for kind in (same, changed, preempting):
        print(f"{kind.__name__}: {len(seeds)} seeds, {sum(map(kind, seeds))} grants or evictions; nothing broken")
