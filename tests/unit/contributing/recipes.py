"""Reads the recipes of docs/recipes and applies their blocks to a tree.

A block with `file=PATH` is the whole of a new file. A `diff` block changes PATH: `+` lines are added and `-` lines
removed where its other lines stand; `@@` separates changes. A change whose lines are not in the file exactly once, or
that lacks lines to stand at, raises `Stale`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```(?P<language>\w+) file=(?P<path>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Stale(AssertionError):
    """The page and the tree disagree."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a recipe."""

    path: str  # from the root of the repository
    text: str
    is_diff: bool

    def apply(self, root: Path) -> None:
        """Write the new file, or make the changes. Raises `Stale`."""
        path = root / self.path
        if not self.is_diff:
            if path.exists():
                raise Stale(f"{self.path} exists already")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text)
            return
        if not path.is_file():
            raise Stale(f"{self.path} does not exist")
        lines = path.read_text().split("\n")
        for change in filter(None, _changes(self.text)):
            lines = _changed(lines, change, self.path)
        path.write_text("\n".join(lines))

    def without(self, text: str) -> Block:
        """The block without the change that contains this text."""
        kept = [change for change in _changes(self.text) if not any(text in line for line in change)]
        return Block(self.path, "\n@@\n".join("\n".join(change) for change in kept) or "@@", self.is_diff)


def blocks(page: str) -> tuple[Block, ...]:
    """The blocks of one recipe, in its order."""
    return tuple(Block(match["path"], match["text"], match["language"] == "diff") for match in _BLOCK.finditer(page))


def _changes(text: str) -> list[list[str]]:
    changes: list[list[str]] = [[]]
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("@@"):
            changes.append([])
        else:
            changes[-1].append(line)
    return changes


def _changed(lines: Sequence[str], change: Sequence[str], path: str) -> list[str]:
    odd = [line for line in change if line and line[0] not in " +-"]
    if odd:
        raise Stale(f"{path}: neither kept, added nor removed: {odd[0]!r}")
    before = [line[1:] for line in change if not line.startswith("+")]
    after = [line[1:] for line in change if not line.startswith("-")]
    places = [i for i in range(len(lines) - len(before) + 1) if list(lines[i : i + len(before)]) == before]
    if not before or len(places) != 1:
        raise Stale(f"{path}: these lines stand there {len(places)} times instead of once: {before}")
    return [*lines[: places[0]], *after, *lines[places[0] + len(before) :]]
