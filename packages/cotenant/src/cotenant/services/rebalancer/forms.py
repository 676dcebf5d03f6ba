"""Parts that the args of several plugins share, and checks of values. An unknown key is refused by name."""

from __future__ import annotations

from difflib import get_close_matches
from math import isfinite
from typing import TypeVar

import msgspec

from cotenant.drivers.kube.kinds.selectors import Selector, SelectorExpression, read_label_selector
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.document import split_refusal
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.policy.rebalance.migration.workload_limits import ReplicaShare

T = TypeVar("T")


class RebalancerForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Base of the parts: an unknown key is refused."""


class ExpressionForm(RebalancerForm, frozen=True):
    """One expression of a selector."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class SelectorForm(RebalancerForm, frozen=True):
    """A label selector."""

    match_labels: dict[str, str] = {}
    match_expressions: list[ExpressionForm] = []


class NamespacesForm(RebalancerForm, frozen=True):
    """Namespaces, by inclusion or exclusion."""

    include: list[str] = []
    exclude: list[str] = []


def rate_of(value: float | str, field: str) -> float:
    """A rate above 0."""
    try:
        rate = float(value)
    except ValueError:
        rate = 0.0
    if not (rate > 0 and isfinite(rate)):
        raise InvalidInput(field, value, "a number above 0")
    return rate


def convert(form: type[T], given: JsonObject, field: str) -> T:
    """The args of a plugin. Raises `InvalidInput` about the field."""
    try:
        return msgspec.convert(given, form)
    except msgspec.ValidationError as error:
        said, path = split_refusal(error)
        known = [field_info.encode_name for field_info in msgspec.structs.fields(form)]  # type: ignore[arg-type]
        close = [name for key in given if key not in known for name in get_close_matches(key, known, n=1)]
        hint = f"did you mean {close[0]}?" if close and not path else ""
        raise InvalidInput(
            f"{field}.{path}" if path else field, said, f"as {form.__name__.strip('_')}Args has it", hint
        ) from None


def selector_of(given: SelectorForm, field: str) -> LabelSelector | None:
    """The selector."""
    expressions = tuple(
        SelectorExpression(key=expression.key, operator=expression.operator, values=tuple(expression.values))
        for expression in given.match_expressions
    )
    return read_label_selector(Selector(match_labels=given.match_labels, match_expressions=expressions), field)


def first_selector(*given: tuple[SelectorForm | None, str]) -> LabelSelector | None:
    """The first that is given, with its field."""
    return next(
        (selector_of(selector_form, field) for selector_form, field in given if selector_form is not None), None
    )


def namespaces_of(given: NamespacesForm, field: str) -> NamespacesForm:
    """Refuse both at once."""
    if given.include and given.exclude:
        raise InvalidInput(field, "include and exclude", "one of them")
    return given


def share_of(value: int | str | None, field: str) -> ReplicaShare | None:
    """A number or percentage; None where it is not set."""
    return None if value is None else ReplicaShare.parse(value, field)


def one_of(value: str, known: tuple[str, ...], field: str) -> None:
    """Refuse what is not known."""
    if value not in known:
        raise InvalidInput(field, value, " or ".join(known))


def not_negative(value: int, field: str) -> int:
    """0 or more."""
    if value < 0:
        raise InvalidInput(field, value, "0 or more")
    return value


def positive(value: int, field: str) -> int:
    """1 or more."""
    if value < 1:
        raise InvalidInput(field, value, "1 or more")
    return value
