"""Selectors of devices, in CEL: whether an expression is one, before anything evaluates it.

What is checked: the syntax, names of variables, fields of `device` and functions, that operands of a comparison may be
compared, and that the value may be a bool. The worst cost is estimated roughly: one for each step, and a macro repeats
its body for each item that a device may have.

Source: the CEL environment of KEP-4381 with allowMultipleAllocations of KEP-5075; Kubernetes, "CEL cost".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.claims import names

MAX_LENGTH = 10 * 1024
MAX_COST = 1_000_000
_DEVICE_FIELDS = {
    "driver": "string",
    "attributes": "map of attributes",
    "capacity": "map of capacities",
    "allowMultipleAllocations": "bool",
}
_OF_A_DOMAIN = {"map of attributes": "attributes", "map of capacities": "capacities"}
_ITEMS = {"attributes": "dyn", "capacities": "quantity"}
_MAX_ITEMS = 32  # of any map that a device has
_MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
_RESULTS = {
    **dict.fromkeys(
        (
            "startsWith", "endsWith", "contains", "matches", "has", "isLessThan", "isGreaterThan", "isInteger",
            "isQuantity", "isSemver", "isURL", "isIP", "isCIDR", "containsIP", "containsCIDR", "isSorted", "bool",
        ),
        "bool",
    ),
    **dict.fromkeys(
        ("size", "compareTo", "sign", "asInteger", "major", "minor", "patch", "int", "indexOf", "lastIndexOf",
         "getHours", "getMinutes", "getSeconds", "getDayOfWeek", "getFullYear"),
        "int",
    ),
    **dict.fromkeys(
        ("lowerAscii", "upperAscii", "trim", "replace", "substring", "charAt", "join", "find", "string", "format"),
        "string",
    ),
    **dict.fromkeys(("quantity", "add", "sub"), "quantity"),
    **dict.fromkeys(("semver",), "semver"),
    **dict.fromkeys(("split", "findAll", "reverse", "sort", "distinct", "flatten", "slice"), "list"),
    **dict.fromkeys(("double", "asApproximateFloat"), "double"),
    **dict.fromkeys(
        ("dyn", "min", "max", "sum", "first", "last", "optional", "orValue", "value", "hasValue", "type", "uint",
         "bytes", "duration", "timestamp", "ip", "cidr", "url", "family", "isCanonical", "getHost", "getHostname",
         "getPort", "getScheme", "getEscapedPath", "getQuery", "masked", "prefixLength", "bind"),
        "dyn",
    ),
}  # fmt: skip
_NAMESPACES = frozenset({"optional", "math", "sets", "strings", "lists"})
_NUMBERS = {"int", "uint", "double"}
_TYPES = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "type"})
_ORDERED = {
    "relation_lt": "_<_",
    "relation_le": "_<=_",
    "relation_gt": "_>_",
    "relation_ge": "_>=_",
    "relation_eq": "_==_",
    "relation_ne": "_!=_",
}


def check(selector: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check one selector of a request or a class."""
    found = selector.get("cel")
    if found is None:
        causes.append(field_errors.required(f"{field}.cel"))
        return
    expression, here = found.get("expression", ""), f"{field}.cel.expression"
    if len(expression.encode()) > MAX_LENGTH:
        causes.append(names.too_long(here, MAX_LENGTH))
    elif why := problem(expression):
        causes.append(field_errors.invalid(here, expression, why))
    elif _worst_cost(expression) > MAX_COST:
        causes.append(field_errors.forbidden(here, "too complex, exceeds cost limit"))


class _Node(Protocol):
    """A node of the parser's tree, as far as it is read here."""

    data: str
    children: Sequence[Any]


class _Refused(Exception):
    """An expression that no device can be judged by."""


@lru_cache(4096)
def problem(expression: str) -> str:
    """Why an expression is not one; empty where it is."""
    try:
        kind = _Typed().kind(_parsed(expression), {"device": "device"})
    except _Refused as error:
        return f"compilation failed: ERROR: <input>: {error.args[0]}"
    except RecursionError:
        return "compilation failed: ERROR: <input>: it is nested too deeply"
    except Exception as error:  # a macro or call whose arguments are not what it takes
        return f"compilation failed: ERROR: <input>: unexpected arguments ({type(error).__name__})"
    if kind not in ("bool", "dyn"):
        return f"must evaluate to bool or the unknown type, not {kind}"
    return ""


