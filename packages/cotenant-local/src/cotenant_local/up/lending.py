"""The ConfigMap by which a local cluster's manager lends from the start.

A manager lends nothing until an administrator says so, and a person who tries it on one machine wants to see it lend.
The ConfigMap that an administrator would write, with the policy that was asked for and the defaults of everything else;
one that is there already stays as it is.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.policy.overcommit.facts import Policy
from cotenant.policy.overcommit.strategy import KEY, ColocationStrategy
from cotenant.services.offers.offer_sources import CONFIG_NAME, CONFIG_NAMESPACE

POLICIES = tuple(entry.value for entry in Policy if entry is not Policy.REQUEST)  # of CPU


def config_map(policy: str) -> Manifest:
    """`policy`: one of `POLICIES`. Memory is lent by the same policy where it is ours, else by upstream's default."""
    strategy = ColocationStrategy(enable=True, cpu_calculate_policy=policy)
    if Policy(policy).is_at_risk:
        strategy = msgspec.structs.replace(strategy, memory_calculate_policy=policy)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_NAME, "namespace": CONFIG_NAMESPACE},
        "data": {KEY: msgspec.json.encode(strategy).decode()},
    }
