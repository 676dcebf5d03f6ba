"""Whether what the manager derived agrees with the facts it has."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.engine.manager.record import NodeRecord
from cotenant.model.errors import CotenantError


class Inconsistent(CotenantError):
    """Derived state disagrees with the facts; the message says where."""


def check(nodes: Mapping[str, NodeRecord], node_of: Mapping[str, str]) -> None:
    """Raise `Inconsistent` where pods' nodes, nodes' pods and the terms of amounts disagree."""
    for uid, name in node_of.items():
        if name not in nodes or uid not in nodes[name].pods:
            raise Inconsistent(f"pod {uid} is indexed on {name} and is not there")
    for name, record in nodes.items():
        for uid in record.pods:
            if node_of.get(uid) != name:
                raise Inconsistent(f"pod {uid} is on {name} and is indexed on {node_of.get(uid)}")
        for amount in record.computed.amounts:
            if sum(term.amount for term in amount.terms) != amount.value:
                raise Inconsistent(f"{amount.resource} of {name} is not the sum of its terms")