@lru_cache(4096)
def _worst_cost(expression: str) -> int:
    try:
        return _cost(_parsed(expression))
    except RecursionError:
        return MAX_COST + 1


def _parsed(expression: str) -> Any:
    from celpy import Environment

    try:
        return Environment().compile(expression)
    except Exception as error:  # of the parser, and of what it is made of
        raise _Refused(f"Syntax error: {' '.join(str(error).split())[:200]}") from None


def _cost(tree: _Node) -> int:
    if not hasattr(tree, "children"):
        return 0
    if tree.data == "member_dot_arg" and str(tree.children[1]) in _MACROS:
        subject, arguments = tree.children[0], tree.children[2:]
        literal = next(iter(subject.find_data("list_lit")), None) if hasattr(subject, "find_data") else None
        items = len(literal.children[0].children) if literal is not None and literal.children else _MAX_ITEMS
        return _cost(subject) + items * sum(max(1, _cost(argument)) for argument in arguments)
    is_step = (
        tree.data in ("ident", "member_dot", "member_index", "member_dot_arg", "ident_arg") or len(tree.children) > 1
    )
    return int(is_step) + sum(_cost(child) for child in tree.children)


Scope = dict[str, str]


class _Typed:
    """The type of each part; "dyn" where it is known only with a device."""

    def kind(self, tree: _Node, scope: Scope) -> str:
        """The type of a part. Raises `_Refused`."""
        by_name = getattr(self, f"_{tree.data}", None)
        if by_name is not None:
            found: str = by_name(tree, scope)
            return found
        if len(tree.children) == 1 and hasattr(tree.children[0], "data"):
            return self.kind(tree.children[0], scope)
        for child in tree.children:
            if hasattr(child, "data"):
                self.kind(child, scope)
        return "dyn"

    def _expr(self, tree: _Node, scope: Scope) -> str:
        if len(tree.children) == 1:
            return self.kind(tree.children[0], scope)
        condition, *branches = [self.kind(child, scope) for child in tree.children]
        self._want_bool("_?_:_", [condition])
        if "dyn" not in branches and branches[0] != branches[1]:
            raise _no_overload("_?_:_", [condition, *branches])
        return branches[0] if branches[0] == branches[1] else "dyn"

    def _conditionalor(self, tree: _Node, scope: Scope) -> str:
        return self._logical(tree, scope, "_||_")

    def _conditionaland(self, tree: _Node, scope: Scope) -> str:
        return self._logical(tree, scope, "_&&_")

    def _logical(self, tree: _Node, scope: Scope, operator: str) -> str:
        kinds = [self.kind(child, scope) for child in tree.children]
        if len(kinds) == 1:
            return kinds[0]
        self._want_bool(operator, kinds)
        return "bool"

    def _want_bool(self, operator: str, kinds: list[str]) -> None:
        if any(kind not in ("bool", "dyn") for kind in kinds):
            raise _no_overload(operator, kinds)

    def _relation(self, tree: _Node, scope: Scope) -> str:
        if len(tree.children) == 1:
            return self.kind(tree.children[0], scope)
        operator, right = tree.children
        kinds = [self.kind(operator.children[0], scope), self.kind(right, scope)]
        sign = _ORDERED.get(operator.data)
        is_of_numbers = sign not in (None, "_==_", "_!=_") and set(kinds) <= _NUMBERS
        if sign is not None and "dyn" not in kinds and not is_of_numbers and len(set(map(_plain, kinds))) > 1:
            raise _no_overload(sign, kinds)
        return "bool"

    def _unary(self, tree: _Node, scope: Scope) -> str:
        kind = self.kind(tree.children[-1], scope)
        if len(tree.children) > 1 and tree.children[0].data == "unary_not":
            self._want_bool("!_", [kind])
            return "bool"
        return kind

    def _addition(self, tree: _Node, scope: Scope) -> str:
        return self._arithmetic(tree, scope)

    def _multiplication(self, tree: _Node, scope: Scope) -> str:
        return self._arithmetic(tree, scope)

    def _arithmetic(self, tree: _Node, scope: Scope) -> str:
        if len(tree.children) == 1:
            return self.kind(tree.children[0], scope)
        operator, right = tree.children
        kinds = [self.kind(operator.children[0], scope), self.kind(right, scope)]
        if "dyn" in kinds:
            return "dyn"
        if kinds[0] != kinds[1]:
            raise _no_overload(str(operator.data), kinds)
        return kinds[0]

    def _ident(self, tree: _Node, scope: Scope) -> str:
        name = str(tree.children[0])
        if name in scope:
            return scope[name]
        if name in _TYPES:
            return "type"
        if name in _NAMESPACES:
            return "dyn"
        raise _Refused(f"undeclared reference to '{name}' (in container '')")

    def _literal(self, tree: _Node, _: Scope) -> str:
        token = tree.children[0]
        kinds = {
            "INT_LIT": "int",
            "UINT_LIT": "uint",
            "FLOAT_LIT": "double",
            "BOOL_LIT": "bool",
            "BYTES_LIT": "bytes",
            "NULL_LIT": "null_type",
        }
        return kinds.get(token.type, "string")

    def _list_lit(self, tree: _Node, scope: Scope) -> str:
        kinds = {self.kind(item, scope) for child in tree.children for item in child.children}
        return f"list of {kinds.pop()}" if len(kinds) == 1 else "list"

    def _map_lit(self, tree: _Node, scope: Scope) -> str:
        for child in tree.children:
            self.kind(child, scope)
        return "map"

    def _member_dot(self, tree: _Node, scope: Scope) -> str:
        kind, name = self.kind(tree.children[0], scope), str(tree.children[1])
        if kind == "device":
            if name not in _DEVICE_FIELDS:
                raise _Refused(f"undefined field '{name}'")
            return _DEVICE_FIELDS[name]
        return self._item(kind)

    def _member_index(self, tree: _Node, scope: Scope) -> str:
        kind, index = self.kind(tree.children[0], scope), self.kind(tree.children[1], scope)
        if kind in (*_OF_A_DOMAIN, *_ITEMS) and index not in ("string", "dyn"):
            raise _no_overload("_[_]", [kind, index])
        return _item_of_list(kind) if kind == "map" or kind.startswith("list") else self._item(kind)

    def _item(self, kind: str) -> str:
        if kind in _OF_A_DOMAIN:
            return _OF_A_DOMAIN[kind]
        if kind in _ITEMS:
            return _ITEMS[kind]
        if kind in ("dyn", "map"):
            return "dyn"
        raise _Refused(f"type '{kind}' does not support field selection")

    def _member_dot_arg(self, tree: _Node, scope: Scope) -> str:
        subject, name = tree.children[0], str(tree.children[1])
        arguments = list(tree.children[2].children) if len(tree.children) > 2 else []
        if name == "bind" and "cel" in [str(one) for one in subject.scan_values(lambda _: True)]:
            bound = str(next(iter(arguments[0].find_data("ident"))).children[0])
            return self.kind(arguments[2], {**scope, bound: self.kind(arguments[1], scope)})
        kind = self.kind(subject, scope)
        if name in _MACROS and arguments and list(arguments[0].find_data("ident")):
            variable = str(next(iter(arguments[0].find_data("ident"))).children[0])
            item = "string" if kind in (*_OF_A_DOMAIN, *_ITEMS) else _item_of_list(kind)
            for argument in arguments[1:]:
                self.kind(argument, {**scope, variable: item})
            return "list" if name in ("map", "filter") else "bool"
        return self._called(name, arguments, scope)

    def _ident_arg(self, tree: _Node, scope: Scope) -> str:
        arguments = list(tree.children[1].children) if len(tree.children) > 1 else []
        return self._called(str(tree.children[0]), arguments, scope)

    def _called(self, name: str, arguments: Sequence[_Node], scope: Scope) -> str:
        if name not in _RESULTS:
            raise _Refused(f"undeclared reference to '{name}' (in container '')")
        for argument in arguments:
            self.kind(argument, scope)
        return _RESULTS[name]


def _item_of_list(kind: str) -> str:
    return kind.removeprefix("list of ") if kind.startswith("list of ") else "dyn"


def _plain(kind: str) -> str:
    """What may be compared with one another has the same plain type."""
    if kind in (*_OF_A_DOMAIN, *_ITEMS):
        return "map"
    return "list" if kind.startswith("list") else kind


def _no_overload(operator: str, kinds: list[str]) -> _Refused:
    return _Refused(f"found no matching overload for '{operator}' applied to '({', '.join(kinds)})'")
