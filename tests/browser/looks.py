"""Golden images that another machine's fonts do not break.

A screenshot compared pixel by pixel differs with every font, hinting and version of Chromium; without a comparison, a
panel that vanished or a dark page with light colours passes every other test. Two comparisons with different blind
spots.

- `Grid`: the mean colour of squares of 20 px and whether there is ink in them (text or an edge), kept as an image with
  a pixel a square (`golden/`: colours above, ink below). A colour agrees if it is within `TOLERANCE` of the range of
  colours that the golden image has in the square and its neighbours, ink if there is some in a neighbouring square of
  the other picture: text of another width moves by less than that. Few squares may disagree; a test renders the page in
  other families of fonts and measures that they stay below.
- `overlaps`: boxes of siblings in the header, the page and its panels must not overlap: exact on every machine, and
  what means of colours do not see.

Limits: text itself is not compared; a change of less than about 25 squares of 20 px (a button, an icon) is not seen.
`CONSOLE_GOLDEN=write` keeps what is seen as the new golden images; look at them before they are committed.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = Path(__file__).parent / "golden"
SQUARE = 20  # pixels
TOLERANCE = 26.0  # of 255, beyond the range of the golden neighbourhood
INKED = 60.0  # of 255: from the darkest to the lightest pixel of a square with text or an edge
ALLOWED_COLOUR, ALLOWED_INK = 0.05, 0.1

Grid = NDArray[np.float64]  # rows, columns; red, green, blue, ink

_READ = """async ([data, square]) => {
  const image = new Image(); image.src = "data:image/png;base64," + data; await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height), pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  const pixels = pen.getImageData(0, 0, image.width, image.height).data, means = [];
  const wide = Math.floor(image.width / square), high = Math.floor(image.height / square);
  for (let y = 0; y < high; y++) for (let x = 0; x < wide; x++) {
    const sum = [0, 0, 0]; let low = 255, top = 0;
    for (let j = 0; j < square; j++) for (let i = 0; i < square; i++) {
      const at = 4 * ((y * square + j) * image.width + x * square + i);
      const grey = (pixels[at] + pixels[at + 1] + pixels[at + 2]) / 3;
      low = Math.min(low, grey); top = Math.max(top, grey);
      for (let c = 0; c < 3; c++) sum[c] += pixels[at + c] / square / square; }
    means.push(...sum, top - low); }
  return [high, wide, means] }"""

_WRITE = """([high, wide, means]) => {
  const canvas = document.createElement("canvas"); canvas.width = wide; canvas.height = 2 * high;
  const pen = canvas.getContext("2d"), image = pen.createImageData(wide, 2 * high);
  for (let k = 0; k < high * wide; k++) for (let c = 0; c < 4; c++) {
    image.data[4 * k + c] = c < 3 ? Math.round(means[4 * k + c]) : 255;
    image.data[4 * (k + high * wide) + c] = c < 3 ? Math.round(means[4 * k + 3]) : 255; }
  pen.putImageData(image, 0, 0); return canvas.toDataURL("image/png").split(",")[1] }"""

_OVERLAPS = """() => {
  const bad = [], name = (e) => `${e.tagName.toLowerCase()}.${e.getAttribute("class") || ""}`;
  const parents = "#app, #app header, main > *, .split, .side, .controls, .story, .pods, .services";
  for (const parent of document.querySelectorAll(parents)) {
    const flows = (e) => !["absolute", "fixed"].includes(getComputedStyle(e).position)
      || e.matches("header, main, nav, .side, .main");
    const boxes = [...parent.children].filter(flows).map((e) => [e, e.getBoundingClientRect()])
      .filter(([, r]) => r.width > 1 && r.height > 1);
    for (const [k, [a, p]] of boxes.entries()) for (const [b, q] of boxes.slice(k + 1)) {
      if (getComputedStyle(a).float !== "none" || getComputedStyle(b).float !== "none") continue;
      const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (x > 2 && y > 2) bad.push(`${name(a)} and ${name(b)} overlap by ${Math.round(x)} x ${Math.round(y)} px`); } }
  return bad }"""


def read(blank: Any, png: bytes, square: int = SQUARE) -> Grid:
    """The mean colours and the ink of a picture's squares. `blank`: a page without a policy, which decodes it."""
    high, wide, means = blank.evaluate(_READ, [base64.b64encode(png).decode(), square])
    return np.asarray(means).reshape(high, wide, 4)


def golden(blank: Any, name: str) -> Grid:
    """The golden image of that name."""
    both = read(blank, (GOLDEN / f"{name}.png").read_bytes(), square=1)
    colours, ink = np.split(both, 2)
    return np.concatenate((colours[:, :, :3], ink[:, :, :1]), axis=2)


def keep(blank: Any, name: str, seen: Grid) -> None:
    """Make what is seen the golden image."""
    GOLDEN.mkdir(exist_ok=True)
    high, wide, _ = seen.shape
    data = blank.evaluate(_WRITE, [high, wide, [float(value) for value in seen.ravel()]])
    (GOLDEN / f"{name}.png").write_bytes(base64.b64decode(data))


def differences(seen: Grid, kept: Grid) -> tuple[float, float]:
    """Two shares: of the squares whose colour is not near those of the golden neighbourhood, and of the inked
    squares without ink nearby in the other picture. 1 where the sizes differ.
    """
    if seen.shape != kept.shape:
        return 1.0, 1.0
    around = _neighbours(kept[:, :, :3])
    is_near = (seen[:, :, :3] >= around.min(0) - TOLERANCE) & (seen[:, :, :3] <= around.max(0) + TOLERANCE)
    ours, theirs = seen[:, :, 3] > INKED, kept[:, :, 3] > INKED
    lonely = (ours & ~_neighbours(theirs).any(0)) | (theirs & ~_neighbours(ours).any(0))
    return float(1.0 - is_near.all(axis=2).mean()), float(lonely.sum() / max(1, (ours | theirs).sum()))


def faults(page: Any, blank: Any, name: str, seen: Grid) -> list[str]:
    """What is wrong with a picture of `page`: it differs from its golden image, or boxes overlap.
    `CONSOLE_GOLDEN=write` makes it the golden image.
    """
    if os.environ.get("CONSOLE_GOLDEN") == "write":
        keep(blank, name, seen)
    colour, ink = differences(seen, golden(blank, name))
    found = []
    if colour > ALLOWED_COLOUR or ink > ALLOWED_INK:
        found.append(f"{colour:.0%} of the squares in colour, {ink:.0%} in ink unlike tests/browser/golden/{name}.png")
    return found + overlaps(page)


def _neighbours(grid: NDArray[Any]) -> NDArray[Any]:
    """The grid moved by one square in each direction, nine of them."""
    high, wide = grid.shape[:2]
    padded = np.pad(grid, ((1, 1), (1, 1), *((0, 0) for _ in grid.shape[2:])), mode="edge")
    return np.stack([padded[j : j + high, i : i + wide] for j in range(3) for i in range(3)])


def overlaps(page: Any) -> list[str]:
    """Siblings that lie on one another."""
    found: list[str] = page.evaluate(_OVERLAPS)
    return found
