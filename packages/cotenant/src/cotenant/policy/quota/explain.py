"""Explanation of a quota's runtime: every term, for users and programs.

"why may my team use only 35 cores" has an answer with a dozen numbers. One Reason per resource; its first two terms,
the amount before sharing and the share of the remainder, add up to the runtime, and the others are the inputs of those
two.
Limits: siblings are not listed by name.
"""

from __future__ import annotations

from cotenant.model.machine.node_decision import Reason, Term
from cotenant.model.resources import format_amount, unit_of
from cotenant.policy.quota.nodes import RuntimeTerms
from cotenant.policy.quota.tree import QuotaTree

RULE = "quota-runtime"


def explain(tree: QuotaTree, name: str) -> tuple[Reason, ...]:
    """A reason for each resource that the quota's maximum mentions, sorted by name."""
    return tuple(_of(tree.runtime_terms(name, resource)) for resource in tree.quota(name).maximum.names())


def _of(inputs: RuntimeTerms) -> Reason:
    resource = inputs.resource
    unit = unit_of(resource).value
    shared = inputs.runtime - inputs.start
    terms = [
        Term("start", inputs.start, unit),
        Term("shared", shared, unit),
        Term("parent-has", inputs.total, unit),
        Term("asked", inputs.request, unit),
        Term("asked-by-own-pods", inputs.own_request, unit),
        Term("asked-at-most-maximum", inputs.limited, unit),
        Term("used", inputs.used, unit),
        Term("minimum", inputs.minimum, unit),
        Term("scaled-minimum", inputs.scaled_minimum, unit),
        Term("guaranteed-by-use", inputs.guaranteed, unit),
        Term("weight", inputs.weight),
    ]
    if inputs.maximum is not None:
        terms.append(Term("maximum", inputs.maximum, unit))
    return Reason(RULE, _sentence(inputs, shared), tuple(terms))


def _sentence(inputs: RuntimeTerms, shared: int) -> str:
    def amount(value: int) -> str:
        return format_amount(inputs.resource, value)

    guaranteed = max(inputs.scaled_minimum, inputs.guaranteed)
    asked = inputs.child_request if inputs.maximum is None else min(inputs.child_request, inputs.maximum)
    text = f"{inputs.resource}: runtime {amount(inputs.runtime)} of the parent's {amount(inputs.total)}: "
    if asked > guaranteed:
        text += (
            f"{amount(guaranteed)} guaranteed + {amount(shared)} shared by weight {inputs.weight}, requests "
            f"{amount(asked)}"
        )
    elif inputs.runtime > asked:
        text += f"all that it requests, and {amount(inputs.runtime - asked)} of its guarantee stays reserved for it"
    elif guaranteed > asked:
        text += f"all that it requests, and {amount(guaranteed - asked)} of its guarantee is lent"
    else:
        text += "all that it requests"
    if inputs.scaled_minimum < inputs.minimum:
        text += (
            f"; the minimum {amount(inputs.minimum)} is scaled to {amount(inputs.scaled_minimum)} because all "
            "minima together do not fit"
        )
    return text
