"""Text that must be a JSON object, as annotations hold it.

Problem: annotations are written by anybody, and one that is garbage, or nested a million deep, must be told of by its name instead of ending what reads it.
Choice: one reader and one error for all of them. Limits: what the object's fields are is its readers' to check; numbers are Python's.
"""

from __future__ import annotations

import json
from typing import Any

from cotenant.model.errors import InvalidInput


def json_object(field: str, text: str, expected: str = "a JSON object") -> dict[str, Any]:
    """The object. Raises `InvalidInput` about `field` where it is none."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise InvalidInput(field, text, expected)
    return told
