"""The picture of the source tree, docs/architecture.svg: floors as bands, rooms as boxes, imports as arrows.

    python -m tools.rooms > docs/architecture.svg        (`make docs` does it)

A picture that is drawn by hand is wrong after the next change of structure.

Everything is derived from the imports of the code (tools/imports.py, tools/graph.py), without a random number or a
measured font, so that the same tree gives the same bytes and a test can compare. It is a layered drawing (Sugiyama,
Tagawa and Toda 1981): a room stands in a row below those that import it, a long arrow passes each row at a place of its
own between the boxes, rows are ordered by the mean place of their neighbours, and places are then relaxed towards that
mean. An import against the stack is red.

Limits: imports of the model floor are not drawn, because nearly every room has them. Nor is an import that a chain of
arrows implies. Text is sized for a sans-serif font and 1000 pixels.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tools.graph import Edge, levels, reduced, split
from tools.imports import PACKAGE, Rooms, rooms
from tools.tree import PACKAGES

FLOORS = ("local", "lab", "cli", "services", "drivers", "engine", "policy", "model")
SUBJECTS = {  # two lines below the name of the floor
    "cli": ("parse, call, print", ""),
    "services": ("the processes", ""),
    "local": ("cotenant-local:", "a cluster"),
    "lab": ("cotenant-lab:", "a world"),
    "drivers": ("the real world", ""),
    "engine": ("state machines", "without I/O"),
    "policy": ("pure decisions", ""),
    "model": ("values and arrays", ""),
}
COLOURS = {
    "cli": "#6b7280",
    "services": "#2563eb",
    "local": "#0891b2",
    "lab": "#7c3aed",
    "drivers": "#b45309",
    "engine": "#15803d",
    "policy": "#be185d",
    "model": "#374151",
}
AGAINST = "#dc2626"

WIDTH = 1000
MARGIN = 8
LEFT = 112  # where rooms begin; the names of the floors are left of it
BOX = (102, 34)
GAP = 10
LANE = 8  # the width that a passing arrow takes in a row
ROW = 60
BAND = 14  # space of a band above its first and below its last row of boxes
SPACE = 16  # between bands
CAPACITY = 7  # boxes of rooms without imports in their floor, in a row


@dataclass(slots=True, eq=False)
class Place:
    """Something that takes width in a row: a room, or the passage of arrows (`room` is empty)."""

    room: str
    row: int
    x: float = 0.0
    above: "list[Place]" = field(default_factory=list)
    below: "list[Place]" = field(default_factory=list)

    def aim(self) -> float:
        """The mean place of its neighbours in other rows."""
        near = self.above + self.below
        return sum(other.x for other in near) / len(near) if near else self.x


@dataclass(frozen=True, slots=True)
class Band:
    """The band of a floor: its rooms by row, top to bottom, the first row's number, and the y of the band."""

    floor: str
    rooms: Sequence[Sequence[str]]
    first: int
    top: float

    @property
    def rows(self) -> int:
        """The rows that it takes."""
        return len(self.rooms)

    @property
    def height(self) -> float:
        """In pixels."""
        return self.rows * ROW - (ROW - BOX[1]) + 2 * BAND


def picture(tree: Rooms) -> str:
    """The SVG text."""
    forward, backward = split({edge: count for edge, count in tree.imports.items() if not _into_model(edge)})
    bands = _bands(tree, forward)
    tops = [band.top + BAND + ROW * row for band in bands for row in range(band.rows)]
    boxes, chains = _places(bands, reduced(forward))
    _arrange(boxes, chains)
    bottom = bands[-1].top + bands[-1].height
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 54:.0f}" width="{WIDTH}" '
        'font-family="DejaVu Sans, Verdana, sans-serif">',
        f"<title>The rooms of {PACKAGE} and what they import</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *(line for band in bands for line in _band(tree, band)),
        *_arrows(chains, tops),
        *(_against(boxes[source], boxes[target], tops) for source, target in backward),
        *(_box(boxes[room], tree.files[room], tops) for room in sorted(boxes)),
        *_legend(bottom, len(tree.imports), sum(tree.files.values())),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _into_model(edge: Edge) -> bool:
    source, target = (room.split("/")[0] for room in edge)
    return target == "model" and source != "model"


