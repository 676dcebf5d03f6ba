"""Names in resource.k8s.io: drivers, pools, devices, requests, attributes; sizes of lists.

A driver's name is checked in lower case, as upstream does. Source: Kubernetes API reference resource.k8s.io/v1, and
what a server of 1.36 answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence

from cotenant.drivers.kube.manifests.errors import FieldError
from cotenant.model.json_object import JsonMapping, JsonValue
from cotenant_local.apiserver.schema.kinds import field_errors

MAX_DRIVER = 63
MAX_ATTRIBUTE_ID = 32
_MAX_POOL = 253
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_MESSAGE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
    "'[A-Za-z_][A-Za-z0-9_]*')"
)
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def too_long(field: str, limit: int) -> FieldError:
    """A text has too many bytes."""
    return FieldError("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def too_many(field: str, found: int, limit: int) -> FieldError:
    """A list has too many items."""
    return FieldError("FieldValueTooMany", f"Too many: {found}: must have at most {limit} items", field)


def label(name: str, field: str, causes: list[FieldError]) -> None:
    """Check a name that is an RFC 1123 label: of a device, a request, a counter."""
    if why := field_errors.label_problem(name):
        causes.append(field_errors.invalid(field, name, why))


def driver(name: str, field: str, causes: list[FieldError]) -> None:
    """Check a driver's name."""
    if not name:
        causes.append(field_errors.required(field))
        return
    if len(name) > MAX_DRIVER:
        causes.append(too_long(field, MAX_DRIVER))
    if why := field_errors.subdomain_problem(name.lower()):
        causes.append(field_errors.invalid(field, name, why))


def pool(name: str, field: str, causes: list[FieldError]) -> None:
    """Check a pool's name: RFC 1123 subdomains, separated by slashes."""
    if not name:
        causes.append(field_errors.required(field))
        return
    if len(name) > _MAX_POOL:
        causes.append(too_long(field, _MAX_POOL))
    causes += [
        field_errors.invalid(field, part, why)
        for part in name.split("/")
        if (why := field_errors.subdomain_problem(part))
    ]


def device_class(name: str, field: str, causes: list[FieldError]) -> None:
    """Check the required name of a DeviceClass."""
    if not name:
        causes.append(field_errors.required(field))
    elif why := field_errors.subdomain_problem(name):
        causes.append(field_errors.invalid(field, name, why))


def uid(text: str, field: str, causes: list[FieldError]) -> None:
    """Check a UID in its normal form."""
    if not _UID.fullmatch(text):
        why = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
            "hexadecimal characters"
        )
        causes.append(field_errors.invalid(field, text, why))


def qualified(name: str, field: str, causes: list[FieldError]) -> None:
    """Check the name of an attribute or a capacity: a C identifier, perhaps behind a domain. A name with more slashes
    is not checked, as upstream does not.
    """
    if name.count("/") > 1:
        return
    domain, slash, identifier = name.rpartition("/")
    if slash:
        if domain:
            driver(domain, field, causes)
        else:
            causes.append(field_errors.invalid(field, "", "the domain must not be empty"))
        if not identifier:
            causes.append(field_errors.invalid(field, "", "the name must not be empty"))
            return
    if len(identifier) > MAX_ATTRIBUTE_ID:
        causes.append(too_long(field, MAX_ATTRIBUTE_ID))
    if not _IDENTIFIER.fullmatch(identifier):
        causes.append(field_errors.invalid(field, identifier, _IDENTIFIER_MESSAGE))


def fully_qualified(name: str, field: str, causes: list[FieldError]) -> None:
    """Check the name of an attribute that must have a domain."""
    qualified(name, field, causes)
    if "/" not in name:
        why = "a fully qualified name must be a domain and a name separated by a slash"
        causes.append(field_errors.invalid(field, name, why))


def label_key(name: str, field: str, causes: list[FieldError]) -> None:
    """Check a qualified name, as of labels, conditions and taints."""
    if why := field_errors.key_problem(name):
        causes.append(field_errors.invalid(field, name, why))


def items(
    found: Sequence[JsonValue],
    limit: int,
    check: Callable[[JsonValue, str, list[FieldError]], None],
    field: str,
    causes: list[FieldError],
    key: Callable[[JsonValue], Hashable] | None = None,
    shown: Callable[[JsonValue], JsonValue] | None = None,
) -> None:
    """Check a list: its size, then each item, then that no key is there twice. A list that is too long is not read."""
    if len(found) > limit:
        causes.append(too_many(field, len(found), limit))
        return
    for index, item in enumerate(found):
        check(item, f"{field}[{index}]", causes)
    if key is None:
        return
    seen: set[Hashable] = set()
    for index, item in enumerate(found):
        if key(item) in seen:
            causes.append(field_errors.duplicate(f"{field}[{index}]", (shown or key)(item)))
        seen.add(key(item))


def named(
    found: JsonMapping,
    limit: int | None,
    check_key: Callable[[str, str, list[FieldError]], None],
    check: Callable[[JsonValue, str, list[FieldError]], None],
    field: str,
    causes: list[FieldError],
) -> None:
    """Check a map: its size, then each name and value."""
    if limit is not None and len(found) > limit:
        causes.append(too_many(field, len(found), limit))
        return
    for name, value in found.items():
        check_key(name, field, causes)
        check(value, f"{field}[{_shortened(name)}]", causes)


def _shortened(name: str) -> str:
    """As upstream shows a key that is far too long."""
    limit = MAX_DRIVER + 1 + MAX_ATTRIBUTE_ID
    if len(name) <= limit:
        return name
    left = limit - 3
    return f"{name[: (left + 1) // 2]}...{name[-(left // 2) :]}"
