"""`matchConditions`: whether a webhook is called for a request, by expressions in CEL.

The language is evaluated by cel-python, which is loaded with the first condition. Its variables are those of
kube-apiserver but `authorizer`, which this server has no answer for: an expression with it is refused when it is
written.

Source: Kubernetes, "Dynamic Admission Control", matching requests: matchConditions. One that is false skips the
webhook; else one that fails decides by the failure policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cotenant.drivers.kube.manifests.errors import Manifest

_AUTHORIZER = re.compile(r"\bauthorizer\b")


class ConditionFailed(Exception):
    """A condition has no value for this request."""


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """One condition."""

    name: str
    expression: str


def problem(expression: str) -> str:
    """Why an expression cannot be evaluated here; "" where it can."""
    if _AUTHORIZER.search(expression):
        return "the variable authorizer is not known to this server"
    try:
        _program(expression)
    except ConditionFailed as error:
        return str(error)
    return ""


def all_hold(conditions: tuple[MatchCondition, ...], review: Manifest) -> bool:
    """Whether all conditions hold for an AdmissionReview. Raises `ConditionFailed` where none is false and one has
    no value.
    """
    if not conditions:
        return True
    from celpy.adapter import json_to_cel

    request = review["request"]
    about = {name: value for name, value in request.items() if name not in ("object", "oldObject")}
    try:
        given = {
            "request": json_to_cel(about),
            "object": json_to_cel(request["object"]),
            "oldObject": json_to_cel(request["oldObject"]),
        }
    except (ValueError, RecursionError) as error:  # a whole number beyond 64 bits; nested too deep
        raise ConditionFailed(f"matchConditions cannot read the object: {error}") from None
    failed: ConditionFailed | None = None
    for condition in conditions:
        try:
            value = _evaluated(condition, given)
        except ConditionFailed as error:
            failed = failed or error
            continue
        if not value:
            return False
    if failed is not None:
        raise failed
    return True


def _evaluated(condition: MatchCondition, given: Manifest) -> bool:
    from celpy.celtypes import BoolType

    try:
        value = _program(condition.expression)(given)
    except Exception as error:  # cel-python raises IndexError, AttributeError and others for odd expressions
        raise ConditionFailed(f"matchCondition {condition.name}: {next(iter(error.args), 'no value')}") from None
    if not isinstance(value, BoolType | bool):
        raise ConditionFailed(f"matchCondition {condition.name}: its value is no bool")
    return bool(value)


@lru_cache(512)
def _program(expression: str) -> Callable[[Manifest], Any]:
    """Raises `ConditionFailed` for what is no CEL."""
    from celpy import Environment

    from cotenant.drivers.cel.library import LOGIC

    environment = Environment()
    try:
        return environment.program(environment.compile(expression), functions=dict(LOGIC)).evaluate
    except Exception as error:  # of the parser, and of what it is made of
        raise ConditionFailed(f"it cannot be read: {' '.join(str(error).split())[:120]}") from None
