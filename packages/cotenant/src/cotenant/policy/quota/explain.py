"""Explanation of a quota's runtime: every term, for users and programs.

"why may my team use only 35 cores" has an answer with a dozen numbers. One Reason per resource; its first two terms,
the amount before sharing and the share of the remainder, add up to the runtime, and the others are the inputs of those
two.
Limits: siblings are not listed by name.
"""

from __future__ import annotations

from cotenant.model.machine.node_decision import DecisionTerm, Reason
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
        DecisionTerm("start", inputs.start, unit),
        DecisionTerm("shared", shared, unit),
        DecisionTerm("parent-has", inputs.total, unit),
        DecisionTerm("asked", inputs.request, unit),
        DecisionTerm("asked-by-own-pods", inputs.own_request, unit),
        DecisionTerm("asked-at-most-maximum", inputs.limited, unit),
        DecisionTerm("used", inputs.used, unit),
        DecisionTerm("minimum", inputs.minimum, unit),
        DecisionTerm("scaled-minimum", inputs.scaled_minimum, unit),
        DecisionTerm("guaranteed-by-use", inputs.guaranteed, unit),
        DecisionTerm("weight", inputs.weight),
    ]
    if inputs.maximum is not None:
        terms.append(DecisionTerm("maximum", inputs.maximum, unit))
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
