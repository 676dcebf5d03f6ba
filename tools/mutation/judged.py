"""Changes that make no difference, judged by hand: `equivalents.toml`, each with its reason.

An entry names a change by what is written there and not by its line, so that it stays true while the file around it
changes, and matches nothing once the code itself has.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tools.mutation.operators import Change

JUDGED = Path(__file__).with_name("equivalents.toml")


class Judged(NamedTuple):
    """file: below the sources; inside: the function or class, `Class.method`, empty at the module's level; line: the
    lines that are changed, on one line; becomes: the same, changed.
    """

    file: str
    inside: str
    line: str
    becomes: str


def named(file: str, source: str, change: Change) -> Judged:
    """What an entry for this change says."""
    begin = source.rfind("\n", 0, change.begin) + 1
    end = source.find("\n", change.end)
    end = len(source) if end < 0 else end
    after = source[begin : change.begin] + change.replacement + source[change.end : end]
    return Judged(file, _inside(source, change.line), _on_one_line(source[begin:end]), _on_one_line(after))


def read(path: Path) -> Mapping[Judged, str]:
    """The reason of each entry. Raises `ValueError` where one has none or is there twice."""
    found: dict[Judged, str] = {}
    for entry in tomllib.loads(path.read_text()).get("equivalent", []):
        judged = Judged(**{name: entry[name] for name in Judged._fields})
        if judged in found or not entry["why"].strip():
            raise ValueError(f"{path}: one entry with a reason each, but for {judged}")
        found[judged] = entry["why"]
    return found


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _inside(source: str, line: int) -> str:
    names: list[str] = []
    body: list[ast.AST] = [_parsed(source)]
    while body:
        node = body.pop()
        for child in ast.iter_child_nodes(node):
            if not getattr(child, "lineno", 0) <= line <= (getattr(child, "end_lineno", 0) or 0):
                continue
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.append(child.name)
            body = [child]
    return ".".join(names)


@lru_cache(maxsize=8)
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)
