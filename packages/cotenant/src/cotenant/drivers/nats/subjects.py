"""Subjects: valid ones, and which patterns they match."""

from __future__ import annotations

from cotenant.model.errors import InvalidInput

_FORBIDDEN = frozenset(" \t\r\n\0")


def check_subject(subject: str, wildcards: bool = False) -> None:
    """Raises `InvalidInput` for what NATS would refuse, or would read as another command."""
    tokens = subject.split(".")
    if not subject or "" in tokens or not _FORBIDDEN.isdisjoint(subject):
        raise InvalidInput("subject", subject, "tokens without blanks, separated by dots")
    if not wildcards and ("*" in tokens or ">" in tokens):
        raise InvalidInput("subject", subject, "a subject without wildcards")
    if ">" in tokens[:-1]:
        raise InvalidInput("subject", subject, "> as the last token only")


def matches(pattern: str, subject: str) -> bool:
    """Whether a subscription to `pattern` gets messages to `subject`."""
    wanted, given = pattern.split("."), subject.split(".")
    for i, token in enumerate(wanted):
        if token == ">":
            return len(given) > i
        if i >= len(given) or token not in ("*", given[i]):
            return False
    return len(wanted) == len(given)
