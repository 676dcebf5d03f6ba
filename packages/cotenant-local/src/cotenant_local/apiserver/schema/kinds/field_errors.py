"""Validation errors of fields, worded as in Kubernetes, and the syntax checks of names, labels and numbers.

Clients match on these messages, and each kind needs the same few checks. One function per reason (as apimachinery's
`field` package) and one per rule, with results cached for repeated texts.
Sources: Kubernetes documentation, Object Names and IDs, Labels and Selectors; the reasons of `StatusCause`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from cotenant.drivers.kube.manifests.errors import FieldError
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonValue
from cotenant.model.quantities import NANO, parse_quantity

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PORT_NAME = re.compile(r"[a-z0-9-]+")

LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric "
    "character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NAME_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"


def shown(value: object) -> str:
    """A value as formatted in causes: text quoted, objects as JSON."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 1000 else text[:1000] + "..."


def required(field: str, detail: str = "") -> FieldError:
    """A required field is missing."""
    return FieldError("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", field)


def invalid(field: str, value: object, detail: str) -> FieldError:
    """A value violates a rule."""
    return FieldError("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", field)


def unsupported(field: str, value: object, supported: Iterable[str]) -> FieldError:
    """A value is not one of the supported values."""
    listed = ", ".join(f'"{name}"' for name in sorted(supported))
    return FieldError("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}", field)


def duplicate(field: str, value: object) -> FieldError:
    """A value that must be unique is repeated."""
    return FieldError("FieldValueDuplicate", f"Duplicate value: {shown(value)}", field)


def forbidden(field: str, detail: str) -> FieldError:
    """A field may not be set."""
    return FieldError("FieldValueForbidden", f"Forbidden: {detail}", field)


def not_found(field: str, value: object) -> FieldError:
    """A reference has no target."""
    return FieldError("FieldValueNotFound", f"Not found: {shown(value)}", field)


@lru_cache(maxsize=16_384)
def label_problem(text: str) -> str:
    """Why a text is not an RFC 1123 label; empty if it is one."""
    if len(text) > 63:
        return "must be no more than 63 characters"
    return "" if _LABEL.fullmatch(text) else LABEL_MESSAGE


@lru_cache(maxsize=16_384)
def subdomain_problem(text: str) -> str:
    """Why a text is not an RFC 1123 subdomain; empty if it is one."""
    if len(text) > 253:
        return "must be no more than 253 characters"
    return "" if _SUBDOMAIN.fullmatch(text) else SUBDOMAIN_MESSAGE


@lru_cache(maxsize=16_384)
def key_problem(text: str) -> str:
    """Why a text is not a label key (a qualified name); empty if it is one."""
    prefix, slash, name = text.rpartition("/")
    if slash:
        if not prefix:
            return "prefix part must be non-empty"
        if (why := subdomain_problem(prefix)) or "/" in prefix:
            return f"prefix part {why}" if why else "a qualified name has at most one '/'"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 characters"
    return "" if _NAME_PART.fullmatch(name) else _NAME_MESSAGE


@lru_cache(maxsize=16_384)
def value_problem(text: str) -> str:
    """Why a text is not a label value; empty if it is one."""
    if len(text) > 63:
        return "must be no more than 63 characters"
    return "" if not text or _NAME_PART.fullmatch(text) else _VALUE_MESSAGE


@lru_cache(maxsize=4096)
def port_name_problem(text: str) -> str:
    """Why a text is not a port name (IANA service name); empty if it is one."""
    if len(text) > 15:
        return "must be no more than 15 characters"
    if not _PORT_NAME.fullmatch(text):
        return "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not any(name.isalpha() for name in text):
        return "must contain at least one letter (a-z)"
    if "--" in text:
        return "must not contain consecutive hyphens"
    return "must not begin or end with a hyphen" if text[0] == "-" or text[-1] == "-" else ""


@lru_cache(maxsize=16_384)
def nano(text: str) -> int:
    """A decoded quantity in nano units."""
    try:
        return parse_quantity(text).nano
    except InvalidInput:  # only if the object was not decoded before
        return 0


def is_whole(amount_nano: int) -> bool:
    """Whether an amount is a whole number."""
    return amount_nano % NANO == 0


def labels(pairs: JsonValue, field: str, causes: list[FieldError]) -> None:
    """Check a map of labels."""
    for key, value in pairs.items():
        if why := key_problem(key):
            causes.append(invalid(field, key, why))
        if why := value_problem(value):
            causes.append(invalid(field, value, why))


def not_negative(value: JsonValue, field: str, causes: list[FieldError]) -> None:
    """Check that a number, if set, is not negative."""
    if value is not None and value < 0:
        causes.append(invalid(field, value, NOT_NEGATIVE))


def one_of(value: object, supported: frozenset[str], field: str, causes: list[FieldError]) -> None:
    """Check that a value is one of a set."""
    if value not in supported:
        causes.append(unsupported(field, value, supported) if value else required(field))


def port(value: JsonValue, field: str, causes: list[FieldError]) -> None:
    """Check a port number."""
    if not 1 <= value <= 65535:
        causes.append(invalid(field, value, "must be between 1 and 65535, inclusive"))


def port_or_name(value: object, field: str, causes: list[FieldError]) -> None:
    """Check a port given by number or name."""
    if isinstance(value, int):
        port(value, field, causes)
    elif why := port_name_problem(value):
        causes.append(invalid(field, value, why))


def immutable(new: object, old: object, field: str, causes: list[FieldError]) -> None:
    """Check that a field has not changed."""
    if new != old:
        causes.append(invalid(field, new, IMMUTABLE))
