"""The changes of one source file: each is a small mistake that a person could make.

A change is made in the text, so that the rest of the file keeps its lines. What no test should notice is left out:
docstrings, annotations, texts, what is raised, logged or asserted, imports, `__all__`, decorators (so `slots=True`),
`strict=` of `zip` (an assertion, too), conditions under which something is only logged, and `TYPE_CHECKING`. That is
decided by the kind of text alone: what merely happens to make no difference counts as not noticed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
SAYING = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log", "print", "warn"})


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """One change. `line`: from 1; `begin`, `end`: character offsets in the file; `kind`: what sort of mistake."""

    line: int
    begin: int
    end: int
    kind: str
    replacement: str

    def apply(self, source: str) -> str:
        """The file with this change."""
        return source[: self.begin] + self.replacement + source[self.end :]


def changes(source: str) -> tuple[Change, ...]:
    """Every change of a file, in the order of its text."""
    tree = ast.parse(source)
    return tuple(sorted(set(_Finder(source).found(tree))))


class _Finder:
    def __init__(self, source: str) -> None:
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = source.splitlines()

    def found(self, tree: ast.Module) -> Iterator[Change]:
        for statement in tree.body:
            yield from self._statement(statement)

    def _offset(self, line: int, column: int) -> int:
        """Of a position of the syntax tree, whose columns count bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _text_of(self, node: ast.expr) -> str:
        begin, end = self._span(node)
        return self._source[begin:end]

    def _replace(self, node: ast.expr | ast.stmt, kind: str, text: str) -> Change:
        return Change(node.lineno, *self._span(node), kind, text)

    def _between(self, left: ast.expr, right: ast.expr, kind: str, sign: str) -> Iterator[Change]:
        """The sign between two operands, where nothing but the sign stands there."""
        begin, end = self._span(left)[1], self._span(right)[0]
        text = self._source[begin:end]
        if text.strip() and "\n" not in text and "(" not in text and ")" not in text:
            yield Change(left.end_lineno or left.lineno, begin, end, kind, f" {sign} ")

    def _statement(self, node: ast.stmt) -> Iterator[Change]:
        if isinstance(node, ast.If) and _only_says(node):
            return
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Assert() | ast.Global() | ast.Nonlocal():
                return
            case ast.Expr(value=ast.Constant()):
                return  # a docstring
            case ast.Expr(value=ast.Call() as call) if _says(call):
                return
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield self._replace(node, "call left out", "pass")
            case ast.AugAssign():
                yield self._replace(node, "update left out", "pass")
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield self._replace(value, "None returned", "None")
            case ast.If(test=test):
                yield self._replace(test, "condition true", "True")
                yield self._replace(test, "condition false", "False")
            case ast.Continue():
                yield self._replace(node, "continue", "break")
            case ast.Break():
                yield self._replace(node, "break", "continue")
            case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
                return
            case _:
                pass
        for name, value in ast.iter_fields(node):
            if name in ("decorator_list", "annotation", "returns", "type_params", "bases", "keywords"):
                continue
            for child in value if isinstance(value, list) else (value,):
                yield from self._child(child)

    def _child(self, child: object) -> Iterator[Change]:
        match child:
            case ast.stmt():
                yield from self._statement(child)
            case ast.expr():
                yield from self._expression(child)
            case ast.arguments():
                for default in (*child.defaults, *filter(None, child.kw_defaults)):
                    yield from self._expression(default)
            case ast.AST():
                for _, value in ast.iter_fields(child):
                    for below in value if isinstance(value, list) else (value,):
                        yield from self._child(below)
            case _:
                return

    def _expression(self, node: ast.expr) -> Iterator[Change]:
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in COMPARISONS:
                yield from self._between(left, right, "comparison", COMPARISONS[type(operator)])
            case ast.BoolOp(op=operator, values=[left, right]):
                yield from self._between(left, right, "and/or", "or" if isinstance(operator, ast.And) else "and")
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in ARITHMETIC and not _text(node):
                yield from self._between(left, right, "arithmetic", ARITHMETIC[type(operator)])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._replace(node, "not", f"({self._text_of(operand)})")
            case ast.IfExp(test=test):
                yield self._replace(test, "condition true", "True")
                yield self._replace(test, "condition false", "False")
            case ast.Constant(value=bool() as value):
                yield self._replace(node, "constant", str(not value))
            case ast.Constant(value=int() | float() as value):
                yield self._replace(node, "constant", repr(value + 1))
            case ast.Call(func=ast.Name(id=name) as function) if name in SWAPPED_CALLS:
                yield self._replace(function, "call", SWAPPED_CALLS[name])
            case ast.JoinedStr():
                return
            case _:
                pass
        is_zip = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip"
        for name, value in ast.iter_fields(node):
            if is_zip and name == "keywords":
                continue
            for child in value if isinstance(value, list) else (value,):
                yield from self._child(child)


def _text(node: ast.BinOp) -> bool:
    """Whether an operand is a literal text: there the sign joins or formats, or joins types."""
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and not isinstance(side.value, int | float))
        for side in (node.left, node.right)
    )


def _only_says(node: ast.If) -> bool:
    """Whether a condition decides on nothing but a log's line, or what a type checker reads."""
    if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    return not node.orelse and all(
        isinstance(below, ast.Expr) and isinstance(below.value, ast.Call) and _says(below.value) for below in node.body
    )


def _says(call: ast.Call) -> bool:
    """Whether a call only logs or prints."""
    return isinstance(call.func, ast.Attribute | ast.Name) and (
        (call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id) in SAYING
    )
