"""Object names: validation per kind, and generation from a prefix.

Sources: Kubernetes documentation "Object Names and IDs"; API conventions for generateName (a prefix of at most 58
characters, five random characters of an alphabet without vowels and easily confused digits, so that no word appears).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cotenant.drivers.kube.manifests.errors import FieldError

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
RANDOM_LENGTH = 5
MAX_NAME = 63
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_LABEL_RE = re.compile(_LABEL)
_SUBDOMAIN_RE = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")

SUBDOMAIN = "subdomain"
LABEL = "label"
PATH = "path"
ANY_PREFIX = "any prefix"  # core events: old clients use arbitrary prefixes

_SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric "
    "character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
# Kinds whose name rule differs from a DNS subdomain.
_FORMS: dict[tuple[str, str], str] = {
    ("", "namespaces"): LABEL,
    ("", "services"): LABEL,
    ("", "events"): ANY_PREFIX,
}


def form_of(group: str, plural: str) -> str:
    """The name rule of a resource."""
    return _FORMS.get((group, plural), SUBDOMAIN)


def problem(name: str, form: str) -> str:
    """Why a name violates a rule, empty if it is valid."""
    if form == PATH:
        if name in (".", "..") or "/" in name or "%" in name:
            return "may not be '.' or '..' and may not contain '/' or '%'"
        return ""
    if form == SUBDOMAIN:
        if len(name) > 253:
            return "must be no more than 253 characters"
        return "" if _SUBDOMAIN_RE.fullmatch(name) else _SUBDOMAIN_MESSAGE
    if len(name) > MAX_NAME:
        return f"must be no more than {MAX_NAME} characters"
    return "" if _LABEL_RE.fullmatch(name) else _LABEL_MESSAGE


def check(name: str, generate_name: str, form: str) -> list[FieldError]:
    """Validation errors of an object's name and generateName."""
    causes: list[FieldError] = []
    if form == ANY_PREFIX:
        generate_name, form = "", SUBDOMAIN
    if generate_name:
        # A prefix may end with '-', since five characters follow; '.' may not come before them.
        shown = generate_name[:-1] + "a" if generate_name.endswith("-") else generate_name
        if why := problem(shown, form):
            causes.append(
                FieldError("FieldValueInvalid", f'Invalid value: "{generate_name}": {why}', "metadata.generateName")
            )
    if not name:
        causes.append(
            FieldError("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
        )
    elif why := problem(name, form):
        causes.append(FieldError("FieldValueInvalid", f'Invalid value: "{name}": {why}', "metadata.name"))
    return causes


def generate(prefix: str, choose: Callable[[str], str]) -> str:
    """Generate a name from a prefix; `choose` picks one character of a string (random.choice, or a test's)."""
    return prefix[: MAX_NAME - RANDOM_LENGTH] + "".join(choose(ALPHABET) for _ in range(RANDOM_LENGTH))
