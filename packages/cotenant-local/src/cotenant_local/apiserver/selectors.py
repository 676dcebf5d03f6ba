"""Label and field selectors: parsed once, then matched against many objects.

Every list and every watch event is matched, for up to 50 watchers. A selector becomes a tuple of requirements over a
plain mapping of labels (or of selectable fields); an empty one (`is_empty`) costs nothing.
Limits: label selectors have Kubernetes' forms (`a`, `!a`, `a=b`, `a==b`, `a!=b`, `a in (x,y)`, `a notin (x,y)`, and
`a>5`, `a<5`); field selectors have `=`, `==` and `!=` only, on the fields that the resource declares.
Sources: Kubernetes API reference, "Labels and Selectors" and "Field Selectors".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant.model.json_object import JsonMapping

_KEY = r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9.]*[a-zA-Z0-9])?/)?[a-zA-Z0-9](?:[-a-zA-Z0-9_.]*[a-zA-Z0-9])?"
_VALUE = r"(?:[a-zA-Z0-9](?:[-a-zA-Z0-9_.]*[a-zA-Z0-9])?)?"
_VALUE_RE = re.compile(_VALUE)
_TERM = re.compile(  # spaces are never given back (`*+`): a row of sixty thousand would be tried in every division
    rf"\s*+(?:(?P<absent>!)\s*+(?P<no>{_KEY})"
    rf"|(?P<key>{_KEY})(?:\s*+(?P<op>==|=|!=|>|<)\s*+(?P<value>{_VALUE})"
    rf"|\s++(?P<set>in|notin)\s*+\((?P<values>[^()]*)\))?)\s*+(?P<end>,|$)"
)


@dataclass(frozen=True, slots=True)
class ListRequirement:
    """One term: the operator is In, NotIn, Exists, DoesNotExist, Gt or Lt (the last two over integers)."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy it. NotIn holds if the key is absent, as in Kubernetes."""
        value = labels.get(self.key)
        if self.operator == "In":
            return value is not None and value in self.values
        if self.operator == "NotIn":
            return value is None or value not in self.values
        if self.operator == "Exists":
            return value is not None
        if self.operator == "DoesNotExist":
            return value is None
        try:
            left, right = int(value or ""), int(next(iter(self.values)))
        except ValueError:
            return False
        return left > right if self.operator == "Gt" else left < right


@dataclass(frozen=True, slots=True)
class ListSelector:
    """All requirements must hold; without any it selects everything. With `nothing` it selects no object."""

    requirements: tuple[ListRequirement, ...] = ()
    nothing: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether every object is selected."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self.nothing:
            return False
        return all(requirement.holds(labels) for requirement in self.requirements)


def _bad(text: str, why: str) -> ApiError:
    return ApiError(400, "BadRequest", f"unable to parse requirement: {why} in {text!r}")


def parse_labels(text: str) -> ListSelector:
    """Parse a `labelSelector` parameter. Raises ApiError 400 if it is malformed."""
    if not text.strip():
        return ListSelector()
    requirements: list[ListRequirement] = []
    at = 0
    while at < len(text):
        found = _TERM.match(text, at)
        if found is None:
            raise _bad(text, f"found {text[at : at + 20]!r}, expected a key, one of in, notin, =, ==, !=, >, <, or ','")
        if found["absent"]:
            requirements.append(ListRequirement(found["no"], "DoesNotExist"))
        elif found["set"]:
            values = [value.strip() for value in found["values"].split(",")]
            for value in values:
                if not _VALUE_RE.fullmatch(value):
                    raise _bad(text, f"values: Invalid value: {value!r}")
            operator = "In" if found["set"] == "in" else "NotIn"
            requirements.append(ListRequirement(found["key"], operator, frozenset(values)))
        elif found["op"] in (">", "<"):
            if not re.fullmatch(r"-?\d{1,18}", found["value"]):
                raise _bad(
                    text,
                    f"values[0]: Invalid value: {found['value']!r}: for 'Gt', 'Lt' operators, the value must be an "
                    "integer",
                )
            requirements.append(
                ListRequirement(found["key"], "Gt" if found["op"] == ">" else "Lt", frozenset((found["value"],)))
            )
        elif found["op"]:
            operator = "NotIn" if found["op"] == "!=" else "In"
            requirements.append(ListRequirement(found["key"], operator, frozenset((found["value"],))))
        else:
            requirements.append(ListRequirement(found["key"], "Exists"))
        at = found.end()
        if found["end"] == "," and at >= len(text):
            raise _bad(text, "found '', expected: identifier after ','")
    return ListSelector(tuple(requirements))


def label_selector(obj: JsonMapping | None) -> ListSelector:
    """Parse a manifest's LabelSelector (matchLabels, matchExpressions). None selects nothing; `{}` everything."""
    if obj is None:
        return ListSelector(nothing=True)
    requirements = [
        ListRequirement(key, "In", frozenset((value,))) for key, value in (obj.get("matchLabels") or {}).items()
    ]
    for term in obj.get("matchExpressions") or ():
        operator = term.get("operator", "")
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            raise ApiError(400, "BadRequest", f"{operator!r} is not a valid label selector operator")
        requirements.append(ListRequirement(term["key"], operator, frozenset(term.get("values") or ())))
    return ListSelector(tuple(requirements))


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector: the field equals, or does not equal, a value."""

    field: str
    value: str
    is_equal: bool


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All terms must hold; without any it selects everything."""

    terms: tuple[FieldTerm, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether every object is selected."""
        return not self.terms

    def exact(self, field: str) -> str | None:
        """The value that a field is required to equal, None if there is no such term."""
        return next((term.value for term in self.terms if term.field == field and term.is_equal), None)


def _split(text: str) -> list[str]:
    """Split at commas that are not escaped by a backslash."""
    terms, term, at = [], "", 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            term += text[at : at + 2]
            at += 2
            continue
        if text[at] == ",":
            terms.append(term)
            term = ""
        else:
            term += text[at]
        at += 1
    return [*terms, term]


def parse_fields(text: str, selectable: Collection[str]) -> FieldSelector:
    """Parse a `fieldSelector` parameter over the fields that a kind declares. Raises ApiError 400 for any other
    field.
    """
    if not text.strip():
        return FieldSelector()
    terms: list[FieldTerm] = []
    for part in _split(text):
        if not part:
            continue
        found = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", part, re.DOTALL)
        if found is None:
            raise ApiError(400, "BadRequest", f"invalid selector: {text!r}; can't understand {part!r}")
        field, operator, value = found[1].strip(), found[2], re.sub(r"\\(.)", r"\1", found[3])
        if field not in selectable:
            raise ApiError(400, "BadRequest", f"field label not supported: {field}")
        terms.append(FieldTerm(field, value, operator != "!="))
    return FieldSelector(tuple(terms))
