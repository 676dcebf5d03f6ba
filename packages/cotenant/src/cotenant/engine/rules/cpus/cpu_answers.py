"""The answer of one node to one CPU need, and a key that is equal for nodes with equal answers.

Judging takes tens of microseconds per node, and thousands of nodes are in the same state. A key of everything the
answer depends on, so that nodes with equal keys are judged once (verdicts.py).
Limits: a pod with CPUs reserved for it on a row is judged there separately (`Cpus.draw`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from cotenant.engine.rules.cpus.verdicts import CpuAnswer
from cotenant.model.cpus.spec import TopologyPolicy
from cotenant.policy.placement.cpus.needs import CpuNeed
from cotenant.policy.placement.cpus.node_fit import NO_TOPOLOGY, CpuNode, could, may_yield, policy_of
from cotenant.policy.placement.numa import Provider
from cotenant.policy.placement.refusal import Refusal


def likeness(node: CpuNode | None, need: CpuNeed, marks: Iterable[int]) -> Hashable:
    """Equal for nodes with equal answers. `node` None: no topology reported; `marks`: of the aligned providers
    (engine/framework/node_rules.NumaProvider).
    """
    if node is None:
        return False
    aligned = policy_of(node, need) is not TopologyPolicy.NONE
    if not (aligned or need.own):
        return True
    ledger = node.ledger
    amounts = (node.amounts.likeness(), *marks) if aligned else ()
    avoided = ledger.exclusive(need.spec.exclusive)
    return id(ledger.topology), ledger.reserved, ledger.at_least, avoided, node.options, amounts


def answer(node: CpuNode | None, need: CpuNeed, others: Provider) -> CpuAnswer:
    """Whether the node could satisfy the need."""
    if node is None:
        return CpuAnswer(NO_TOPOLOGY) if need.own or need.is_strict else CpuAnswer(None)
    found = could(node, need, others)
    if isinstance(found, Refusal):
        return CpuAnswer(found, False, may_yield(node, need, found))
    return CpuAnswer(None, found.kept, elsewhere=found.elsewhere)
