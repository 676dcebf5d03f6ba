"""What an installation chose of the rules of admission."""

from __future__ import annotations

from dataclasses import dataclass

SYSTEM_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class ReviewRules:
    """What an installation chose. `exempt`: namespaces whose pods and quotas are left alone."""

    exempt: frozenset[str] = frozenset({SYSTEM_NAMESPACE})
    reservations: bool = False
    amplifies_nodes: bool = False
    limits_quotas: bool = False  # a pod that does not fit into its quota is refused at creation, and where it grows
    checks_devices: bool = False
    translates: bool = True
    draws_by_pod: bool = False  # as upstream; False = every pod of a workload draws alike
    may_change_sub_priority: bool = False
    agents: str = ""  # the user name of nodes' agents, whose evictions are limited to their own node; "" = not asked
    holders: frozenset[str] = frozenset()  # the user names that may write what pods hold; none = everybody
