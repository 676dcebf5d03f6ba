"""Equality of dataclasses in which NaN stands for "not given".

An object that was read again must equal the one read before, and NaN is not equal to itself. Up to Python 3.12 a
dataclass compares its fields as two tuples, in which one and the same NaN object counts as equal; from 3.13 on it
compares field by field, and such objects differ from their own copies. `identical` compares tuples of the fields in
every version.
Limits: only the NaN of `math.nan` is identical to itself, so readers use that one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any


@cache
def _fields_of(form: type) -> Callable[[object], Any]:
    return attrgetter(*(field.name for field in fields(form)))


def identical(one: object, other: object) -> bool:
    """Whether two dataclasses of the same class, with two fields or more, have equal fields; a field that is the
    same object is equal.
    """
    if one.__class__ is not other.__class__:
        return False
    form: object = type(one)
    values = _fields_of(form)
    return bool(values(one) == values(other))
