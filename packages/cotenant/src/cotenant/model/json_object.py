"""Parse text that must be a JSON object, such as an annotation.

Annotations are user input; invalid or deeply nested JSON must be reported under the annotation's name instead of
crashing the reader. One parser and one error for all annotations.
Limits: the caller checks the object's fields; numbers are Python's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from cotenant.model.errors import InvalidInput

JsonValue: TypeAlias = Any  # parsed, or about to be written: whoever reads it checks what it is
JsonObject: TypeAlias = dict[str, JsonValue]
JsonMapping: TypeAlias = Mapping[str, JsonValue]  # the same, read only


def json_object(field: str, text: str, expected: str = "a JSON object") -> JsonObject:
    """The parsed object. Raises `InvalidInput` on `field` where the text is not a JSON object."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise InvalidInput(field, text, expected)
    return parsed
