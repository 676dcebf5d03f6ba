"""Why a quota's runtime is what it is: each term, for people and machines.

Problem: "why may my team use only 35 cores" has an answer with a dozen numbers. Choice: one Reason a resource; its first two terms, what the quota
had before anything was shared and what it got of the rest, add up to the runtime, and the others are what those two follow from. Limits: no siblings by
name; theirs are the same question.
"""

from __future__ import annotations

from cotenant.model.machine.node_decision import Reason, Term
from cotenant.model.resources import format_amount, unit_of
from cotenant.policy.quota.nodes import Standing
from cotenant.policy.quota.tree import QuotaTree

RULE = "quota-runtime"


def explain(tree: QuotaTree, name: str) -> tuple[Reason, ...]:
    """A reason for each resource that the quota's maximum mentions, in the order of their names."""
    return tuple(_of(tree.standing(name, resource)) for resource in tree.quota(name).maximum.names())


def _of(standing: Standing) -> Reason:
    resource = standing.resource
    unit = unit_of(resource).value
    shared = standing.runtime - standing.start
    terms = [
        Term("start", standing.start, unit),
        Term("shared", shared, unit),
        Term("parent-has", standing.total, unit),
        Term("asked", standing.request, unit),
        Term("asked-by-own-pods", standing.own_request, unit),
        Term("asked-at-most-maximum", standing.limited, unit),
        Term("used", standing.used, unit),
        Term("minimum", standing.minimum, unit),
        Term("scaled-minimum", standing.scaled_minimum, unit),
        Term("guaranteed-by-use", standing.guaranteed, unit),
        Term("weight", standing.weight),
    ]
    if standing.maximum is not None:
        terms.append(Term("maximum", standing.maximum, unit))
    return Reason(RULE, _sentence(standing, shared), tuple(terms))


def _sentence(standing: Standing, shared: int) -> str:
    def amount(value: int) -> str:
        return format_amount(standing.resource, value)

    owed = max(standing.scaled_minimum, standing.guaranteed)
    asked = standing.child_request if standing.maximum is None else min(standing.child_request, standing.maximum)
    said = f"{standing.resource}: may use {amount(standing.runtime)} of {amount(standing.total)}: "
    if asked > owed:
        said += f"{amount(owed)} owed + {amount(shared)} shared by weight {standing.weight}, asks for {amount(asked)}"
    elif standing.runtime > asked:
        said += f"all that it asks for, and {amount(standing.runtime - asked)} of what it is owed is kept for it"
    elif owed > asked:
        said += f"all that it asks for, and {amount(owed - asked)} of what it is owed is lent"
    else:
        said += "all that it asks for"
    if standing.scaled_minimum < standing.minimum:
        said += f"; the minimum {amount(standing.minimum)} is scaled to {amount(standing.scaled_minimum)}, all minima do not fit"
    return said
