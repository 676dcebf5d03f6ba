"""A chart's SVG as PNG, for places that show no SVG.

Resvg, which is one wheel, and a font file of the system that is named, so that the same chart looks the same on every
machine that has it.
Limits: a font of the list must be installed; nothing but the radar charts of this folder was tried.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from cotenant.model.errors import Unsupported

_FONT_DIRS = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"))
_FONTS = (
    ("DejaVuSans.ttf", "DejaVu Sans"),
    ("LiberationSans-Regular.ttf", "Liberation Sans"),
    ("NotoSans-Regular.ttf", "Noto Sans"),
)
_ZOOM = 2.0  # readable on screens with two pixels a point


def rendered(svg: str) -> bytes:
    """The PNG, at two pixels a unit. Raises `Unsupported` as `check`."""
    font, family = check()
    import resvg_py

    return resvg_py.svg_to_bytes(
        svg_string=svg, zoom=_ZOOM, skip_system_fonts=True, font_files=[str(font)], sans_serif_family=family
    )


def check(font_dirs: Sequence[Path] = _FONT_DIRS) -> tuple[Path, str]:
    """The font's file and family. Raises `Unsupported` without a font or resvg."""
    if importlib.util.find_spec("resvg_py") is None:
        raise Unsupported("a chart as PNG", "resvg: pip install 'cotenant[png]'; FILE.svg needs nothing")
    for name, family in _FONTS:
        for folder in font_dirs:
            for found in sorted(folder.rglob(name)):
                return found, family
    raise Unsupported("a chart as PNG", "a font for its words, as of Debian's fonts-dejavu-core; FILE.svg needs none")