def _bands(tree: Rooms, forward: Sequence[Edge]) -> list[Band]:
    bands: list[Band] = []
    first, top = 0, float(MARGIN)
    for floor in FLOORS:
        band = Band(floor, _rows(tree.floor(floor), forward, CAPACITY), first, top)
        bands.append(band)
        first, top = first + band.rows, top + band.height + SPACE
    return bands


def _rows(names: Sequence[str], forward: Sequence[Edge], capacity: int) -> list[list[str]]:
    """The rooms of one floor by row. Rooms that neither import one of their floor nor are imported by one fill up
    the shortest rows.
    """
    level = levels(names, forward)
    linked = {room for edge in forward if level.keys() >= set(edge) for room in edge}
    rows: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for name in names:
        if name in linked:
            rows[level[name]].append(name)
    for name in names:
        if name not in linked:
            if min(len(row) for row in rows) >= capacity:
                rows.append([])
            min(rows, key=len).append(name)
    return rows


def _places(bands: Sequence[Band], edges: Sequence[Edge]) -> tuple[dict[str, Place], list[list[Place]]]:
    """The boxes by room, and for each arrow its box, its passages and its last box. Arrows from one floor to one
    room share passages.
    """
    boxes = {
        room: Place(room, band.first + row) for band in bands for row, names in enumerate(band.rooms) for room in names
    }
    passages: dict[tuple[str, str, int], Place] = {}
    chains = []
    for source, target in edges:
        chain = [boxes[source]]
        floor = source.split("/")[0]
        between = range(boxes[source].row + 1, boxes[target].row)
        chain += [passages.setdefault((floor, target, row), Place("", row)) for row in between]
        chain.append(boxes[target])
        for upper, lower in pairwise(chain):
            if lower not in upper.below:
                upper.below.append(lower)
                lower.above.append(upper)
        chains.append(chain)
    return boxes, chains


def _arrange(boxes: Mapping[str, Place], chains: Sequence[Sequence[Place]]) -> None:
    """Set every x: order each row by the mean place of the neighbours, keep distances, again and again, downwards
    and upwards.
    """
    rows: dict[int, list[Place]] = {}
    for place in [*boxes.values(), *dict.fromkeys(place for chain in chains for place in chain if not place.room)]:
        rows.setdefault(place.row, []).append(place)
    for row in rows.values():
        for at, place in enumerate(row):
            place.x = LEFT + (WIDTH - MARGIN - LEFT) * (at + 0.5) / len(row)
    for sweep in range(60):
        for number in sorted(rows, reverse=bool(sweep % 2)):
            inside = rows[number]
            aims = {id(place): place.aim() for place in inside}
            inside.sort(key=lambda place: (round(aims[id(place)], 3), place.room))
            left, right = LEFT, WIDTH - MARGIN
            widths = _widths(inside, right - left)
            for place, x in zip(inside, _apart([aims[id(place)] for place in inside], widths, left, right)):
                place.x = x


def _widths(row: Sequence[Place], space: float) -> list[float]:
    """What each place takes of the row, with the space to its neighbours; passages move together where the row is
    full.
    """
    boxes = sum(BOX[0] + GAP for place in row if place.room)
    passages = sum(not place.room for place in row)
    lane = min(LANE, max(0.0, space - boxes) / passages) if passages else 0.0
    return [BOX[0] + GAP if place.room else lane for place in row]


def _apart(aims: Sequence[float], widths: Sequence[float], left: float, right: float) -> list[float]:
    """Centres as near to the aims as their order and widths allow (isotonic regression by pooling), between `left`
    and `right`.
    """
    starts, at = [], 0.0
    for width in widths:
        starts.append(at + width / 2)
        at += width
    pools: list[tuple[float, int]] = []
    for aim, start in zip(aims, starts):
        total, count = aim - start, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            total, count = total + pools[-1][0], count + pools.pop()[1]
        pools.append((total, count))
    shifts = [min(max(total / count, left), max(right - at, left)) for total, count in pools for _ in range(count)]
    return [shift + start for shift, start in zip(shifts, starts)]


