"""Selectors of devices, each result evaluated once.

A cluster has a hundred thousand devices of a dozen kinds. Which attributes an expression reads is found in its syntax
tree, so devices that are alike in these have one result, whatever serial numbers they have. An expression that goes
over attributes in other ways depends on all of them.

Source: Kubernetes API reference, CELDeviceSelector: `device.driver`, `device.attributes`, `device.capacity`,
`device.allowMultipleAllocations`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import lark
from celpy import celtypes

from cotenant.drivers.cel.evaluation import CelExpression, Meter, path_of
from cotenant.drivers.cel.library import CelQuantity, CelVersion
from cotenant.model.claims.devices import AttributeValue, AttributeValues, OfferedDevice, Version
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject

_MAX_EXPRESSIONS = 1024
_MAX_RESULTS = 200_000  # of one expression
STEPS_OF_CHARACTER = 2  # to read an expression: about 20 us for a character
_MAX_NAMES = 10_000  # of attributes, for one expression


class CelSelectors:
    """Evaluates selectors; implements `Selectors` of engine/rules/claims/selecting.py."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._known: dict[str, _Known | InvalidInput] = {}

    @property
    def spent(self) -> int:
        """Steps of all evaluations so far, and of reading their expressions."""
        return self._meter.spent

    def matches(self, expression: str, driver: str, device: OfferedDevice) -> bool:
        """Whether a device of a driver is selected. Raises `InvalidInput` where the expression has no answer."""
        known = self._known.get(expression)
        if known is None:
            if len(self._known) >= _MAX_EXPRESSIONS:
                self._known.clear()
            try:
                known = _Known(expression)
            except InvalidInput as error:
                known = error
            self._meter.spent += len(expression) * STEPS_OF_CHARACTER
            self._known[expression] = known
        if isinstance(known, InvalidInput):
            raise known
        return known.holds(driver, device, self._meter)


class _Known:
    """An expression with its results."""

    def __init__(self, text: str) -> None:
        self._expression = CelExpression(text)
        try:
            self._reads = _reads(self._expression.tree)
        except RecursionError:
            raise InvalidInput("selector", text, "an expression", "it is nested too deeply") from None
        self._results: dict[Hashable, bool | InvalidInput] = {}
        self._read: tuple[dict[tuple[str, str], bool], ...] = ({}, {})  # of attributes, of capacity: driver, name

    def holds(self, driver: str, device: OfferedDevice, meter: Meter) -> bool:
        key = self._key(driver, device)
        result = self._results.get(key)
        if result is None:
            try:
                result = self._expression.evaluate(_variables(driver, device), meter)
            except InvalidInput as error:
                result = error
            if len(self._results) >= _MAX_RESULTS:
                self._results.clear()
            self._results[key] = result
        if isinstance(result, InvalidInput):
            raise result
        return result

    def _key(self, driver: str, device: OfferedDevice) -> Hashable:
        if self._reads is None:
            return driver, device.is_shared, device.attributes, device.capacity, _types(device)
        found: list[Hashable] = [driver, device.is_shared]
        of_attributes, of_capacity = self._read
        for name, value in device.attributes:
            is_read = of_attributes.get((driver, name))
            if is_read if is_read is not None else self._learn(of_attributes, "attributes", driver, name):
                found.append((name, type(value), value))
        for name, amount in device.capacity:
            is_read = of_capacity.get((driver, name))
            if is_read if is_read is not None else self._learn(of_capacity, "capacity", driver, name):
                found.append((True, name, amount))
        return tuple(found)

    def _learn(self, known: dict[tuple[str, str], bool], kind: str, driver: str, name: str) -> bool:
        if len(known) >= _MAX_NAMES:
            known.clear()
        found = any(path[0] == kind and _is_read(name, driver, path) for path in self._reads or ())
        known[driver, name] = found
        return found


def _types(device: OfferedDevice) -> Hashable:
    return tuple(type(value) for _, value in device.attributes)  # 1 and true are equal in Python


def _is_read(name: str, driver: str, path: tuple[str, ...]) -> bool:
    domain, _, short = name.rpartition("/")
    return (domain or driver) == path[1] and (len(path) == 2 or short == path[2])


def _reads(tree: lark.Tree[lark.Token]) -> tuple[tuple[str, ...], ...] | None:
    """What is read of a device: (attributes or capacity, domain[, name]); None where it cannot be told."""
    found: dict[tuple[str, ...], None] = {}
    left: list[object] = [tree]
    while left:
        node = left.pop()
        if not isinstance(node, lark.Tree):
            continue
        path = path_of(node)
        if path is None or path[0] != "device":
            left.extend(node.children)
        elif len(path) >= 3 and path[1] in ("attributes", "capacity"):
            found[path[1:4]] = None
        elif path[1:] not in (("driver",), ("allowMultipleAllocations",)):
            return None
    return tuple(sorted(found))


class _Domains(celtypes.MapType):
    """Attributes by domain: a domain that a device does not have is empty."""

    def __getitem__(self, key: object) -> Any:
        return super().__getitem__(key) if key in self else celtypes.MapType()

    def get(self, key: object, default: object = None) -> Any:
        return self[key]


def _variables(driver: str, device: OfferedDevice) -> celtypes.MapType:
    attributes = {name: _value(value) for name, value in device.attributes}
    capacity = {name: CelQuantity(found.value) for name, found in device.capacity}
    return celtypes.MapType(
        {
            celtypes.StringType("driver"): celtypes.StringType(driver),
            celtypes.StringType("allowMultipleAllocations"): celtypes.BoolType(device.is_shared),
            celtypes.StringType("attributes"): _domains(driver, attributes),
            celtypes.StringType("capacity"): _domains(driver, capacity),
        }
    )


def _domains(driver: str, values: JsonObject) -> _Domains:
    found: dict[str, dict[Any, Any]] = {}
    for name, value in values.items():
        domain, _, short = name.rpartition("/")
        found.setdefault(domain or driver, {})[celtypes.StringType(short)] = value
    return _Domains({celtypes.StringType(domain): celtypes.MapType(names) for domain, names in found.items()})


def _value(value: AttributeValue) -> Any:
    if isinstance(value, AttributeValues):
        return celtypes.ListType([_value(one) for one in value.all])
    if isinstance(value, Version):
        return CelVersion(value.text)
    if isinstance(value, bool):
        return celtypes.BoolType(value)
    return celtypes.IntType(value) if isinstance(value, int) else celtypes.StringType(value)
