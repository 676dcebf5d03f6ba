"""The rooms of the three packages, and which room imports which.

A description of the structure that is maintained by hand becomes wrong with the first moved file.

A room is a folder directly below a floor (`engine/cycle`), together with everything below that folder; the modules that
lie directly in a floor's folder are a room of the floor's own name (`engine`). The packages beside the product are a
floor each (`lab/world` is `cotenant_lab/world`). Imports are read from the syntax tree, wherever in a file they are,
and count once for each name imported. The packages' `__init__` files are read for imports and not counted as files.

Limits: imports by a computed name are not seen.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

PACKAGE = "cotenant"
_ASIDE = {"cotenant_lab": "lab", "cotenant_local": "local"}  # the floors of the other packages


class Rooms(NamedTuple):
    """files: room -> number of modules; imports: (importing room, imported room) -> number of imported names."""

    files: Mapping[str, int]
    imports: Mapping[tuple[str, str], int]

    def floor(self, name: str) -> tuple[str, ...]:
        """The rooms of one floor, by name."""
        return tuple(room for room in sorted(self.files) if room.split("/")[0] == name)


def rooms(sources: Iterable[Path]) -> Rooms:
    """The rooms below `sources`, the folders of the packages."""
    owner = {path: source for source in sources for path in sorted(source.rglob("*.py"))}
    paths = {_module(path, source): path for path, source in owner.items()}
    files: Counter[str] = Counter()
    imports: Counter[tuple[str, str]] = Counter()
    for path in paths.values():
        here = _room(path, owner[path])
        if not here:
            continue
        files[here] += path.name != "__init__.py"
        for module in _imported(ast.parse(path.read_text()), paths):
            there = _room(paths[module], owner[paths[module]])
            if there and there != here:
                imports[here, there] += 1
    return Rooms({room: count for room, count in files.items() if count}, dict(imports))


def _module(path: Path, source: Path) -> str:
    parts = path.relative_to(source.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room(path: Path, source: Path) -> str:
    folders = path.relative_to(source).parent.parts
    return "/".join(([_ASIDE[source.name], *folders] if source.name in _ASIDE else folders)[:2])


def _imported(tree: ast.Module, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in _statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield from (name for name in [whole if whole in modules else node.module] if name in modules)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All below, without the expressions, which are most of a tree."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from _statements(child)