def _arrows(chains: Sequence[Sequence[Place]], tops: Sequence[float]) -> list[str]:
    lines = []
    for chain in chains:
        first, last = chain[0], chain[-1]
        x, y = _port(first, chain[1], first.below), tops[first.row] + BOX[1]
        path = [f"M{x:.1f} {y:.1f}"]
        for place in chain[1:]:
            to = _port(place, chain[-2], place.above) if place is last else place.x
            end = tops[place.row] - (5 if place is last else 0)
            middle = (y + end) / 2
            path.append(f"C{x:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {end:.1f}")
            x, y = to, end
            if place is not last:
                y = tops[place.row] + BOX[1]
                path.append(f"V{y:.1f}")
        floor = first.room.split("/")[0]
        lines.append(
            f'<path d="{"".join(path)}" fill="none" stroke="{COLOURS[floor]}" stroke-width="1.2" '
            'stroke-opacity="0.75"/>'
            f'<path d="M{x - 3:.1f} {y - 1:.1f}h6l-3 6z" fill="{COLOURS[floor]}"/>'
        )
    return lines


def _port(box: Place, other: Place, others: Sequence[Place]) -> float:
    """Where on the edge of a box the arrow from or to `other` begins or ends: side by side in the order of the
    others.
    """
    order = sorted(others, key=lambda place: (place.x, place.row, place.room))
    step = min(14.0, (BOX[0] - 14) / len(order))
    return box.x + step * (order.index(other) - (len(order) - 1) / 2)


def _against(source: Place, target: Place, tops: Sequence[float]) -> str:
    """An arrow up, from the top of the importing box to the bottom of the imported one, beside those that go down."""
    x, y, to, end = (
        source.x + BOX[0] / 2 - 6,
        tops[source.row],
        target.x + BOX[0] / 2 - 6,
        tops[target.row] + BOX[1] + 5,
    )
    middle = (y + end) / 2
    return (
        f'<path d="M{x:.1f} {y:.1f}C{x:.1f} {middle:.1f} {to:.1f} {middle:.1f} {to:.1f} {end:.1f}" fill="none" '
        f'stroke="{AGAINST}" '
        f'stroke-width="1.4" stroke-dasharray="4 3"/><path d="M{to - 3:.1f} {end + 1:.1f}h6l-3 -6z" fill="{AGAINST}"/>'
    )


def _band(tree: Rooms, band: Band) -> list[str]:
    floor, colour = band.floor, COLOURS[band.floor]
    count = sum(tree.files[room] for room in tree.floor(floor))
    left, top = MARGIN + 8, band.top + 22
    words = [words for words in (*SUBJECTS[floor], f"{count} files") if words]
    return [
        f'<rect x="{MARGIN}" y="{band.top:.1f}" width="{WIDTH - 2 * MARGIN}" height="{band.height:.1f}" rx="6" '
        f'fill="{colour}" fill-opacity="0.07" '
        f'stroke="{colour}" stroke-opacity="0.35"/>',
        _text(left, top, floor, 15, colour, "start", bold=True),
        *(_text(left, top + 15 + 12 * line, text, 10, "#4b5563", "start") for line, text in enumerate(words)),
    ]


def _box(place: Place, count: int, tops: Sequence[float]) -> str:
    floor, _, name = place.room.partition("/")
    top = tops[place.row]
    return (
        f'<rect x="{place.x - BOX[0] / 2:.1f}" y="{top:.1f}" width="{BOX[0]}" height="{BOX[1]}" rx="4" fill="#ffffff" '
        f'stroke="{COLOURS[floor]}" '
        f'stroke-width="1.4"/>{_text(place.x, top + 15, name or f"{floor}/*.py", 12, "#111827", "middle", bold=True)}'
        f"{_text(place.x, top + 28, f'{count} file' + 's' * (count != 1), 10, '#4b5563', 'middle')}"
    )


def _legend(bottom: float, imports: int, files: int) -> list[str]:
    lines = (
        f"{files} files. A box is a room; an arrow leads from a room to one that it imports, in the colour of the "
        "importing floor; "
        "dashed red: against the stack.",
        f"Of {imports} pairs of rooms those are drawn that no chain of arrows implies. Imports of model from other "
        "floors are left out: "
        "nearly every room has them.",
    )
    return [_text(MARGIN, bottom + 20 + 16 * at, line, 11, "#374151", "start") for at, line in enumerate(lines)]


def _text(x: float, y: float, words: str, size: int, colour: str, anchor: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}"{weight}>{words}</text>'
    )


if __name__ == "__main__":
    sys.stdout.write(picture(rooms(PACKAGES.values())))
