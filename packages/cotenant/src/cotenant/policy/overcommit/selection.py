"""JSON in ConfigMaps and annotations, and the label selectors in it.

A selector that cannot be read refuses the configuration with its path; upstream skips it silently, so that the nodes it
was meant for get the cluster's strategy. An absent selector selects nothing, an empty one everything.
Source: Koordinator, pkg/util/sloconfig (node strategies); Kubernetes API reference (LabelSelector).
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.model.cluster.labels import LabelSelector, Requirement, SelectorOperator
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object


def json_value(field: str, text: str) -> dict[str, object]:
    """The JSON object in a text. Raises `InvalidInput`."""
    return json_object(field, text)


def read_selector(written: object, field: str) -> LabelSelector | None:
    """A LabelSelector from decoded JSON; None where it is absent. Raises `InvalidInput`."""
    if written is None:
        return None
    if not isinstance(written, Mapping):
        raise InvalidInput(field, written, "a label selector")
    pairs, expressions = written.get("matchLabels") or {}, written.get("matchExpressions") or []
    if not isinstance(pairs, Mapping) or not all(isinstance(value, str) for value in pairs.values()):
        raise InvalidInput(f"{field}.matchLabels", pairs, "label keys with text values")
    if not isinstance(expressions, list):
        raise InvalidInput(f"{field}.matchExpressions", expressions, "a list")
    requirements = []
    for i, expression in enumerate(expressions):
        where = f"{field}.matchExpressions[{i}]"
        if not isinstance(expression, Mapping) or expression.get("operator") not in (
            "In",
            "NotIn",
            "Exists",
            "DoesNotExist",
        ):
            raise InvalidInput(where, expression, "key, operator (In, NotIn, Exists or DoesNotExist) and values")
        try:
            requirements.append(
                Requirement(
                    str(expression.get("key") or ""),
                    SelectorOperator(expression["operator"]),
                    tuple(expression.get("values") or ()),
                )
            )
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error.field}", error.value, error.expected, error.hint) from None
    return LabelSelector.of(pairs, requirements)
