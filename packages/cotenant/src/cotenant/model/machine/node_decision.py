"""Reasons of node decisions: a rule, a sentence, and the numbers behind it.

"why is my job throttled" must be answerable from the decision itself, later and by a program. Every decision carries a
`Reason` whose terms add up to it.
Limits: terms are integers with a unit; text is English.
"""

from __future__ import annotations

from dataclasses import dataclass

_MAX_RULE, _MAX_TEXT, _MAX_NAME = 128, 2048, 64  # characters
_MAX_TERMS = 64
_MAX_VALUE = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DecisionTerm:
    """One number of a decision, e.g. ("services", -6100, "mCPU")."""

    name: str
    value: int
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """The rule that decided, a sentence for users, and its terms."""

    rule: str  # e.g. "cpu-suppress"
    text: str  # e.g. "budget 3.2 CPU = 16 x 65 % - 6.1 services - 1.1 system"
    terms: tuple[DecisionTerm, ...] = ()


def in_unicode(reason: Reason) -> Reason:
    """The reason with invalid bytes replaced by question marks: it may quote a group's name, which may be any
    bytes, and must be valid Unicode to be sent.
    """
    texts = (reason.rule, reason.text, *(word for term in reason.terms for word in (term.name, term.unit)))
    if all(text.isascii() for text in texts):
        return reason
    terms = tuple(DecisionTerm(_in_unicode(term.name), term.value, _in_unicode(term.unit)) for term in reason.terms)
    return Reason(_in_unicode(reason.rule), _in_unicode(reason.text), terms)


def _in_unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def storable(reason: Reason) -> Reason:
    """The reason as a keeper stores it: valid Unicode, and bounded, since it is written with each of thousands of
    leases.
    """
    is_short = (
        len(reason.rule) <= _MAX_RULE
        and len(reason.text) <= _MAX_TEXT
        and len(reason.terms) <= _MAX_TERMS
        and all(_is_short(term) for term in reason.terms)
    )
    if is_short:
        return in_unicode(reason)
    terms = tuple(
        DecisionTerm(
            shortened(term.name, _MAX_NAME),
            max(-_MAX_VALUE, min(_MAX_VALUE, term.value)),
            shortened(term.unit, _MAX_NAME),
        )
        for term in reason.terms[:_MAX_TERMS]
    )
    return in_unicode(Reason(shortened(reason.rule, _MAX_RULE), shortened(reason.text, _MAX_TEXT), terms))


def shortened(text: str, most: int) -> str:
    """The first `most` characters, the last of them an ellipsis where there are more."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _is_short(term: DecisionTerm) -> bool:
    return len(term.name) <= _MAX_NAME and len(term.unit) <= _MAX_NAME and abs(term.value) <= _MAX_VALUE


@dataclass(frozen=True, slots=True)
class EvictPod:
    """A pod to be evicted from the node."""

    uid: str
    key: str  # namespace/name
    reason: Reason
    frees_cpu_m: int = 0
    frees_memory_bytes: int = 0
    grace_s: int | None = None  # to end in; None: the pod's own
