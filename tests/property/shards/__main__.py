"""Many trials, by seed: `python -m tests.property.shards 5000 [FIRST [crossings] [quotas] [versions]]`."""

from __future__ import annotations

import sys

from tests.property.shards.trials import trial

first, count = int(sys.argv[2]) if len(sys.argv) > 2 else 0, int(sys.argv[1])
found = [
    trial(seed, crossings="crossings" in sys.argv, quotas="quotas" in sys.argv, versions="versions" in sys.argv)
    for seed in range(first, first + count)
]
print(
    f"{count} trials: {sum(one.bound for one in found)} pods bound, {sum(one.refused for one in found)} binds refused, "
    f"{sum(one.moved for one in found)} rings, {sum(one.lost for one in found)} members lost, "
    f"{sum(one.loans for one in found)} versions with nodes lent, "
    f"{sum(one.rooms for one in found)} with room of a quota; nothing broken"
)
