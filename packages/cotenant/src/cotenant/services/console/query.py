"""Values of the page's query strings.

Several answers are limited in length by the page, and a bad limit must be named. One reader.
Limits: other values are read where they are used.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.model.errors import InvalidInput
from cotenant.model.whole_number import whole_number


def limit_of(query: Mapping[str, str], most: int) -> int:
    """How many items are wanted, 100 where the query does not say. Raises `InvalidInput` for anything but 1 to
    `most`.
    """
    limit = whole_number(query.get("limit", "100"))
    if limit is None or not 1 <= limit <= most:
        raise InvalidInput("limit", query["limit"][:64], f"1 to {most}")
    return limit
