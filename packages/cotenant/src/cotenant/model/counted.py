"""A number with its noun, in the singular where it is one: "1 pod", "2,300 pods"."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """`plural` where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
