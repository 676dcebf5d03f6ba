"""Seeds as text: a number of them, ranges, or a list of both.

Seeds that were looked at while tuning must not be the seeds that are reported, so a comparison has to name its seeds. A
lone number N is how many (0 to N-1), as it always was; anything with a dash or a comma names seeds: `20-29`,
`0-4,20-29`, `3,5`, `7-7`.
Limits: no steps.
"""

from __future__ import annotations

from cotenant.model.errors import InvalidInput

MAX_SEEDS = 10_000
LARGEST_SEED = 2**31 - 1
_EXPECTED = f"a number of seeds from 1 to {MAX_SEEDS}, or seeds such as 20-29 or 0-4,20-29"


def read_seeds(given: int | str, field: str = "--seeds") -> tuple[int, ...]:
    """The seeds that `given` names, in its order.

    Raises:
        InvalidInput: naming `field`; not a number or list, a reversed range, a seed twice, or too many.
    """
    text = str(given).strip()
    if text.isascii() and text.isdecimal():
        if not 1 <= int(text) <= MAX_SEEDS:
            raise InvalidInput(field, given, f"at least 1, at most {MAX_SEEDS}", _EXPECTED)
        return tuple(range(int(text)))
    seeds: list[int] = []
    for part in text.split(","):
        first, last = _bounds(part.strip(), given, field)
        if last < first:
            raise InvalidInput(field, given, f"ranges that ascend, e.g. {last}-{first}")
        if last > LARGEST_SEED:
            raise InvalidInput(field, given, f"seeds up to {LARGEST_SEED}")
        if len(seeds) + last - first + 1 > MAX_SEEDS:
            raise InvalidInput(field, given, f"at most {MAX_SEEDS} seeds")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        twice = next(seed for seed in seeds if seeds.count(seed) > 1)
        raise InvalidInput(field, given, "each seed once", f"{twice} is named twice")
    return tuple(seeds)


def _bounds(part: str, given: int | str, field: str) -> tuple[int, int]:
    """The first and last seed of one element of a list."""
    ends = part.split("-")
    if len(ends) > 2 or not all(end.isascii() and end.isdecimal() and len(end) <= 12 for end in ends):
        raise InvalidInput(field, given, _EXPECTED)
    return int(ends[0]), int(ends[-1])
