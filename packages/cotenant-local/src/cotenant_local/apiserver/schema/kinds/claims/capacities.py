"""Capacities of devices, and which amounts of them may be asked for: rules.

Source: KEP-5075, and what a server of 1.36 answers.
"""

from __future__ import annotations

from itertools import pairwise

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant.model.quantities import NANO
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.claims import names

_MAX_OPTIONS = 10


def check_whole(capacity: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check a capacity of a device that is given to one request only."""
    if "requestPolicy" in capacity:
        causes.append(field_errors.forbidden(f"{field}.requestPolicy", "allowMultipleAllocations must be true"))


def check_shared(capacity: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check a capacity of a device that several requests share."""
    policy, here = capacity.get("requestPolicy"), f"{field}.requestPolicy"
    if policy is None:
        return
    values, valid = policy.get("validValues") or [], policy.get("validRange")
    if values and valid is not None:
        why = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        causes.append(field_errors.forbidden(here, why))
        return
    default = policy.get("default")
    for name, given in (("validValues", bool(values)), ("validRange", valid is not None)):
        if given and default is None:
            causes.append(field_errors.required(f"{here}.default", f"required when {name} is defined"))
            return
    if default is None:
        return
    if values:
        _check_values(default, capacity.get("value", "0"), values, f"{here}.validValues", causes)
    elif valid is not None:
        _check_range(default, capacity.get("value", "0"), valid, f"{here}.validRange", causes)


def _check_values(default: str, capacity: str, values: list[str], field: str, causes: list[FieldError]) -> None:
    nano = field_errors.nano
    for index, (before, after) in enumerate(pairwise(values), 1):
        if nano(before) > nano(after):
            causes.append(field_errors.invalid(f"{field}[{index}]", after, "values must be sorted in ascending order"))

    def option(value: str, here: str, causes: list[FieldError]) -> None:
        if nano(value) > nano(capacity):
            why = f"option is larger than capacity value: {capacity}"
            causes.append(field_errors.invalid(here, value, why))

    names.items(values, _MAX_OPTIONS, option, field, causes, lambda one: str(_whole(one)))
    if all(nano(value) != nano(default) for value in values):
        causes.append(field_errors.invalid(field, default, "default value is not valid according to the requestPolicy"))


def _check_range(default: str, capacity: str, valid: Manifest, field: str, causes: list[FieldError]) -> None:
    nano = field_errors.nano
    least, most, step = valid.get("min"), valid.get("max"), valid.get("step")
    if least is None:
        causes.append(field_errors.required(f"{field}.min", "required when validRange is defined"))
        return

    def refuse(name: str, value: str, why: str) -> None:
        causes.append(field_errors.invalid(f"{field}.{name}", value, why))

    if nano(least) > nano(capacity):
        refuse("min", least, f"min is larger than capacity value: {capacity}")
    if nano(default) < nano(least):
        refuse("min", default, f"default is less than min: {least}")
    if most is not None:
        if nano(least) > nano(most):
            refuse("max", least, f"min is larger than max: {most}")
        if nano(most) > nano(capacity):
            refuse("max", most, f"max is larger than capacity value: {capacity}")
        if nano(default) > nano(most):
            refuse("max", default, f"default is more than max: {most}")
    if step is None:
        return
    if nano(least) + nano(step) > nano(capacity):
        refuse("step", step, f"one step is larger than capacity value: {capacity}")
    for value in (default, most):
        if value is not None and _whole(step) and (_whole(value) - _whole(least)) % _whole(step):
            refuse("step", value, f"value is not a multiple of a given step ({step}) from ({least})")


def _whole(amount: str) -> int:
    """Rounded up, as upstream compares."""
    return -(-field_errors.nano(amount) // NANO)
