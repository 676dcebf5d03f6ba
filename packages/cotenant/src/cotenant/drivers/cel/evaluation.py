"""Evaluation of one expression within a limit.

cel-python interprets the syntax tree. Here every node that it visits is a step, and long texts and lists that a node
makes cost more: an expression ends after `MAX_STEPS`, whatever loops it has. `cel.bind` is added. Optional values
(`?.`, `[?]`) are not part of cel-python's grammar and are refused.
"""

from __future__ import annotations

from typing import Any, cast

import lark
from celpy import Environment, celtypes
from celpy.celparser import CELParseError
from celpy.evaluation import Activation, CELEvalError, Evaluator

from cotenant.drivers.cel.library import FUNCTIONS
from cotenant.model.errors import InvalidInput

MAX_STEPS = 10_000  # about 30 ms
MAX_TEXT = 10 * 1024  # characters of an expression, as in the API
_PART = 64  # characters or elements of a result that cost one step


class OutOfSteps(Exception):
    """The expression costs too much."""


class Meter:
    """Counts the steps of evaluations. `spent` is of all so far."""

    def __init__(self) -> None:
        self.spent = 0
        self._left = 0

    def begin(self) -> None:
        """The next evaluation starts."""
        self._left = MAX_STEPS

    def pay(self, steps: int) -> None:
        """Count steps. Raises `OutOfSteps`."""
        self.spent += steps
        self._left -= steps
        if self._left < 0:
            raise OutOfSteps


class _Metered(Evaluator):
    """cel-python's interpreter, which counts."""

    def __init__(self, ast: lark.Tree[Any], activation: Activation, meter: Meter) -> None:
        super().__init__(ast, activation)
        self._meter = meter

    def sub_evaluator(self, ast: lark.Tree[Any]) -> Evaluator:
        return _Metered(ast, self.activation, self._meter)

    def _visit_tree(self, tree: lark.Tree[Any]) -> Any:
        self._meter.pay(1)
        found = super()._visit_tree(tree)
        if isinstance(found, str | list | bytes) and len(found) >= _PART:
            self._meter.pay(len(found) // _PART)
        return found

    def visit(self, tree: lark.Tree[Any]) -> Any:
        return self._visit_tree(tree)

    def member_dot_arg(self, tree: lark.Tree[Any]) -> Any:
        """A call of a method or macro, of which `cel.bind(name, value, expression)` is one more."""
        if tree.children[1] == "bind" and path_of(cast("lark.Tree[Any]", tree.children[0])) == ("cel",):
            arguments = tree.children[2].children if len(tree.children) == 3 else []
            if len(arguments) == 3:
                name = path_of(arguments[0])
                if name is not None and len(name) == 1:
                    return self._bound(name[0], arguments[1], arguments[2])
        return super().member_dot_arg(tree)

    def _bound(self, name: str, given: lark.Tree[Any], body: lark.Tree[Any]) -> Any:
        value = self.visit(given)
        if isinstance(value, CELEvalError):
            return value
        try:
            return self.sub_evaluator(body).evaluate({name: value})
        except CELEvalError as error:
            return error


class CelExpression:
    """A parsed expression over the variable `device`. Raises `InvalidInput` where it is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MAX_TEXT:
            raise InvalidInput("selector", text, f"at most {MAX_TEXT} characters")
        environment = Environment()
        try:
            self.tree = environment.compile(text)
            self._activation = environment.program(self.tree, functions=dict(FUNCTIONS)).new_activation()
        except Exception as error:  # of the parser, and of what it is made of
            raise InvalidInput("selector", text, "an expression in CEL", _unreadable(text, error)) from None

    def evaluate(self, device: Any, meter: Meter) -> bool:
        """Whether the expression holds. Raises `InvalidInput` where it has no value, or none that is true or false."""
        meter.begin()
        try:
            value = _Metered(self.tree, self._activation, meter).evaluate({"device": device})
        except OutOfSteps:
            takes = f"it takes more than {MAX_STEPS} steps for a device"
            raise InvalidInput("selector", self.text, f"an expression of at most {MAX_STEPS} steps", takes) from None
        except RecursionError:
            raise InvalidInput("selector", self.text, "an expression", "it is nested too deeply") from None
        except Exception as error:  # cel-python raises IndexError, AttributeError and others for odd expressions
            raise InvalidInput("selector", self.text, "a value for every device", _reason(error)) from None
        if not isinstance(value, celtypes.BoolType | bool):
            raise InvalidInput("selector", self.text, "true or false", f"it is a {type(value).__name__}")
        return bool(value)


def _unreadable(text: str, error: Exception) -> str:
    """Where the parser stopped: it marks the place under the line."""
    lines = str(error).splitlines()
    if not isinstance(error, CELParseError) or len(lines) < 2 or lines[-1].strip(" ") != "^":
        return "it cannot be read"
    at = lines[-1].index("^")
    what = "optional values are not read here" if "?" in lines[-2][max(0, at - 1) : at + 1] else "it cannot be read"
    return f"{what}: {lines[-2][max(0, at - 10) : at + 20].strip()}"


def _reason(error: Exception) -> str:
    parts = error.args[0] if error.args and isinstance(error.args[0], tuple) else error.args
    return " ".join(str(part) for part in parts if isinstance(part, str))[:200]


def path_of(tree: object) -> tuple[str, ...] | None:
    """The names of a chain of fields and literal keys, from its variable on; None for anything else."""
    if not isinstance(tree, lark.Tree):
        return None
    children = tree.children
    match str(tree.data):
        case "ident":
            return (str(children[0]),)
        case "member_dot":
            before = path_of(children[0])
            return (*before, str(children[1])) if before is not None else None
        case "member_index":
            before, key = path_of(children[0]), _literal(children[1])
            return (*before, key) if before is not None and key is not None else None
        case "paren_expr" | "exprlist" | "literal" | "map_lit" | "list_lit" | "ident_arg" | "member_dot_arg":
            return None
    return path_of(children[0]) if len(children) == 1 else None


def _literal(tree: object) -> str | None:
    while isinstance(tree, lark.Tree) and len(tree.children) == 1:
        if str(tree.data) == "literal":
            token = tree.children[0]
            text = str(token)
            if isinstance(token, lark.Token) and token.type == "STRING_LIT" and text[:1] in "\"'" and "\\" not in text:
                return text[1:-1]
            return None
        tree = tree.children[0]
    return None
