"""Reasons of node decisions: a rule, a sentence, and the numbers behind it.

Problem: "why is my job throttled" must be answerable from the decision itself, later and by a program. Choice: every decision carries a `Reason`
whose terms add up to it. Limits: terms are integers with a unit; text is English.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """One number of a decision, e.g. ("services", -6100, "mCPU")."""

    name: str
    value: int
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """The rule that decided, a sentence for users, and its terms."""

    rule: str  # e.g. "cpu-suppress"
    text: str  # e.g. "budget 3.2 CPU = 16 x 65 % - 6.1 services - 1.1 system"
    terms: tuple[Term, ...] = ()


def in_unicode(reason: Reason) -> Reason:
    """The reason with invalid bytes replaced by question marks: it may quote a group's name, which may be any bytes, and must be valid Unicode to be sent."""
    texts = (reason.rule, reason.text, *(word for term in reason.terms for word in (term.name, term.unit)))
    if all(text.isascii() for text in texts):
        return reason
    terms = tuple(Term(_in_unicode(term.name), term.value, _in_unicode(term.unit)) for term in reason.terms)
    return Reason(_in_unicode(reason.rule), _in_unicode(reason.text), terms)


def _in_unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class EvictPod:
    """A pod to be evicted from the node."""

    uid: str
    key: str  # namespace/name
    reason: Reason
    frees_cpu_m: int = 0
    frees_memory_bytes: int = 0
