"""Claims, gangs, quotas, budgets and priorities at once: whom the engine evicts it may evict and must, what it evicted
for is placed then, and nobody waits whom evictions could help.

`python -m tests.property.groups.test_crossing FIRST LAST [tight]` asks the same of many more worlds.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest
from tests.property.groups.crossing_trial import CrossingTrial

# Gangs that waited for devices woke themselves without end (34, 43); claims of pods that a trial had removed counted
# (2295); gangs were left below their minimum (2770, 2953); victims that nobody needed (2765, 3127, 3169).
KEPT = (34, 43, 2295, 2765, 2770, 2953, 3127, 3169)

# Nobody woke who waited behind a gang for which quota was kept, and which found no node (349).
KEPT_WITH_QUOTAS = (349,)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(20), *KEPT])
def test_evictions_are_allowed_and_needed_and_help(seed: int) -> None:
    trial = CrossingTrial(seed)
    trial.run()
    assert not trial.wrong


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(20), *KEPT_WITH_QUOTAS])
def test_the_same_where_quotas_bind(seed: int) -> None:
    """Pods evict within their quota first, and for devices and room then."""
    trial = CrossingTrial(seed, tight=True)
    trial.run()
    assert not trial.wrong


@pytest.mark.parametrize(("seed", "tight"), [(2, False), *((seed, True) for seed in range(5))])
def test_first_sequences(seed: int, tight: bool) -> None:
    trial = CrossingTrial(seed, tight=tight)
    trial.run()
    assert not trial.wrong


if __name__ == "__main__":
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        one = CrossingTrial(number, tight=sys.argv[3:] == ["tight"])
        one.run()
        wrong += one.wrong
        counts += one.counts
    print("\n".join(wrong) or "as documented", dict(sorted(counts.items())), sep="\n")
    sys.exit(bool(wrong))
