"""Why a node lends nothing of a resource, as one sentence from the terms of its amount.

The sum shows it to who reads sums; who waits for batch CPU wants to hear that the machine is busy, and with what.
Limits: an amount without anything subtracted (mid resources before a prediction) has no sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

_MARGIN = "margin above"
_CALLED = {
    "system": "used by work outside of pods",
    "reserved": "reserved for the system",
    "use of prod and mid pods": "used by prod and mid pods",
    "requests of prod and mid pods": "requested by prod and mid pods",
}


def why_nothing(value: int, terms: Sequence[tuple[str, int]], text: Callable[[int], str]) -> str:
    """The sentence; "" where something is lent. `terms`: name and amount, the capacity first; `text` writes an
    amount.
    """
    taken = sorted(((-amount, name) for name, amount in terms if amount < 0), reverse=True)
    if value > 0 or not taken:
        return ""
    parts = [f"{text(amount)} are {_called(name)}" for amount, name in taken]
    return f"nothing is lent: of {text(terms[0][1])}, {', '.join(parts)}"


def _called(name: str) -> str:
    return f"kept free ({name})" if name.startswith(_MARGIN) else _CALLED.get(name, f"taken ({name})")
